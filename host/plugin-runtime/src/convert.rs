//! Conversions between the contract's types and the agent's, with the bounds that results of guests must keep.

use crate::bindings::pinion::plugin::types as wit;
use pinion_protocol::{Content, Display, Image, ToolError, ToolOutput};
use serde_json::Value;

/// Parts that one result or update may have.
pub(crate) const MAX_PARTS: usize = 1000;
/// Bytes that a part counts besides its text or picture: about what it takes wherever it is kept or written.
const PART_BYTES: usize = 64;
/// Bytes that the details of one result may have.
const MAX_DETAILS_BYTES: usize = 4 * 1024 * 1024;
/// Values that the details of one result may have.
const MAX_DETAILS_VALUES: usize = 100_000;
/// Member of the details that marks a result as an error.
const IS_ERROR: &str = "is_error";
/// Bytes that the name of a language or media type may have.
const MAX_LANGUAGE_BYTES: usize = 64;

/// Returns at most `limit` bytes of `text`, cut at the end of a character.
pub(crate) fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Converts one part of a result or update.
pub(crate) fn content(part: wit::Content) -> Content {
    match part {
        wit::Content::Text(text) => Content::Text { text },
        wit::Content::Image(image) => Content::Image(Image { media_type: image.media_type, data: image.data }),
    }
}

/// Returns the bytes that content counts against the output limit. The first part counts by its size alone.
pub(crate) fn contents_bytes(content: &[wit::Content]) -> usize {
    let sizes: usize = content.iter().map(content_bytes).sum();
    sizes + PART_BYTES * content.len().saturating_sub(1)
}

fn content_bytes(part: &wit::Content) -> usize {
    match part {
        wit::Content::Text(text) => text.len(),
        wit::Content::Image(image) => image.media_type.len() + image.data.len(),
    }
}

/// Returns whether a part is an empty text.
pub(crate) fn is_empty(part: &wit::Content) -> bool {
    matches!(part, wit::Content::Text(text) if text.is_empty())
}

/// Returns the bytes that a result counts against the output limit.
pub(crate) fn output_bytes(output: &wit::ToolOutput) -> usize {
    let details = output.details.as_ref().map_or(0, String::len);
    let language = match &output.display {
        wit::Display::Code(language) => language.len(),
        wit::Display::Plain | wit::Display::Markdown | wit::Display::Diff => 0,
    };
    details + language + contents_bytes(&output.content)
}

/// Returns the bytes that an error counts against the output limit.
pub(crate) fn error_bytes(error: &wit::ToolError) -> usize {
    match error {
        wit::ToolError::InvalidArguments(text) | wit::ToolError::NotFound(text) | wit::ToolError::Denied(text) => {
            text.len()
        }
        wit::ToolError::Failed(failure) => failure.message.len(),
        wit::ToolError::Cancelled => 0,
    }
}

/// Converts an error that a tool returned.
pub(crate) fn tool_error(tool: &str, error: wit::ToolError) -> ToolError {
    let tool = tool.to_owned();
    match error {
        wit::ToolError::InvalidArguments(message) => ToolError::InvalidArguments { tool, message },
        wit::ToolError::NotFound(message) => ToolError::Failed { tool, message, retryable: false },
        wit::ToolError::Denied(reason) => ToolError::Denied { tool, reason },
        wit::ToolError::Cancelled => ToolError::Cancelled { tool },
        wit::ToolError::Failed(failure) => {
            ToolError::Failed { tool, message: failure.message, retryable: failure.retryable }
        }
    }
}

/// Converts a result.
///
/// # Errors
/// The result breaks the contract; the text completes "the plugin returned …".
pub(crate) fn tool_output(output: wit::ToolOutput) -> Result<ToolOutput, String> {
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
    let details = output.details.as_deref().map(details).transpose()?;
    Ok(ToolOutput {
        // A result that is only an empty text stays one.
        content: if content.is_empty() && had_content { vec![Content::text("")] } else { content },
        is_error: details.as_ref().and_then(|details| details.get(IS_ERROR)) == Some(&Value::Bool(true)),
        details,
        display: match output.display {
            wit::Display::Plain => Display::Plain,
            wit::Display::Markdown => Display::Markdown,
            wit::Display::Diff => Display::Diff,
            wit::Display::Code(language) => Display::Code(clip(&language, MAX_LANGUAGE_BYTES).to_owned()),
        },
    })
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

    #[test]
    fn details_can_mark_a_result_as_an_error() {
        let is_error = |details: Option<&str>| {
            let details = details.map(str::to_owned);
            let content = vec![wit::Content::Text("[exit code 1]".into())];
            tool_output(wit::ToolOutput { content, details, display: wit::Display::Plain }).unwrap().is_error
        };
        assert!(is_error(Some(r#"{"is_error": true, "exit_code": 1}"#)));
        for other in [None, Some("{}"), Some(r#"{"is_error": "yes"}"#), Some(r#"[{"is_error": true}]"#), Some("true")] {
            assert!(!is_error(other), "{other:?}");
        }
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
