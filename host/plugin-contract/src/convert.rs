//! Conversions between the contract's types and the agent's, with the bounds that results of guests must keep.

use crate::bindings::pinion::plugin::types as wit;
use pinion_protocol::hook::{CallFailure, CallOutcome};
use pinion_protocol::{Authority, Content, Display, Image, ToolError, ToolOutput};
use serde_json::Value;

/// Parts that one result or update may have.
pub const MAX_PARTS: usize = 1000;
/// Bytes that a part counts besides its text or picture: roughly its overhead wherever it is kept or written.
const PART_BYTES: usize = 64;
/// Bytes that the details of one result may have.
const MAX_DETAILS_BYTES: usize = 4 * 1024 * 1024;
/// Values that the details of one result may have.
const MAX_DETAILS_VALUES: usize = 100_000;
/// Bytes that the name of a language or media type may have.
const MAX_LANGUAGE_BYTES: usize = 64;

/// Returns at most `limit` bytes of `text`, cut at the end of a character.
#[inline]
pub fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Converts one part of a result or update.
pub fn content(part: wit::Content) -> Content {
    match part {
        wit::Content::Text(text) => Content::Text { text },
        wit::Content::Image(image) => Content::Image(Image { media_type: image.media_type, data: image.data }),
        // All other kinds are unknown; the contract says to treat them as text.
        wit::Content::Other(json) => Content::Text { text: json },
    }
}

/// Returns the bytes that content counts against the output limit. The first part counts by its size alone.
pub fn contents_bytes(content: &[wit::Content]) -> usize {
    let sizes: usize = content.iter().map(content_bytes).sum();
    sizes + PART_BYTES * content.len().saturating_sub(1)
}

fn content_bytes(part: &wit::Content) -> usize {
    match part {
        wit::Content::Text(text) | wit::Content::Other(text) => text.len(),
        wit::Content::Image(image) => image.media_type.len() + image.data.len(),
    }
}

/// Returns whether a part is an empty text.
pub fn is_empty(part: &wit::Content) -> bool {
    matches!(part, wit::Content::Text(text) | wit::Content::Other(text) if text.is_empty())
}

/// Returns the bytes that a result counts against the output limit.
pub fn output_bytes(output: &wit::ToolOutput) -> usize {
    shown_bytes(output.details.as_ref(), &output.display, output.extra.as_ref()) + contents_bytes(&output.content)
}

/// Returns the bytes that an error counts against the output limit.
pub fn error_bytes(error: &wit::ToolError) -> usize {
    let shown = shown_bytes(error.details.as_ref(), &error.display, error.extra.as_ref());
    error.message.len() + shown + contents_bytes(&error.content)
}

fn shown_bytes(details: Option<&String>, display: &wit::Display, extra: Option<&String>) -> usize {
    let display = match display {
        wit::Display::Code(text) | wit::Display::Other(text) => text.len(),
        wit::Display::Plain | wit::Display::Markdown | wit::Display::Diff => 0,
    };
    details.map_or(0, String::len) + display + extra.map_or(0, String::len)
}

/// Converts an error that a tool returned. An error with content becomes a result that is marked as the result of a
/// failed call.
///
/// # Errors
/// The content or the details break the contract; the text completes "the plugin returned …".
pub fn tool_error(tool: &str, error: wit::ToolError) -> Result<Result<ToolOutput, ToolError>, String> {
    let wit::ToolError { kind, message, retryable, content, details, display, .. } = error;
    if !content.is_empty() && kind != wit::ErrorKind::Cancelled {
        let output = tool_output(wit::ToolOutput { content, details, display, extra: None })?;
        return Ok(Ok(ToolOutput { is_error: true, ..output }));
    }
    let tool = tool.to_owned();
    Ok(Err(match kind {
        wit::ErrorKind::InvalidInput => ToolError::InvalidArguments { tool, message },
        wit::ErrorKind::NotFound => ToolError::Failed { tool, message, retryable: false },
        wit::ErrorKind::Denied => ToolError::Denied { tool, reason: message },
        wit::ErrorKind::Cancelled => ToolError::Cancelled { tool },
        wit::ErrorKind::Failed => ToolError::Failed { tool, message, retryable },
    }))
}

/// Converts a result.
///
/// # Errors
/// The result breaks the contract; the text completes "the plugin returned …".
pub fn tool_output(output: wit::ToolOutput) -> Result<ToolOutput, String> {
    let had_content = !output.content.is_empty();
    let parts: Vec<wit::Content> = output.content.into_iter().filter(|part| !is_empty(part)).collect();
    if parts.len() > MAX_PARTS {
        return Err(format!("a result of {} parts, of at most {MAX_PARTS}", parts.len()));
    }
    let content: Vec<Content> = parts.into_iter().map(self::content).collect();
    for part in &content {
        if let Content::Image(image) = part {
            image.check_format().map_err(|problem| {
                format!("an image `{}`: {problem}", clip(&image.media_type, MAX_LANGUAGE_BYTES).escape_debug())
            })?;
        }
    }
    Ok(ToolOutput {
        // A result that is only an empty text stays one.
        content: if content.is_empty() && had_content { vec![Content::text("")] } else { content },
        is_error: false,
        details: output.details.as_deref().map(details).transpose()?,
        display: match output.display {
            wit::Display::Plain | wit::Display::Other(_) => Display::Plain,
            wit::Display::Markdown => Display::Markdown,
            wit::Display::Diff => Display::Diff,
            wit::Display::Code(language) => Display::Code(clip(&language, MAX_LANGUAGE_BYTES).to_owned()),
        },
    })
}

/// Converts the result of a call for the plugin that made it.
///
/// # Errors
/// The result is marked as failed: it becomes an error with content.
pub fn for_guest(output: ToolOutput) -> Result<wit::ToolOutput, wit::ToolError> {
    let ToolOutput { content, is_error, details, display } = output;
    let content: Vec<wit::Content> = content.into_iter().filter_map(content_for_guest).collect();
    let (details, extra) = (details.map(|details| details.to_string()), None);
    let display = match display {
        Display::Plain => wit::Display::Plain,
        Display::Markdown => wit::Display::Markdown,
        Display::Diff => wit::Display::Diff,
        Display::Code(language) => wit::Display::Code(language),
    };
    if !is_error {
        return Ok(wit::ToolOutput { content, details, display, extra });
    }
    let text = content.iter().find_map(|part| match part {
        wit::Content::Text(text) => text.lines().next().map(str::to_owned),
        wit::Content::Image(_) | wit::Content::Other(_) => None,
    });
    let (kind, message) = (wit::ErrorKind::Failed, text.unwrap_or_default());
    Err(wit::ToolError { kind, message, retryable: false, content, details, display, extra })
}

fn content_for_guest(part: Content) -> Option<wit::Content> {
    match part {
        Content::Text { text } => Some(wit::Content::Text(text)),
        Content::Image(Image { media_type, data }) => Some(wit::Content::Image(wit::Image { media_type, data })),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Converts the outcome of a call for a hook.
///
/// # Errors
/// The call failed: its outcome becomes an error.
pub fn guest_outcome(outcome: &CallOutcome) -> Result<wit::ToolOutput, wit::ToolError> {
    let CallOutcome { content, details, display, failure } = outcome;
    let details = details.as_ref().map(Value::to_string);
    let display = match display {
        Display::Plain => wit::Display::Plain,
        Display::Markdown => wit::Display::Markdown,
        Display::Diff => wit::Display::Diff,
        Display::Code(language) => wit::Display::Code(language.clone()),
    };
    let parts = || content.iter().filter_map(guest_content).collect();
    let Some(failure) = failure else {
        return Ok(wit::ToolOutput { content: parts(), details, display, extra: None });
    };
    let (kind, retryable) = match failure {
        CallFailure::InvalidInput => (wit::ErrorKind::InvalidInput, false),
        CallFailure::Denied => (wit::ErrorKind::Denied, false),
        CallFailure::Cancelled => (wit::ErrorKind::Cancelled, false),
        CallFailure::Failed { retryable } => (wit::ErrorKind::Failed, *retryable),
        CallFailure::Reported => (wit::ErrorKind::Failed, false),
    };
    let message = content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
    let content = if *failure == CallFailure::Reported { parts() } else { Vec::new() };
    Err(wit::ToolError { kind, message, retryable, content, details, display, extra: None })
}

fn guest_content(part: &Content) -> Option<wit::Content> {
    match part {
        Content::Text { text } => Some(wit::Content::Text(text.clone())),
        Content::Image(image) => {
            let (media_type, data) = (image.media_type.clone(), image.data.clone());
            Some(wit::Content::Image(wit::Image { media_type, data }))
        }
        // Results contain nothing else.
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Converts an outcome that a hook returned, under the rules for results of tools.
///
/// # Errors
/// The outcome breaks the contract; the text completes "the plugin returned …".
pub fn outcome(tool: &str, revised: Result<wit::ToolOutput, wit::ToolError>) -> Result<CallOutcome, String> {
    let result = match revised {
        Ok(output) => tool_output(output).map(Ok),
        Err(error) => tool_error(tool, error),
    }?;
    let failure = CallFailure::from_result(&result);
    let ToolOutput { content, details, display, .. } =
        result.unwrap_or_else(|error| ToolOutput::text(error.for_model()));
    Ok(CallOutcome { content, details, display, failure })
}

/// Converts the error of a call for the plugin that made it.
pub fn error_for_guest(error: &ToolError) -> wit::ToolError {
    use wit::ErrorKind as Kind;
    let (kind, message, retryable) = match error {
        ToolError::UnknownTool { .. } => (Kind::NotFound, error.for_model(), false),
        ToolError::InvalidArguments { message, .. } => (Kind::InvalidInput, message.clone(), false),
        ToolError::Denied { reason, .. } => (Kind::Denied, reason.clone(), false),
        ToolError::Cancelled { .. } => (Kind::Cancelled, error.to_string(), false),
        ToolError::Failed { message, retryable, .. } => (Kind::Failed, message.clone(), *retryable),
        other => (Kind::Failed, other.for_model(), false),
    };
    let (content, details, extra) = (Vec::new(), None, None);
    wit::ToolError { kind, message, retryable, content, details, display: wit::Display::Plain, extra }
}

/// Converts effects that a plugin declares.
pub fn authority(flags: wit::Effects) -> Authority {
    Authority {
        reads: flags.contains(wit::Effects::READS),
        writes: flags.contains(wit::Effects::WRITES),
        executes: flags.contains(wit::Effects::EXECUTES),
        network: flags.contains(wit::Effects::NETWORK),
        destructive: flags.contains(wit::Effects::DESTRUCTIVE),
        delegates: flags.contains(wit::Effects::DELEGATES),
    }
}

/// Converts effects for a plugin.
pub fn effects(authority: Authority) -> wit::Effects {
    let flags = [
        (authority.reads, wit::Effects::READS),
        (authority.writes, wit::Effects::WRITES),
        (authority.executes, wit::Effects::EXECUTES),
        (authority.network, wit::Effects::NETWORK),
        (authority.destructive, wit::Effects::DESTRUCTIVE),
        (authority.delegates, wit::Effects::DELEGATES),
    ];
    flags.into_iter().filter(|(has, _)| *has).fold(wit::Effects::empty(), |all, (_, flag)| all | flag)
}

/// Returns a count as the contract has it: a larger number becomes the largest value.
#[inline]
pub fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Parses details. Small values take many times their length in memory, so their number is bounded before.
fn details(json: &str) -> Result<Value, String> {
    if json.len() > MAX_DETAILS_BYTES {
        return Err(format!("details of {} bytes, of at most {MAX_DETAILS_BYTES}", json.len()));
    }
    if count_values(json) > MAX_DETAILS_VALUES {
        return Err(format!("details of more than {MAX_DETAILS_VALUES} values"));
    }
    serde_json::from_str(json).map_err(|error| format!("details that are not JSON: {error}"))
}

/// Estimates the number of values in a JSON text: each but the first follows a bracket, a brace or a comma.
fn count_values(json: &str) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: wit::ErrorKind, content: Vec<wit::Content>) -> wit::ToolError {
        let (message, details) = ("wrong".to_owned(), Some(r#"{"exit_code": 1}"#.to_owned()));
        wit::ToolError { kind, message, retryable: true, content, details, display: wit::Display::Plain, extra: None }
    }

    #[test]
    fn error_with_content_is_a_result_of_a_failed_call() {
        let content = vec![wit::Content::Text("[exit code 1]".into())];
        let output = tool_error("t", error(wit::ErrorKind::Failed, content.clone())).unwrap().unwrap();
        assert!(output.is_error && output.content == [Content::text("[exit code 1]")]);
        assert_eq!(output.details.unwrap()["exit_code"], 1);
        let cancelled = tool_error("t", error(wit::ErrorKind::Cancelled, content)).unwrap();
        assert!(matches!(cancelled, Err(ToolError::Cancelled { .. })));
    }

    #[test]
    fn error_without_content_keeps_its_kind() {
        let converted = |kind| tool_error("t", error(kind, Vec::new())).unwrap().unwrap_err();
        assert!(matches!(converted(wit::ErrorKind::Failed), ToolError::Failed { retryable: true, .. }));
        assert!(matches!(converted(wit::ErrorKind::NotFound), ToolError::Failed { retryable: false, .. }));
        assert!(matches!(converted(wit::ErrorKind::InvalidInput), ToolError::InvalidArguments { .. }));
        assert!(matches!(converted(wit::ErrorKind::Denied), ToolError::Denied { .. }));
    }

    #[test]
    fn clips_end_where_characters_do() {
        assert_eq!(clip("aé", 2), "a");
    }

    #[test]
    fn effects_survive_both_conversions() {
        let all = Authority { reads: true, executes: true, delegates: true, ..Authority::default() };
        assert_eq!(authority(effects(all)), all);
    }

    #[test]
    fn details_are_bounded_in_bytes_values_and_nesting() {
        assert!(details(r#"{"text": "[[[,,,\"[[["}"#).is_ok());
        assert_eq!(count_values(r#"{"a": "[,\"[", "b": [1, {}]}"#), 6);
        assert!(details(&format!("[{}0]", "0,".repeat(MAX_DETAILS_VALUES))).unwrap_err().contains("values"));
        assert!(details(&format!("\"{}\"", "x".repeat(MAX_DETAILS_BYTES))).unwrap_err().contains("bytes"));
        assert!(details(&"[".repeat(1000)).is_err());
        assert!(details(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))).unwrap_err().contains("recursion limit"));
    }
}
