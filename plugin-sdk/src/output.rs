//! Results of tools.

use crate::bindings::imports::pinion::plugin::types::{Content, Display, ErrorKind, Image, ToolError, ToolOutput};
use serde::Serialize;
use serde_json::Value;

/// A tool's result: content for the model, and how to display it to the user.
#[derive(Debug, Clone)]
pub struct Output {
    pub(crate) content: Vec<Content>,
    pub(crate) details: Option<Value>,
    display: Display,
    pub(crate) is_error: bool,
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

    /// Appends an image part.
    #[must_use]
    pub fn with_image(mut self, media_type: impl Into<String>, data: Vec<u8>) -> Self {
        self.content.push(Content::Image(Image { media_type: media_type.into(), data }));
        self
    }

    /// Sets JSON for logs and the UI; the model never sees it.
    #[must_use]
    pub fn details(mut self, value: impl Serialize) -> Self {
        self.details = serde_json::to_value(value).ok();
        self
    }

    /// Marks the result as that of a call that failed. Unlike an [`Error`](crate::Error), it has content and details.
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

impl Output {
    /// The result of a call, in the contract's form.
    pub(crate) fn into_result(self) -> Result<ToolOutput, ToolError> {
        let Self { content, details, display, is_error } = self;
        let details = details.map(|details| details.to_string());
        if !is_error {
            return Ok(ToolOutput { content, details, display, extra: None });
        }
        let texts = content.iter().filter_map(|part| if let Content::Text(text) = part { Some(text) } else { None });
        let message =
            texts.map(String::as_str).next().and_then(|text| text.lines().next()).unwrap_or("failed").to_owned();
        let (kind, retryable) = (ErrorKind::Failed, false);
        Err(ToolError { kind, message, retryable, content, details, display, extra: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failed_output_becomes_an_error_with_content_and_details() {
        let output = Output::text("exit code 1\nmore").code("sh").details(json!({ "code": 1 }));
        let result = output.clone().into_result().unwrap();
        assert_eq!(result.details.as_deref(), Some(r#"{"code":1}"#));
        let error = output.failed().into_result().unwrap_err();
        assert_eq!((error.message.as_str(), error.details.as_deref()), ("exit code 1", Some(r#"{"code":1}"#)));
        assert!(matches!(error.display, Display::Code(_)) && error.content.len() == 1);
    }
}
