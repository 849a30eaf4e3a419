//! Bounds on globs and on the lines of ignore files, checked before they are compiled.
//!
//! Globs become regular expressions by recursion over their braces, and then one automaton. Deep nesting would exhaust
//! the stack, and long or many patterns memory and time.

use crate::types::WorkspaceError;

/// Globs of one call.
const MAX_GLOBS: usize = 100;
/// Bytes of the globs of one call together.
const MAX_GLOB_BYTES: usize = 16 * 1024;
/// Bytes of one glob, or of one line of an ignore file.
const MAX_PATTERN_BYTES: usize = 1024;
/// Levels of nested braces in one pattern.
const MAX_NESTING: usize = 8;
/// File types of one call.
const MAX_TYPES: usize = 100;

/// Refuses too many or too complex globs.
pub(super) fn check_globs(globs: &[String]) -> Result<(), WorkspaceError> {
    if globs.len() > MAX_GLOBS {
        return Err(invalid(format!("{} globs, of at most {MAX_GLOBS}", globs.len())));
    }
    let bytes: usize = globs.iter().map(String::len).sum();
    if bytes > MAX_GLOB_BYTES {
        return Err(invalid(format!("globs of {bytes} bytes together, of at most {MAX_GLOB_BYTES}")));
    }
    match globs.iter().find(|glob| !is_simple(glob)) {
        None => Ok(()),
        Some(glob) => Err(invalid(format!(
            "glob `{}` is longer than {MAX_PATTERN_BYTES} bytes or nests more than {MAX_NESTING} braces",
            &glob[..glob.floor_char_boundary(40)]
        ))),
    }
}

/// Refuses too many file types.
pub(super) fn check_types(names: &[String]) -> Result<(), WorkspaceError> {
    match names.len() {
        0..=MAX_TYPES => Ok(()),
        many => Err(invalid(format!("{many} file types, of at most {MAX_TYPES}"))),
    }
}

/// Returns whether a pattern can be compiled within bounds.
pub(super) fn is_simple(pattern: &str) -> bool {
    let mut nesting = 0_usize;
    let mut deepest = 0;
    for byte in pattern.bytes() {
        match byte {
            b'{' => nesting += 1,
            b'}' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(nesting);
    }
    pattern.len() <= MAX_PATTERN_BYTES && deepest <= MAX_NESTING
}

/// Estimates the bytes of a compiled line of an ignore file.
pub(super) fn cost(line: &str) -> u64 {
    let is_literal = !line.bytes().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'{'));
    let bytes = line.len() as u64;
    if is_literal { 512 + 4 * bytes } else { 1024 + 256 * bytes }
}

fn invalid(text: String) -> WorkspaceError {
    WorkspaceError::InvalidPattern(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_bounded_in_number_bytes_and_nesting() {
        let globs = |glob: &str, times: usize| vec![glob.to_owned(); times];
        assert!(check_globs(&globs("**/*.{rs,toml}", 100)).is_ok());
        assert!(check_globs(&globs("a", 101)).is_err());
        assert!(check_globs(&globs(&"a".repeat(1000), 17)).is_err());
        assert!(check_globs(&globs(&"a".repeat(1025), 1)).is_err());
        assert!(check_globs(&globs(&"{".repeat(9), 1)).is_err());
    }
}
