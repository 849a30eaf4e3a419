//! Results of tools.

use crate::bindings::imports::pinion::plugin::types::{Content, Display, Image, ToolOutput};
use serde::Serialize;
use serde_json::Value;

/// A tool's result: content for the model, and how to display it to the user.
#[derive(Debug, Clone)]
pub struct Output {
    pub(crate) content: Vec<Content>,
    details: Option<Value>,
    display: Display,
}

impl Output {
    /// Creates a plain-text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], details: None, display: Display::Plain }
    }

    /// Creates an image result; `media_type` is image/png, image/jpeg, image/gif or image/webp.
    pub fn image(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        let image = Image { media_type: media_type.into(), data };
        Self { content: vec![Content::Image(image)], details: None, display: Display::Plain }
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
        Self { content: output.content, details: output.details.map(|v| v.to_string()), display: output.display }
    }
}
