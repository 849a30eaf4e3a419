//! Errors as a line of text.

pub(crate) use pinion_protocol::text::with_causes;
use std::error::Error;

/// Returns the message of the innermost cause, or of the error itself when it has no cause.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}
