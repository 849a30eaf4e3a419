//! The error of a test.

use std::fmt;

/// A plugin does not behave as a test expects, or the test itself is wrong. `{:?}` is the text for people, because that is
/// how `cargo test` shows the error that a test returns.
#[derive(Clone, PartialEq, Eq)]
pub struct TestError {
    what: String,
    hint: Option<String>,
}

impl TestError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    /// Creates an error with a remedy.
    pub fn with_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(what).hint(hint)
    }

    /// Returns the text without the hint.
    pub fn message(&self) -> &str {
        &self.what
    }

    /// Returns the hint.
    pub fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TestError {}

/// Returns the grants, among those that a plugin lacks, that could help against a refusal. If the host names a grant
/// for the user, it is this one; other refusals of the host have other reasons, such as the lifetime of the plugin.
pub fn helpful_grants(refusal: &str, missing: &[String]) -> Vec<String> {
    let capability = |word: &str| word.split(['=', ' ']).next().unwrap_or_default().to_owned();
    let is_of_host = refusal.contains(" may not ") || refusal.contains(" here: ");
    match refusal.split_once("can grant it") {
        Some((_, line)) => {
            let named = line.split_once(".grants] ").map(|(_, line)| capability(line));
            let helpful: Vec<String> =
                missing.iter().filter(|word| named.as_ref() == Some(&capability(word))).cloned().collect();
            if helpful.is_empty() { missing.to_vec() } else { helpful }
        }
        None if is_of_host => Vec::new(),
        None => missing.to_vec(),
    }
}
