//! Properties of tools for the clients of `pinion mcp serve`.

use serde_json::{Map, Value};

/// A resource of [`Tool::resource`](crate::Tool::resource): clients read it by a call of the tool.
#[derive(Debug, Clone)]
pub struct Resource(Map<String, Value>);

impl Resource {
    /// Creates a resource at a URI with a scheme of the plugin's own, such as `manual://start`. Its tool is called without
    /// arguments.
    pub fn new(uri: impl Into<String>) -> Self {
        Self(Map::new()).with("uri", uri.into().into())
    }

    /// Creates all resources of a template, such as `manual://{page}`. A variable is an argument of the tool, and covers one
    /// segment of the path.
    pub fn template(template: impl Into<String>) -> Self {
        Self(Map::new()).with("uri-template", template.into().into())
    }

    /// Sets the media type of texts; the default is text/plain.
    #[must_use]
    pub fn mime_type(self, mime_type: impl Into<String>) -> Self {
        self.with("mime-type", mime_type.into().into())
    }

    /// Sets a text of at most 256 bytes that changes when the content does. Clients that subscribed learn of a change when
    /// the plugin offers its tools again.
    #[must_use]
    pub fn version(self, version: impl Into<String>) -> Self {
        self.with("version", version.into().into())
    }

    /// Makes the tool nothing but a resource: neither models nor clients can call it by its name.
    #[must_use]
    pub fn only(self) -> Self {
        self.with("only", true.into())
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// Support for calls whose results clients fetch later, because they take long: a call becomes a task with its first report of
/// progress, and after two seconds in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSupport {
    /// Clients that do not support tasks wait for the result.
    Optional,
    /// Clients that do not support tasks cannot call the tool.
    Required,
}

impl TaskSupport {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Optional => "optional".into(),
            Self::Required => "required".into(),
        }
    }
}
