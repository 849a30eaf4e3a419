//! Masked secrets, such as `sk-ab******yz` in the answer of a vendor.

use super::MARK;

/// Returns whether a credential is a single word. Excludes documents, private keys and URLs, whose first characters are
/// common to many texts.
pub(super) fn can_be_masked(value: &str) -> bool {
    let value = value.trim();
    !value.contains(char::is_whitespace) && !value.contains("://") && !value.starts_with(['{', '-'])
}

pub(super) fn has_mask(text: &str) -> bool {
    text.contains("**") || text.contains("..") || text.contains('…')
}

/// Replaces every word that contains a mask and starts like the secret.
pub(super) fn without_masked(text: &str, secret: &str) -> String {
    let head: String = secret.trim().chars().take(3).collect();
    text.split_inclusive(is_boundary)
        .map(|word| {
            let (bare, end) = word.strip_suffix(is_boundary).map_or((word, ""), |bare| (bare, &word[bare.len()..]));
            match has_mask(bare) && bare.starts_with(&head) && bare.trim_end_matches('.').len() > head.len() {
                true => format!("{MARK}{end}"),
                false => word.to_owned(),
            }
        })
        .collect()
}

fn is_boundary(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | ':' | '(' | ')' | '<' | '>' | '=')
}
