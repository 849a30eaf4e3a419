//! Masked secrets: vendors like to answer `sk-ab******yz`.

use super::MARK;

/// Returns whether a credential is a single word. Documents, private keys and URLs begin as many texts do.
pub(super) fn can_be_masked(value: &str) -> bool {
    let value = value.trim();
    !value.contains(char::is_whitespace) && !value.contains("://") && !value.starts_with(['{', '-'])
}

pub(super) fn has_mask(text: &str) -> bool {
    text.contains("**") || text.contains("..") || text.contains('…')
}

/// Replaces every word that holds a mask and begins as the secret does.
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
