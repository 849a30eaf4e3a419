//! The table of Unix sockets, which other processes have bound to names.

use crate::error::SandboxError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Sockets that are covered at most; each is a mount.
const MAX_SOCKETS: usize = 4096;
/// Fields of a line before the name.
const FIELDS: usize = 7;

/// Returns the absolute names in a table of Unix sockets.
///
/// # Errors
/// There are too many.
pub(super) fn sockets_among(table: &[u8]) -> Result<BTreeSet<PathBuf>, SandboxError> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for line in table.split(|byte| *byte == b'\n').skip(1) {
        match name(line) {
            Some(name) => names.push(name.to_vec()),
            // A name may have more than one line.
            None => {
                if let Some(last) = names.last_mut() {
                    last.push(b'\n');
                    last.extend(line);
                }
            }
        }
    }
    // The table ends with a line.
    if let Some(last) = names.last_mut().filter(|last| last.ends_with(b"\n")) {
        last.pop();
    }
    let paths = names.iter().filter(|name| name.starts_with(b"/")).map(|name| Path::new(OsStr::from_bytes(name)));
    let found: BTreeSet<PathBuf> = paths.map(Path::to_owned).collect();
    match found.len() {
        ..=MAX_SOCKETS => Ok(found),
        more => Err(SandboxError::step(
            "hide the sockets of other programs",
            format!(
                "there are {more}, and at most {MAX_SOCKETS} can be covered\nhint: end the program that created them"
            ),
        )),
    }
}

/// Returns the name of a socket: the rest of the line behind seven fields and one space, which is empty for most.
/// `None` if this is not a line of a socket.
fn name(line: &[u8]) -> Option<&[u8]> {
    let is_number = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_hexdigit);
    let mut rest = line;
    for number in 0..FIELDS {
        let field = rest.trim_ascii_start();
        let end = field.iter().position(u8::is_ascii_whitespace).unwrap_or(field.len());
        let (field, after) = field.split_at(end);
        let is_sound = match number {
            0 => field.strip_suffix(b":").is_some_and(is_number),
            _ => is_number(field),
        };
        if !is_sound {
            return None;
        }
        rest = after;
    }
    Some(rest.strip_prefix(b" ").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";

    #[test]
    fn names_of_sockets_may_contain_anything() {
        let mut table = HEADER.as_bytes().to_vec();
        table.extend(
            b"0000000000000000: 00000002 00000000 00010000 0001 01 18033 /run/a b/s\n\
              0000000000000000: 00000002 00000000 00010000 0001 01 99 @abstract\n\
              0000000000000000: 00000003 00000000 00000000 0001 03 123456\n\
              0000000000000000: 00000003 00000000 00000000 0001 03     7  /x\n\
              0000000000000000: 00000002 00000000 00010000 0001 01 18035 /run/\xff\n\
              0000000000000000: 00000002 00000000 00010000 0001 01 18036 /run/two\nlines\n\
              0000000000000000: 00000002 00000000 00010000 0001 01 18034 /run/c\n",
        );
        let found = sockets_among(&table).unwrap();
        let expected: [&[u8]; 4] = [b"/run/a b/s", b"/run/c", b"/run/two\nlines", b"/run/\xff"];
        assert!(found.iter().map(|path| path.as_os_str().as_bytes()).eq(expected), "{found:?}");
    }

    #[test]
    fn more_sockets_than_can_be_covered_are_an_error() {
        let line = |at: usize| format!("0: 2 0 10000 1 1 {at} /run/{at}\n");
        let table = |count: usize| HEADER.to_owned() + &(0..count).map(line).collect::<String>();
        assert_eq!(sockets_among(table(MAX_SOCKETS).as_bytes()).unwrap().len(), MAX_SOCKETS);
        let error = sockets_among(table(MAX_SOCKETS + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("4097") && error.contains("hint:"), "{error}");
    }
}
