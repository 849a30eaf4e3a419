//! Authentication headers, and the secrets in them.

use pinion_protocol::ProviderError;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::SecretString;

/// The headers made from a key.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    /// Values besides the key that must not appear in an error or a recording.
    pub(crate) secrets: Vec<SecretString>,
}

/// Returns a key without the characters that editors and copied lines leave around it: blanks, byte order marks, and
/// spaces without width.
pub(crate) fn trimmed(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || ['\u{feff}', '\u{200b}'].contains(&c))
}

/// Builds a header value that is excluded from debug output and recordings.
pub(crate) fn secret_value(what: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let value = trimmed(value);
    let message = || format!("{what} contains {}, which is not allowed in a header", fault(value));
    // `HeaderValue` takes bytes that are not ASCII, and no key has any.
    let allowed = value.is_ascii().then(|| HeaderValue::from_str(value).ok()).flatten();
    let mut value = allowed.ok_or_else(|| ProviderError::Auth { message: message() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Names the first kind of character in a value that a header cannot have, without repeating it.
fn fault(value: &str) -> &'static str {
    match value.chars().find(|c| c.is_control() || !c.is_ascii()) {
        Some('\n' | '\r') => "a line break",
        Some(c) if c.is_control() => "a control character",
        _ => "a character other than ASCII",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_blanks_around_a_key_are_no_part_of_it() {
        for key in ["sk-1", " sk-1\r\n", "\u{feff}sk-1\n", "\u{200b}sk-1\u{a0}", "\n\u{feff} sk-1 \u{feff}"] {
            assert_eq!(secret_value("the key", key).unwrap(), "sk-1", "{key:?}");
        }
    }

    #[test]
    fn character_that_a_header_cannot_have_is_named_by_its_kind() {
        for (key, part) in [
            ("sk-1\nsk-2", "a line break"),
            ("sk\u{0}1", "a control character"),
            ("sk–1", "a character other than ASCII"),
        ] {
            let error = secret_value("the key", key).unwrap_err().to_string();
            assert!(error.contains(&format!("the key contains {part}, which")) && !error.contains("sk"), "{error}");
        }
    }
}
