//! The result of a call.

use crate::error::TestError;
use pinion_agent::tool::{Ledger, ToolOutput};
use serde_json::Value;

/// The result of a call of a tool, with its resource use.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The output, or the reason why there is no output.
    pub result: Result<ToolOutput, TestError>,
    /// The resources that the call used; empty if no code of the plugin ran.
    pub ledger: Ledger,
    /// The lines of progress, in order.
    pub progress: Vec<String>,
}

impl Reply {
    /// Returns the text of the output, without line breaks at its end.
    ///
    /// # Errors
    /// The call failed, or its output is marked as a failure.
    pub fn text(&self) -> Result<String, TestError> {
        let output = self.result.as_ref().map_err(Clone::clone)?;
        match output.is_error {
            false => Ok(text(output)),
            true => Err(TestError::new(format!("the tool reports a failure: {}", text(output)))),
        }
    }

    /// Returns the details of the output; `Value::Null` if there are no details.
    ///
    /// # Errors
    /// The call failed.
    pub fn details(&self) -> Result<Value, TestError> {
        let output = self.result.as_ref().map_err(Clone::clone)?;
        Ok(output.details.clone().unwrap_or_default())
    }

    /// Returns the message of a call that failed, or the text of an output that is marked as a failure.
    ///
    /// # Errors
    /// The call succeeded.
    pub fn error(&self) -> Result<String, TestError> {
        match &self.result {
            Err(error) => Ok(error.to_string()),
            Ok(output) if output.is_error => Ok(text(output)),
            Ok(output) => Err(TestError::new(format!("the call succeeded: {}", text(output)))),
        }
    }
}

/// Returns the text of an output without line breaks at its end.
fn text(output: &ToolOutput) -> String {
    output.to_text().trim_end_matches('\n').to_owned()
}
