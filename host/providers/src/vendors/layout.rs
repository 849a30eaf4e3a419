//! The structure of a vendor's URLs.

use crate::formats::Format;

/// How a vendor's URLs are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Comes after a host without a path, as `v1`; may be empty.
    pub(super) version: &'static str,
    /// Is added also to a path that does not end in it.
    pub(super) version_always: bool,
    /// An end of the path that people give, and that does not belong there.
    pub(super) surplus: Option<&'static str>,
    /// The end of the path.
    pub(super) tail: Tail,
    /// Added to the query.
    pub(super) query: Option<(&'static str, &'static str)>,
}

/// The end of a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tail {
    /// The same for all models.
    Fixed(&'static str),
    /// `models/MODEL:streamGenerateContent`.
    Gemini,
    /// `publishers/google/models/MODEL:streamGenerateContent`.
    Vertex,
    /// `model/MODEL/converse-stream`.
    Bedrock,
}

impl Layout {
    /// A version where the user gives no path, and a fixed end.
    const fn fixed(version: &'static str, tail: &'static str) -> Self {
        Self { version, version_always: false, surplus: None, tail: Tail::Fixed(tail), query: None }
    }

    /// The usual layout of a format.
    pub(super) fn of(format: Format) -> Self {
        let streamed = |version, tail| Self { tail, query: Some(("alt", "sse")), ..Self::fixed(version, "") };
        match format {
            Format::Anthropic => Self { version_always: true, ..Self::fixed("v1", "messages") },
            Format::OpenAiChat(_) => Self::fixed("v1", "chat/completions"),
            Format::OpenAiResponses(_) => Self::fixed("v1", "responses"),
            Format::Gemini => streamed("v1beta", Tail::Gemini),
            Format::Bedrock => Self { tail: Tail::Bedrock, ..Self::fixed("", "") },
            Format::Ollama => Self { surplus: Some("/v1"), ..Self::fixed("", "api/chat") },
            Format::Proxy => Self::fixed("v1", "stream"),
        }
    }

    /// The path of requests, as far as it is the same for all models, after what the user gave.
    pub(super) fn base_path(&self, given: &str, version: &str) -> String {
        let path = given.trim_end_matches('/');
        let path = match self.tail {
            Tail::Fixed(tail) => path.strip_suffix(tail).unwrap_or(path).trim_end_matches('/'),
            Tail::Gemini | Tail::Vertex | Tail::Bedrock => path,
        };
        let path = self.surplus.and_then(|surplus| path.strip_suffix(surplus)).unwrap_or(path);
        let is_missing = path.is_empty() || (self.version_always && !path.ends_with(version));
        match is_missing && !version.is_empty() {
            true => format!("{path}/{version}"),
            false => path.to_owned(),
        }
    }
}
