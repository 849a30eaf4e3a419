//! Masked secrets, such as `sk-ab******yz` in the answer of a vendor.

use super::MARK;

/// Characters of a public prefix that a mask shows.
const HEAD: usize = 3;

/// Returns the start of a key's public prefix, which identifies its mask: nothing here depends on the secret part.
/// Other credentials are not recognized.
pub(super) fn head(value: &str) -> Option<&str> {
    super::forms::prefix(value.trim()).get(..HEAD)
}

pub(super) fn has_mask(text: &str) -> bool {
    text.contains("**") || text.contains("..") || text.contains('…')
}

/// Replaces every word that contains a mask and starts with `head`.
pub(super) fn without_masked(text: &str, head: &str) -> String {
    text.split_inclusive(is_boundary)
        .map(|word| {
            let (bare, end) = word.strip_suffix(is_boundary).map_or((word, ""), |bare| (bare, &word[bare.len()..]));
            match has_mask(bare) && bare.starts_with(head) && bare.trim_end_matches('.').len() > head.len() {
                true => format!("{MARK}{end}"),
                false => word.to_owned(),
            }
        })
        .collect()
}

fn is_boundary(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | ':' | '(' | ')' | '<' | '>' | '=')
}
