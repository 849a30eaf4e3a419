//! Errors of requests to servers.

pub use pinion_protocol::mcp::McpFailure as McpError;
use pinion_protocol::text::one_line;

use crate::limits::MAX_QUOTED;

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
    fn messages_hide_the_query() {
        let url = url::Url::parse("https://host/mcp?key=hunter2").ok();
        let text = without_query(format!("error for url ({})", url.clone().unwrap()), url.as_ref());
        assert_eq!(text, "error for url (https://host/mcp?…)");
    }
}
