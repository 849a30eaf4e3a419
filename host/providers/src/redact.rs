//! Keeps keys out of error text, also when a vendor's answer repeats them.

use secrecy::{ExposeSecret, SecretString};

/// Shorter values are not searched for: they would match ordinary words.
const MIN_SECRET: usize = 8;

const MARK: &str = "[redacted]";

/// The secrets of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    secrets: Vec<SecretString>,
}

impl Redactor {
    /// Guards `secrets`.
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let trimmed = secrets.into_iter().map(|secret| SecretString::from(secret.expose_secret().trim()));
        Self { secrets: trimmed.filter(|secret| secret.expose_secret().len() >= MIN_SECRET).collect() }
    }

    /// `text` without the secrets, whole or in part: vendors like to answer `sk-ab******yz`.
    pub(crate) fn clean(&self, mut text: String) -> String {
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                text = text.replace(secret, MARK);
            }
            if has_mask(&text) {
                text = without_masked(&text, secret);
            }
        }
        text
    }
}

fn has_mask(text: &str) -> bool {
    text.contains("**") || text.contains("..") || text.contains('…')
}

/// Replaces every word that holds a mask and begins as the secret does.
fn without_masked(text: &str, secret: &str) -> String {
    let head: String = secret.chars().take(3).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        Redactor::new([SecretString::from("sk-live-0123456789")]).clean(text.to_owned())
    }

    #[test]
    fn a_key_is_replaced_wherever_it_stands() {
        assert_eq!(clean("bad key sk-live-0123456789, \"sk-live-0123456789\""), "bad key [redacted], \"[redacted]\"");
    }

    #[test]
    fn a_masked_key_is_replaced_too() {
        assert_eq!(clean("key provided: sk-li****6789. See"), "key provided: [redacted] See");
        assert_eq!(clean("key 'sk-l...89' is wrong"), "key '[redacted]' is wrong");
        assert_eq!(clean("please wait... sk-other is fine"), "please wait... sk-other is fine");
    }

    #[test]
    fn short_secrets_are_left_alone() {
        assert_eq!(Redactor::new([SecretString::from("key")]).clean("a key".to_owned()), "a key");
    }

    #[test]
    fn a_debug_print_does_not_show_the_secret() {
        let redactor = Redactor::new([SecretString::from("sk-live-0123456789")]);
        assert!(!format!("{redactor:?}").contains("0123"));
    }
}
