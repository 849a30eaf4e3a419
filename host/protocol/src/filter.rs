//! Filters for user messages, applied before anything is sent.

use crate::content::Content;
use crate::message::Message;

/// Checks user messages.
pub trait InputFilter: Send + Sync {
    /// Returns the verdict on the joined text of the messages of one input.
    fn filter(&self, text: &str) -> FilterVerdict;
}

/// Verdict on a user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The message passes unchanged.
    Pass,
    /// The message passes, with this warning for the model.
    Warn(String),
    /// The message is not sent; the user sees this reason.
    Reject(String),
}

/// Applies the filters in order. Adds warnings to the last user message; the first rejection is the error.
///
/// # Errors
/// Fails with the reason of the first filter that rejects the messages.
pub fn admit(filters: &[std::sync::Arc<dyn InputFilter>], mut messages: Vec<Message>) -> Result<Vec<Message>, String> {
    let text = text_of(&messages);
    if filters.is_empty() || text.is_empty() {
        return Ok(messages);
    }
    let mut warnings = Vec::new();
    for filter in filters {
        match filter.filter(&text) {
            FilterVerdict::Pass => {}
            FilterVerdict::Warn(warning) => warnings.push(Content::text(format!("\n[Warning: {warning}]"))),
            FilterVerdict::Reject(reason) => return Err(reason),
        }
    }
    append(&mut messages, warnings);
    Ok(messages)
}

/// Adds parts to the last user message.
pub fn append(messages: &mut [Message], parts: Vec<Content>) {
    let last = messages.iter_mut().rev().find_map(|message| match message {
        Message::User(message) => Some(message),
        _ => None,
    });
    if let Some(last) = last {
        last.content.extend(parts);
    }
}

/// Returns the text of the user messages, joined with newlines.
pub fn text_of(messages: &[Message]) -> String {
    let users = messages.iter().filter_map(|message| match message {
        Message::User(message) => Some(message),
        _ => None,
    });
    let texts: Vec<&str> = users.flat_map(|message| message.content.iter().filter_map(Content::as_text)).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Fixed(FilterVerdict);

    impl InputFilter for Fixed {
        fn filter(&self, _: &str) -> FilterVerdict {
            self.0.clone()
        }
    }

    fn filters(verdicts: Vec<FilterVerdict>) -> Vec<Arc<dyn InputFilter>> {
        verdicts.into_iter().map(|verdict| Arc::new(Fixed(verdict)) as Arc<dyn InputFilter>).collect()
    }

    #[test]
    fn warnings_of_all_filters_come_with_the_last_message() {
        let warn = |text: &str| FilterVerdict::Warn(text.into());
        let filters = filters(vec![warn("one"), FilterVerdict::Pass, warn("two")]);
        let admitted = admit(&filters, vec![Message::user("a"), Message::user("b")]).unwrap();
        assert_eq!(text_of(&admitted), "a\nb\n\n[Warning: one]\n\n[Warning: two]");
    }

    #[test]
    fn the_first_rejection_says_why() {
        let reject = |text: &str| FilterVerdict::Reject(text.into());
        let filters = filters(vec![FilterVerdict::Warn("w".into()), reject("no"), reject("never")]);
        assert_eq!(admit(&filters, vec![Message::user("a")]).unwrap_err(), "no");
    }
}
