//! Errors as a line of text.

use std::error::Error;

/// Joins the message of an error and those of its causes with colons.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

/// Returns the message of the innermost cause, or of the error itself when it has none.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}
