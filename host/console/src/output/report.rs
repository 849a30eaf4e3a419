//! The form of a failure: `error: MESSAGE: CAUSE`, then a `hint:` line; and a JSON object for programs.

use crate::args::OutputFormat;
use crate::output::streams::{note, result_if_none};
use crate::output::terminal::Style;
use pinion_app::failure::Failure;
use pinion_app::output::text;
use serde_json::json;

/// Writes a failure to stderr and, if stdout is for programs and has no result yet, a result that names it.
pub fn report(failure: &Failure, format: OutputFormat) {
    note(&text!("{} {}", Style::of_stderr().red("error:"), failure));
    report_result(failure, format);
}

/// Writes a result that names a failure, if stdout is for programs and has no result yet.
pub fn report_result(failure: &Failure, format: OutputFormat) {
    result(format, &failure.message(), failure.remedy());
}

/// Writes the result of a command line that cannot be parsed. Its error is on stderr already.
pub fn report_usage(error: &clap::Error, format: OutputFormat) {
    let rendered = error.render().to_string();
    let message = rendered.split("\n\n").next().unwrap_or_default();
    result(format, message.strip_prefix("error: ").unwrap_or(message), None);
}

fn result(format: OutputFormat, error: &str, hint: Option<&str>) {
    if format != OutputFormat::Text {
        let fields = json!({ "type": "result", "result": "", "stop_reason": "error", "error": error, "hint": hint });
        result_if_none(&fields);
    }
}
