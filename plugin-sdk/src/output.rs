//! Results of tools.

use crate::bindings::imports::pinion::plugin::types::{Content, Display, Image, ToolOutput};
use serde::Serialize;
use serde_json::{Value, json};

/// A tool's result: content for the model, and how to display it to the user.
#[derive(Debug, Clone)]
pub struct Output {
    pub(crate) content: Vec<Content>,
    details: Option<Value>,
    display: Display,
    is_error: bool,
}

impl Output {
    /// Creates a plain-text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], details: None, display: Display::Plain, is_error: false }
    }

    /// Creates an image result; `media_type` is image/png, image/jpeg, image/gif or image/webp.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        let image = Image { media_type: media_type.into(), data };
        Self { content: vec![Content::Image(image)], details: None, display: Display::Plain, is_error: false }
    }

    /// Appends a text part.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.content.push(Content::Text(text.into()));
        self
    }

    /// Sets JSON for logs and the UI; the model never sees it.
    #[must_use]
    pub fn details(mut self, value: impl Serialize) -> Self {
        self.details = serde_json::to_value(value).ok();
        self
    }

    /// Marks the result as that of a call that failed, unlike [`Error`](crate::Error) with details. It sets the member
    /// `is_error` of the details, which become an object if they are none.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Displays the text as Markdown.
    #[must_use]
    pub fn markdown(mut self) -> Self {
        self.display = Display::Markdown;
        self
    }

    /// Displays the text as a unified diff.
    #[must_use]
    pub fn diff(mut self) -> Self {
        self.display = Display::Diff;
        self
    }

    /// Displays the text as source code; `language` is named as in a fenced code block.
    #[must_use]
    pub fn code(mut self, language: impl Into<String>) -> Self {
        self.display = Display::Code(language.into());
        self
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Output> for ToolOutput {
    fn from(output: Output) -> Self {
        let mut details = output.details;
        if output.is_error {
            let object = details.get_or_insert_with(|| json!({}));
            match object.as_object_mut() {
                Some(members) => drop(members.insert("is_error".to_owned(), Value::Bool(true))),
                None => *object = json!({ "is_error": true, "details": object.take() }),
            }
        }
        Self { content: output.content, details: details.map(|v| v.to_string()), display: output.display }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_a_member_of_the_details() {
        let details = |output: Output| ToolOutput::from(output).details.map(|json| json.parse::<Value>().unwrap());
        assert_eq!(details(Output::text("x")), None);
        assert_eq!(details(Output::text("x").failed()), Some(json!({ "is_error": true })));
        let with_details = Output::text("x").failed().details(json!({ "exit_code": 1 }));
        assert_eq!(details(with_details), Some(json!({ "exit_code": 1, "is_error": true })));
        let not_an_object = Output::text("x").failed().details(json!([1]));
        assert_eq!(details(not_an_object), Some(json!({ "details": [1], "is_error": true })));
    }
}
