//! Keeps keys out of error text and recordings, also when a vendor's answer repeats them.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

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
        let forms = secrets.into_iter().flat_map(|secret| forms(secret.expose_secret().trim()));
        let mut secrets: Vec<SecretString> =
            forms.filter(|secret| secret.expose_secret().len() >= MIN_SECRET).collect();
        // One may be part of another: the longest goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets }
    }

    /// `json` with all its texts, the names of its fields included, [`clean`](Self::clean)ed.
    pub(crate) fn clean_json(&self, json: Value) -> Value {
        match json {
            Value::String(text) => Value::String(self.clean(text)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.clean_json(item)).collect()),
            Value::Object(fields) => {
                let clean = |(name, value)| (self.clean(name), self.clean_json(value));
                Value::Object(fields.into_iter().map(clean).collect())
            }
            other => other,
        }
    }

    /// [`Self::clean`] for text that was cut somewhere, perhaps in the middle of a secret: beginnings of secrets go too.
    pub(crate) fn clean_cut(&self, text: String) -> String {
        let cut = |text, secret: &SecretString| without_beginnings(text, secret.expose_secret());
        self.secrets.iter().fold(self.clean(text), cut)
    }

    /// `text` without the secrets, whole or masked: vendors like to answer `sk-ab******yz`.
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

/// Replaces whatever begins as the secret does, as far as it does.
fn without_beginnings(text: String, secret: &str) -> String {
    let Some(head) = secret.get(..head_of(secret)).filter(|head| text.contains(*head)) else { return text };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(head) {
        let same = rest[at..].chars().zip(secret.chars()).take_while(|(one, other)| one == other);
        let length: usize = same.map(|(c, _)| c.len_utf8()).sum();
        out.push_str(&rest[..at]);
        out.push_str(MARK);
        rest = &rest[at + length..];
    }
    out + rest
}

/// How much of a secret gives it away. What is JSON or PEM begins as any other.
fn head_of(secret: &str) -> usize {
    if secret.starts_with(['{', '-']) { 64 } else { MIN_SECRET }
}

/// A secret as it is, and as it stands in JSON, where that is not the same.
fn forms(secret: &str) -> Vec<SecretString> {
    let escaped = Value::from(secret).to_string();
    let escaped = escaped.trim_matches('"');
    let other = (escaped != secret).then(|| SecretString::from(escaped));
    std::iter::once(SecretString::from(secret)).chain(other).collect()
}

/// Is `text` what was recorded, where what was redacted may have been anything?
pub(crate) fn matches_redacted(recorded: &str, text: &str) -> bool {
    let pieces: Vec<&str> = recorded.split(MARK).collect();
    let [first, between @ .., last] = &pieces[..] else { return recorded == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in between {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
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
    fn a_key_is_found_in_json_however_it_is_escaped() {
        let redactor =
            Redactor::new([SecretString::from("{\"secret\": \"a\\b\"}"), SecretString::from("0123456789abc")]);
        let nested = serde_json::json!({ "0123456789abc": ["{\"secret\": \"a\\b\"}", 7, { "x": "0123456789abc!" }] });
        assert_eq!(redactor.clean_json(nested.clone()), serde_json::json!({ MARK: [MARK, 7, { "x": "[redacted]!" }] }));
        assert!(!redactor.clean(serde_json::json!({ "x": "{\"secret\": \"a\\b\"}" }).to_string()).contains("secret"));
    }

    #[test]
    fn what_was_redacted_may_have_been_anything() {
        assert!(matches_redacted("the key [redacted] is", "the key sk-1 is"));
        assert!(matches_redacted("a [redacted] b [redacted] c", "a 1 b 2 c") && matches_redacted("same", "same"));
        assert!(matches_redacted("[redacted]", "") && matches_redacted("a[redacted]", "a"));
        for (recorded, text) in
            [("a", "b"), ("a", "ab"), ("a [redacted] c", "a 1 d"), ("a [redacted] b [redacted]", "a c")]
        {
            assert!(!matches_redacted(recorded, text), "{recorded} {text}");
        }
    }

    #[test]
    fn a_key_that_was_cut_is_replaced_too() {
        let redactor = Redactor::new([SecretString::from("sk-live-0123456789")]);
        let cut = |text: &str| redactor.clean_cut(text.to_owned());
        assert_eq!(cut("`{\"key\": \"sk-live-0123`"), "`{\"key\": \"[redacted]`");
        assert_eq!(cut("sk-live-01… sk-live-0123456789 sk-liv"), "[redacted] [redacted] sk-liv");
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
