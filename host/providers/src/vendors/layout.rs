//! The structure of a vendor's URLs.

use crate::formats::WireFormat;

/// The structure of a vendor's URLs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The version appended to a host without a path, such as `v1`; may be empty.
    pub(super) version: &'static str,
    /// Appends the version to any path that does not end in it.
    pub(super) version_always: bool,
    /// A suffix that users commonly add and that is removed.
    pub(super) surplus: Option<&'static str>,
    /// The end of the path.
    pub(super) tail: Tail,
    /// A parameter added to the query.
    pub(super) query: Option<(&'static str, &'static str)>,
}

/// The end of a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tail {
    /// The same path for all models.
    Fixed(&'static str),
    /// `models/MODEL:streamGenerateContent`.
    Gemini,
    /// `publishers/google/models/MODEL:streamGenerateContent`.
    Vertex,
    /// `model/MODEL/converse-stream`.
    Bedrock,
}

impl Layout {
    /// A layout with a version and a fixed path.
    const fn fixed(version: &'static str, tail: &'static str) -> Self {
        Self { version, version_always: false, surplus: None, tail: Tail::Fixed(tail), query: None }
    }

    /// The usual layout of a format.
    pub(super) fn for_format(format: WireFormat) -> Self {
        let streamed = |version, tail| Self { tail, query: Some(("alt", "sse")), ..Self::fixed(version, "") };
        match format {
            WireFormat::Anthropic(_) => Self { version_always: true, ..Self::fixed("v1", "messages") },
            WireFormat::OpenAiChat(_) => Self::fixed("v1", "chat/completions"),
            WireFormat::OpenAiResponses(_) => Self::fixed("v1", "responses"),
            WireFormat::Gemini => streamed("v1beta", Tail::Gemini),
            WireFormat::Bedrock => Self { tail: Tail::Bedrock, ..Self::fixed("", "") },
            WireFormat::Ollama => Self { surplus: Some("/v1"), ..Self::fixed("", "api/chat") },
            WireFormat::Proxy => Self::fixed("v1", "stream"),
        }
    }

    /// Completes the path of a base URL up to the part that depends on the model.
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
