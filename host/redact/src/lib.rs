//! Redaction of secrets.
//!
//! A secret is redacted as a whole, in the encodings of `forms`. Parts of it are not: a search for parts would tell everyone
//! who can choose a text and see it again whether a guess of a part is right. For the same reason,
//!
//! - a text is compared only with secrets that may have flowed into it. A separate set contains the secrets that a
//!   server or a program received; [`Secrets::of_process`] contains all that the process has read.
//! - the set of the process leaves out values that can be guessed as a whole, because models, plugins and clients choose texts
//!   that it redacts.
//! - the work for a text, and the boundaries of redacted pieces, do not depend on parts of secrets (`matcher`, `bytes`).
//!
//! Code that reads a credential adds it before use; code that receives external text cleans it. [`RedactedProvider`] and
//! [`RedactedTools`] clean all output of models and tools before it is displayed, stored or forwarded. The agent loop cleans
//! each message again before it stores it.
//!
//! Not covered: other encodings, parts, interspersed characters, and parts in different texts of a message.

mod forms;
#[cfg(test)]
mod guesses_tests;
mod matcher;
mod message;
mod provider;
mod session_events;
mod stream;
mod symbols;
mod tools;

pub use provider::RedactedProvider;
pub use session_events::report_to_hooks;
pub use stream::ByteRedactor;
pub use tools::RedactedTools;

use matcher::{Matcher, SecretForm};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Replaces redacted text.
const MARK: &str = "[redacted]";

/// Minimum length of a header value that is redacted as a whole.
const MIN_HEADER: usize = 8;

/// Minimum bytes of the secret part of a value in the set of the process. Passwords that people choose are shorter, and tools
/// can try all of a dictionary.
const MIN_UNGUESSABLE: usize = 16;

/// A set of secrets. Clones share it; a new secret takes effect immediately, even for open streams.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Arc<KnownSecrets>>>,
    /// The set that gets each secret, too, and redacts where this one does.
    wider: Option<Arc<Secrets>>,
    /// Minimum bytes of the secret part of a value.
    least: usize,
}

/// Snapshot of the known secrets.
#[derive(Clone, Default)]
struct KnownSecrets {
    forms: Vec<SecretForm>,
    /// Built from `forms` when it is needed.
    matcher: OnceLock<Arc<Matcher>>,
    values: Vec<SecretString>,
    /// The starts of public prefixes of keys that vendors mask.
    heads: Vec<String>,
    /// Header values that do not look like credentials: redacted as a whole, in errors and recordings only.
    headers: Vec<SecretString>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.snapshot().values.len())
    }
}

impl Secrets {
    /// Creates the set of all secrets of a process. It redacts texts that others choose, so values whose secret part is
    /// shorter than 16 bytes are left out.
    pub fn of_process() -> Self {
        Self { least: MIN_UNGUESSABLE, ..Self::default() }
    }

    /// Creates a set for the secrets that one server receives. Every secret in it is added to this set, too, and both
    /// redact the server's answers.
    pub fn for_server(&self) -> Self {
        Self { wider: Some(Arc::new(self.clone())), ..Self::default() }
    }

    /// Adds a credential in its original form: a key, the content of an account file, or a URL with a password. Adding
    /// a known value is cheap.
    pub fn add(&self, value: &SecretString) {
        self.add_forms(value, |_| None);
        if let Some(wider) = &self.wider {
            wider.add(value);
        }
    }

    /// Adds a credential that is replaced by `placeholder` where exactly its value stands.
    pub fn add_with_placeholder(&self, value: &SecretString, placeholder: &str) {
        self.add_forms(value, |index| Some(SecretForm::exact(value.expose_secret().as_bytes(), index, placeholder)));
    }

    fn add_forms(&self, value: &SecretString, more: impl FnOnce(usize) -> Option<SecretForm>) {
        let text = value.expose_secret();
        if text.trim().is_empty() || self.snapshot().values.iter().any(|known| known.expose_secret() == text) {
            return;
        }
        let forms = forms::forms(text, self.least);
        self.update(|known| {
            let index = known.values.len();
            // The exact form first: it replaces a range that both cover.
            known.forms.extend(more(index).into_iter().chain(forms.iter().map(|form| SecretForm::new(form, index))));
            known.matcher = OnceLock::new();
            known.values.push(value.clone());
            let head = forms::head(text).filter(|head| !known.heads.iter().any(|known| known == head));
            known.heads.extend(head.map(str::to_owned));
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

    fn update(&self, change: impl FnOnce(&mut KnownSecrets)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut known));
    }

    fn snapshot(&self) -> Arc<KnownSecrets> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether no secret is known, so that all text is clean.
    pub fn is_empty(&self) -> bool {
        let known = self.snapshot();
        known.forms.is_empty() && known.headers.is_empty() && self.wider.as_ref().is_none_or(|wider| wider.is_empty())
    }

    /// Returns whether `bytes` contain a secret.
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.snapshot().are_in(bytes) || self.wider.as_ref().is_some_and(|wider| wider.are_in(bytes))
    }

    /// Overwrites every secret in `bytes` by asterisks. The length stays, so that encoded values remain valid.
    pub fn mask(&self, bytes: &mut [u8]) {
        self.snapshot().mask(bytes);
        if let Some(wider) = &self.wider {
            wider.mask(bytes);
        }
    }

    /// Returns a redactor for bytes that arrive in pieces and are read only once they are complete.
    pub fn byte_redactor(&self) -> ByteRedactor {
        ByteRedactor::new(self.clone(), false)
    }

    /// Returns a redactor for bytes that arrive in pieces and that the reader may have chosen: it does not show by the sizes
    /// of its pieces whether they could begin a secret.
    pub fn line_redactor(&self) -> ByteRedactor {
        ByteRedactor::new(self.clone(), true)
    }

    /// Replaces every secret in `text` by `[redacted]`.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let clean = self.snapshot().clean(text);
        match &self.wider {
            None => clean,
            Some(wider) => chained(clean, |text| wider.clean(text)),
        }
    }

    /// Like [`Self::clean`], for the answer of a server that received the secrets, such as an error or a response to be
    /// recorded: also redacts masked keys with a public prefix (`sk-ab****yz`) and the values of all headers.
    pub fn clean_answer<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.snapshot();
        let mut text = Cow::Borrowed(text);
        if forms::has_mask(&text) {
            for head in &known.heads {
                text = Cow::Owned(forms::without_masked(&text, head));
            }
        }
        for header in known.headers.iter().map(ExposeSecret::expose_secret) {
            if text.contains(header) {
                text = Cow::Owned(text.replace(header, MARK));
            }
        }
        chained(text, |text| self.clean(text))
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

/// Applies a change to a text that may have been changed before.
fn chained<'a>(text: Cow<'a, str>, change: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => match change(text) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(changed) => Cow::Owned(changed),
        },
        Cow::Owned(text) => Cow::Owned(change(&text).into_owned()),
    }
}

impl KnownSecrets {
    fn matcher(&self) -> &Arc<Matcher> {
        self.matcher.get_or_init(|| Arc::new(Matcher::new(&self.forms)))
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        !self.forms.is_empty() && !self.matcher().scan(bytes).marks.is_empty()
    }

    fn mask(&self, bytes: &mut [u8]) {
        if self.forms.is_empty() {
            return;
        }
        let ranges: Vec<_> = self.matcher().scan(bytes).marks.into_iter().map(|(range, _)| range).collect();
        for range in ranges {
            if let Some(secret) = bytes.get_mut(range) {
                secret.fill(b'*');
            }
        }
    }

    /// Returns the secrets but those that a caller wrote into its own arguments and therefore knows.
    fn without_those_in(self: Arc<Self>, arguments: &Value) -> Arc<Self> {
        let mut written = Vec::new();
        visit_texts(arguments, &mut |text| {
            if self.are_in(text.as_bytes()) {
                written.extend(self.matcher().values_in(text.as_bytes()));
            }
        });
        if written.is_empty() {
            return self;
        }
        let mut others = Self { matcher: OnceLock::new(), ..(*self).clone() };
        others.forms.retain(|form| !written.contains(&form.value));
        Arc::new(others)
    }

    fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.forms.is_empty() {
            return Cow::Borrowed(text);
        }
        let marks = self.matcher().scan(text.as_bytes()).marks;
        if marks.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut clean, mut done) = (String::with_capacity(text.len()), 0);
        for (range, mark) in marks {
            // Only an exact value in a different encoding could begin or end within a character.
            let (start, end) = (text.floor_char_boundary(range.start), text.ceil_char_boundary(range.end));
            clean.push_str(text.get(done..start).unwrap_or_default());
            clean.push_str(mark);
            done = end;
        }
        clean.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(clean)
    }

    fn clean_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.clean(text) {
            *text = clean;
        }
    }

    fn clean_json(&self, json: Value) -> Value {
        if self.forms.is_empty() {
            return json;
        }
        map_texts(json, &|mut text| {
            self.clean_string(&mut text);
            text
        })
    }
}

fn visit_texts(json: &Value, visit: &mut impl FnMut(&str)) {
    match json {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| visit_texts(item, visit)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            visit(name);
            visit_texts(value, visit);
        }),
        _ => {}
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
    use jiff::Timestamp;
    use pinion_protocol::message::{AssistantMessage, Message, StopReason};
    use pinion_protocol::usage::Usage;
    use serde_json::json;

    fn secrets() -> Secrets {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from("sk-live-0123456789"));
        secrets
    }

    #[test]
    fn whole_secret_is_redacted_and_parts_are_not() {
        let secrets = secrets();
        assert_eq!(secrets.clean("bad key sk-live-0123456789, \"live-012\""), "bad key sk-[redacted], \"live-012\"");
        assert!(matches!(secrets.clean("sk-live-012345678"), Cow::Borrowed(_)));
        assert!(secrets.are_in(b"\xfflive-0123456789\xff") && !secrets.are_in(b"\xffive-0123456789\xff"));
    }

    #[test]
    fn set_of_the_process_leaves_out_values_that_can_be_guessed() {
        let process = Secrets::of_process();
        let server = process.for_server();
        server.add(&SecretString::from("hunter2-hunter2"));
        server.add(&SecretString::from("Zq7Xw3Vb9Nm2Kp5L"));
        let text = "hunter2-hunter2 Zq7Xw3Vb9Nm2Kp5L";
        assert_eq!(process.clean(text), "hunter2-hunter2 [redacted]");
        assert_eq!(server.clean(text), "[redacted] [redacted]");
        process.add(&SecretString::from("Jh8Gf5Ds2Qa9We6Rt"));
        assert_eq!(server.clean_answer("Jh8Gf5Ds2Qa9We6Rt"), MARK);
    }

    #[test]
    fn masked_key_is_redacted_in_answers_by_its_public_prefix() {
        let secrets = secrets();
        assert_eq!(secrets.clean_answer("key provided: sk-li****6789. See"), "key provided: [redacted] See");
        assert_eq!(secrets.clean_answer("key 'sk-l...89' is wrong"), "key '[redacted]' is wrong");
        assert_eq!(secrets.clean_answer("key 'sk-x...yz' is wrong"), "key '[redacted]' is wrong");
        assert_eq!(secrets.clean_answer("please wait... sk-other is fine"), "please wait... sk-other is fine");
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2Kp5L"));
        assert_eq!(secrets.clean_answer("Zq7X****Kp5L and sk-****"), "Zq7X****Kp5L and [redacted]");
    }

    #[test]
    fn escaped_key_on_the_wire_is_redacted() {
        let secrets = secrets();
        let escaped = r#"data: {"a":"sk-\u006c\u0069\u0076\u0065-0123456789","b":"\u00e4"}"#;
        assert_eq!(secrets.clean_answer(escaped), r#"data: {"a":"sk-[redacted]","b":"\u00e4"}"#);
        assert_eq!(secrets.clean_answer(r#"{"a":"\u0062"}"#), r#"{"a":"\u0062"}"#);
    }

    #[test]
    fn placeholder_replaces_the_exact_value() {
        let secrets = Secrets::default();
        secrets.add_with_placeholder(&SecretString::from("ghp_Zq7Xw3Vb9Nm2"), "<key>");
        secrets.add_with_placeholder(&SecretString::from("Jh8Gf5Ds2Qa9"), "<other>");
        assert_eq!(secrets.clean("a ghp_Zq7Xw3Vb9Nm2 b ghp_zq7xw3vb9nm2"), "a <key> b ghp_[redacted]");
        assert_eq!(secrets.clean("Jh8Gf5Ds2Qa9Jh8Gf5Ds2Qa9 jh8gf5ds2qa9"), "<other><other> [redacted]");
    }

    #[test]
    fn plain_headers_are_redacted_only_in_answers() {
        let secrets = Secrets::default();
        secrets.add_header("x-team", &SecretString::from("platform-engineering"));
        secrets.add_header("authorization", &SecretString::from("Bearer Zq7Xw3Vb9Nm2"));
        assert_eq!(
            secrets.clean_answer("for platform-engineering, Bearer Zq7Xw3Vb9Nm2"),
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
        let own = "live-0123456789-chat";
        assert_eq!(reply(own, None), (own.to_owned(), None));
        let renamed = reply("is live-0123456789?", Some(own));
        assert_eq!(renamed, ("is [redacted]?".to_owned(), Some(own.to_owned())));
    }

    #[test]
    fn json_is_cleaned_in_texts_and_field_names() {
        let json = json!({ "live-0123456789": ["LIVE-0123456789", 7, { "x": "0123456789" }] });
        assert_eq!(secrets().clean_json(json), json!({ MARK: [MARK, 7, { "x": "0123456789" }] }));
    }

    #[test]
    fn new_secrets_reach_all_clones_and_stay_out_of_debug_output() {
        let secrets = Secrets::default();
        let clone = secrets.clone();
        assert!(clone.is_empty());
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        assert_eq!(clone.clean("Zq7Xw3Vb9Nm2"), MARK);
        assert_eq!(format!("{clone:?}"), "Secrets(1)");
    }
}
