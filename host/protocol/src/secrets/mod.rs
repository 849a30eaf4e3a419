//! Redaction of the process's secrets: no eight consecutive characters of a secret may be output.
//!
//! [`Secrets`] contains every credential that the process has read. Code that reads a credential adds it before use;
//! code that receives external text cleans it. [`RedactedProvider`] and [`RedactedTools`] clean all output of models
//! and tools before it is displayed, stored or forwarded. The agent loop cleans each message again before it stores it.
//!
//! Secrets are found verbatim (ignoring case), in base64 and hex, in URL and JSON escapes, and reversed. Not covered:
//! other encodings, interspersed characters, and fragments in different parts of a message.

mod bytes;
mod forms;
mod grams;
mod json;
mod mask;
mod message;
mod provider;
mod shown;
mod stream;
mod tools;

pub use bytes::ByteRedactor;
pub use provider::RedactedProvider;
pub use tools::RedactedTools;

use grams::Grams;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Replaces redacted text.
const MARK: &str = "[redacted]";

/// Minimum length of a header value that is redacted as a whole.
const MIN_HEADER: usize = 8;

/// The secrets of a process. Clones share them; a new secret takes effect immediately, even for open streams.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Arc<Known>>>,
}

/// Snapshot of the known secrets.
#[derive(Clone, Default)]
struct Known {
    grams: Grams,
    values: Vec<SecretString>,
    /// Values that vendors mask.
    keys: Vec<SecretString>,
    /// Header values that do not look like credentials: redacted as a whole, in errors and recordings only.
    headers: Vec<SecretString>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.snapshot().values.len())
    }
}

impl Secrets {
    /// Adds a credential in its original form: a key, the content of an account file, or a URL with a password. Adding
    /// a known value is cheap.
    pub fn add(&self, value: &SecretString) {
        let text = value.expose_secret();
        if text.trim().is_empty() || self.snapshot().values.iter().any(|known| known.expose_secret() == text) {
            return;
        }
        let forms = forms::forms(text);
        self.update(|known| {
            known.grams.add(forms.iter().map(Vec::as_slice));
            known.values.push(value.clone());
            if !forms.is_empty() && mask::can_be_masked(text) {
                known.keys.push(value.clone());
            }
        });
    }

    /// Adds the value of a header that is sent with every request.
    pub fn add_header(&self, name: &str, value: &SecretString) {
        if forms::is_credential(name, value.expose_secret()) {
            return self.add(value);
        }
        let is_known = |known: &SecretString| known.expose_secret() == value.expose_secret();
        if value.expose_secret().len() >= MIN_HEADER && !self.snapshot().headers.iter().any(is_known) {
            self.update(|known| known.headers.push(value.clone()));
        }
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut known));
    }

    fn snapshot(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether no secret is known, so that all text is clean.
    pub fn is_empty(&self) -> bool {
        let known = self.snapshot();
        known.grams.is_empty() && known.headers.is_empty()
    }

    /// Returns whether `bytes` contain eight consecutive characters of a secret.
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.snapshot().grams.any(bytes)
    }

    /// Returns a redactor for bytes that arrive in pieces.
    pub fn byte_redactor(&self) -> ByteRedactor {
        ByteRedactor::new(self.clone())
    }

    /// Replaces every part of a secret in `text` by `[redacted]`.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.snapshot().clean(text)
    }

    /// Like [`Self::clean`], for the answer of a server, such as an error or a response to be recorded: also redacts
    /// masked secrets (`sk-ab****yz`) and the values of all headers.
    pub fn clean_answer<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.snapshot();
        let mut text = Cow::Borrowed(text);
        // Must come first, because a mask may start with a redactable part of the secret.
        if mask::has_mask(&text) {
            for value in &known.keys {
                text = Cow::Owned(mask::without_masked(&text, value.expose_secret()));
            }
        }
        for header in known.headers.iter().map(ExposeSecret::expose_secret) {
            if text.contains(header) {
                text = Cow::Owned(text.replace(header, MARK));
            }
        }
        match text {
            Cow::Borrowed(text) => known.clean(text),
            Cow::Owned(text) => Cow::Owned(known.clean(&text).into_owned()),
        }
    }

    /// Like [`Self::clean_answer`], for a raw part of a response, which may be JSON with unnecessary escapes.
    pub fn clean_wire<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.contains("\\u00") {
            let mut unescaper = json::Unescaper::default();
            let plain = unescaper.push(text) + &unescaper.finish();
            // Before anything is redacted, so that a secret that is escaped in part is found as a whole.
            if self.are_in(plain.as_bytes()) {
                return Cow::Owned(self.clean_answer(&plain).into_owned());
            }
        }
        self.clean_answer(text)
    }

    /// Applies [`Self::clean`] to all texts of a JSON value, including field names.
    pub fn clean_json(&self, json: Value) -> Value {
        self.snapshot().clean_json(json)
    }

    /// Applies [`Self::clean_answer`] to all texts of a JSON value, including field names.
    pub fn clean_answer_json(&self, json: Value) -> Value {
        map_texts(json, &|text| match self.clean_answer(&text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => text,
        })
    }
}

impl Known {
    fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.grams.any(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        let mut stream = stream::StreamRedactor::default();
        let mut pieces = stream.push(&self.grams, text);
        pieces.extend(stream.finish(&self.grams));
        Cow::Owned(pieces.concat())
    }

    fn clean_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.clean(text) {
            *text = clean;
        }
    }

    fn clean_json(&self, json: Value) -> Value {
        if self.grams.is_empty() {
            return json;
        }
        map_texts(json, &|mut text| {
            self.clean_string(&mut text);
            text
        })
    }
}

fn map_texts(json: Value, change: &impl Fn(String) -> String) -> Value {
    match json {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| map_texts(item, change)).collect()),
        Value::Object(fields) => {
            let changed = |(name, value)| (change(name), map_texts(value, change));
            Value::Object(fields.into_iter().map(changed).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, Message, StopReason};
    use crate::usage::Usage;
    use jiff::Timestamp;
    use serde_json::json;

    fn secrets() -> Secrets {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from("sk-live-0123456789"));
        secrets
    }

    #[test]
    fn any_eight_characters_of_a_secret_are_redacted() {
        let secrets = secrets();
        assert_eq!(secrets.clean("bad key sk-live-0123456789, \"live-012\""), "bad key [redacted], \"[redacted]\"");
        assert!(matches!(secrets.clean("sk-liv 0123456"), Cow::Borrowed(_)));
        assert!(secrets.are_in(b"\xff01234567\xff"));
    }

    #[test]
    fn masked_key_is_redacted_in_answers() {
        let secrets = secrets();
        assert_eq!(secrets.clean_answer("key provided: sk-li****6789. See"), "key provided: [redacted] See");
        assert_eq!(secrets.clean_answer("key 'sk-l...89' is wrong"), "key '[redacted]' is wrong");
        assert_eq!(secrets.clean_answer("please wait... sk-other is fine"), "please wait... sk-other is fine");
    }

    #[test]
    fn escaped_key_on_the_wire_is_redacted() {
        let secrets = secrets();
        let escaped = r#"data: {"a":"\u006c\u0069\u0076\u0065-0123","b":"\u00e4"}"#;
        assert_eq!(secrets.clean_wire(escaped), r#"data: {"a":"[redacted]","b":"\u00e4"}"#);
        assert_eq!(secrets.clean_wire(r#"{"a":"\u0062"}"#), r#"{"a":"\u0062"}"#);
    }

    #[test]
    fn plain_headers_are_redacted_only_as_a_whole() {
        let secrets = Secrets::default();
        secrets.add_header("x-team", &SecretString::from("platform-engineering"));
        secrets.add_header("authorization", &SecretString::from("Bearer Zq7Xw3Vb9Nm2"));
        assert_eq!(
            secrets.clean_answer("for platform-engineering, Bearer w3Vb9Nm2"),
            "for [redacted], Bearer [redacted]"
        );
        assert_eq!(secrets.clean("the platform-engineering team"), "the platform-engineering team");
    }

    #[test]
    fn model_that_was_asked_for_keeps_its_name() {
        let reply = |model: &str, requested: Option<&str>| {
            let message = AssistantMessage {
                content: Vec::new(),
                stop_reason: StopReason::Stop,
                provider: "box".to_owned(),
                model: model.to_owned(),
                requested_model: requested.map(str::to_owned),
                usage: Usage::default(),
                cost: None,
                error: None,
                timestamp: Timestamp::UNIX_EPOCH,
            };
            match secrets().clean_message(Message::Assistant(message)) {
                Message::Assistant(message) => (message.model, message.requested_model),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(reply("live-012-chat", None), ("live-012-chat".to_owned(), None));
        let renamed = reply("is live-012?", Some("live-012-chat"));
        assert_eq!(renamed, ("is [redacted]?".to_owned(), Some("live-012-chat".to_owned())));
    }

    #[test]
    fn json_is_cleaned_in_texts_and_field_names() {
        let json = json!({ "live-0123": ["0123456789", 7, { "x": "ok" }] });
        assert_eq!(secrets().clean_json(json), json!({ MARK: [MARK, 7, { "x": "ok" }] }));
    }

    #[test]
    fn new_secrets_reach_all_clones_and_stay_out_of_debug_output() {
        let secrets = Secrets::default();
        let clone = secrets.clone();
        assert!(clone.is_empty());
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        assert_eq!(clone.clean("Zq7Xw3Vb"), MARK);
        assert_eq!(format!("{clone:?}"), "Secrets(1)");
    }
}
