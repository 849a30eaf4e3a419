//! Errors of requests to servers.

use pinion_protocol::mcp::McpFailure;
use pinion_protocol::text::one_line;

use crate::limits::MAX_QUOTED;

/// Reason that a request to a server failed. Messages name the server, and hold no control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// No server of that name is configured.
    #[error("no MCP server `{0}` is configured")]
    NotFound(String),
    /// The user switched the server off.
    #[error("MCP server `{server}` is disabled")]
    Disabled {
        /// Name of the server.
        server: String,
    },
    /// The server wants a login, which happens outside of requests.
    #[error("MCP server `{server}` requires a login")]
    LoginRequired {
        /// Name of the server.
        server: String,
    },
    /// The server did not answer in time.
    #[error("{message}")]
    TimedOut {
        /// Text that names the server and the limit.
        message: String,
        /// The server may have received the request.
        request_sent: bool,
    },
    /// The caller cancelled the request.
    #[error("the request was cancelled")]
    Cancelled {
        /// The server may have received the request; it was sent a cancellation too.
        request_sent: bool,
    },
    /// The server answered with an error.
    #[error("MCP server `{server}` answered with error {code}: {message}")]
    Server {
        /// Name of the server.
        server: String,
        /// Code of JSON-RPC.
        code: i64,
        /// Text of the server, as one line.
        message: String,
        /// Data of the server, as JSON.
        data: Option<String>,
    },
    /// The connection failed, or the server broke the protocol.
    #[error("{message}")]
    Failed {
        /// Text that names the server.
        message: String,
        /// The server may have received the request.
        request_sent: bool,
    },
}

impl McpError {
    /// Returns whether the server may have received the request, so that repeating it may have an effect twice.
    #[must_use]
    pub fn request_sent(&self) -> bool {
        match self {
            Self::NotFound(_) | Self::Disabled { .. } | Self::LoginRequired { .. } => false,
            Self::TimedOut { request_sent, .. }
            | Self::Cancelled { request_sent }
            | Self::Failed { request_sent, .. } => *request_sent,
            Self::Server { .. } => true,
        }
    }

    /// Returns the text for a message that already names the server.
    pub(crate) fn without_culprit(&self, server: &str) -> String {
        let text = self.to_string();
        let name = culprit(server, "");
        text.strip_prefix(&name).map_or_else(|| text.clone(), str::to_owned)
    }

    /// Returns a failure before the request was sent: `` MCP server `x` … ``.
    pub(crate) fn unsent(server: &str, problem: impl AsRef<str>) -> Self {
        Self::Failed { message: culprit(server, problem.as_ref()), request_sent: false }
    }

    /// Returns a failure after the request was sent.
    pub(crate) fn sent(server: &str, problem: impl AsRef<str>) -> Self {
        Self::Failed { message: culprit(server, problem.as_ref()), request_sent: true }
    }
}

impl From<McpError> for McpFailure {
    fn from(error: McpError) -> Self {
        let text = error.to_string();
        match error {
            McpError::NotFound(server) => Self::NotFound(server),
            McpError::Disabled { .. } => Self::Disabled(text),
            McpError::LoginRequired { server } => Self::LoginRequired { server },
            McpError::TimedOut { message, request_sent } => Self::TimedOut { message, request_sent },
            McpError::Cancelled { request_sent } => Self::Cancelled { request_sent },
            McpError::Server { code, message, data, .. } => Self::Server { code, message, data },
            McpError::Failed { message, request_sent } => Self::Failed { message, request_sent },
        }
    }
}

fn culprit(server: &str, problem: &str) -> String {
    format!("MCP server `{}` {problem}", one_line(server, 64))
}

/// Formats a text of a server for one of our messages.
pub(crate) fn quoted(text: &str) -> String {
    one_line(text, MAX_QUOTED)
}

/// Formats an error with its causes for one of our messages.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    quoted(&pinion_protocol::text::with_causes(error))
}

/// Describes the failure of a request over HTTP: where it was going, and the innermost cause.
pub(crate) fn unreachable(error: &reqwest::Error) -> String {
    let Some(url) = error.url() else { return causes(error) };
    let host = url.host_str().unwrap_or_default();
    let place = match url.port_or_known_default() {
        Some(port) => format!("`{host}:{port}`"),
        None => format!("`{host}`"),
    };
    if error.is_timeout() {
        let what = if error.is_connect() { "could not connect to" } else { "no answer from" };
        return quoted(&format!("{what} {place} in time"));
    }
    let root = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source()).last();
    let root = root.map(ToString::to_string).unwrap_or_default();
    let cause = match root.split_once("failed to lookup address information: ") {
        Some((_, cause)) => format!("no address found for this host ({cause})"),
        None => root.clone(),
    };
    let text = match error.is_connect() {
        true => format!("could not connect to {place}: {cause}"),
        false => format!("the connection to {place} broke: {cause}"),
    };
    match root.contains("Connection refused") {
        true => quoted(&format!("{text}; is the server running?")),
        false => quoted(&text),
    }
}

/// Removes the query of a server's address from a message: it is often a key.
pub(crate) fn without_query(text: String, url: Option<&url::Url>) -> String {
    match url.and_then(url::Url::query) {
        Some(query) if !query.is_empty() => text.replace(query, "…"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_server_cleanly_and_hide_the_query() {
        let error = McpError::unsent("fake\u{1b}[31m", "is not reachable");
        assert_eq!(error.to_string(), "MCP server `fake␛[31m` is not reachable");
        assert_eq!(McpError::unsent("fake", "is not reachable").without_culprit("fake"), "is not reachable");
        let url = url::Url::parse("https://host/mcp?key=hunter2").ok();
        let text = without_query(format!("error for url ({})", url.clone().unwrap()), url.as_ref());
        assert_eq!(text, "error for url (https://host/mcp?…)");
    }
}
