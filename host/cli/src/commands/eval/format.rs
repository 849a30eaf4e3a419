//! The formats of results and comparisons.

use super::show;
use clap::ValueEnum;
use pinion_app::failure::Result;
use pinion_console::output::{answer, json, print, written};
use pinion_eval::compare::CaseComparison;
use pinion_eval::report::{atif, comparison_page, comparison_table, junit, result_page, result_summary};
use pinion_eval::result::SetResult;

/// Format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::commands) enum ResultFormat {
    /// Rows for people
    Table,
    /// The stored JSON
    Json,
    /// JUnit XML, a test case for each trial
    Junit,
    /// Markdown, for the page of a pull request
    Markdown,
    /// A page with plots and every trial, in one file without scripts
    Html,
    /// The trajectory of each trial in ATIF v1.8, one per line
    Atif,
}

/// Format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ComparisonFormat {
    /// Rows for people
    Table,
    /// JSON, one case per line
    Json,
    /// A table in Markdown
    Markdown,
    /// A page with plots, in one file without scripts
    Html,
}

/// Writes results to stdout; JUnit XML and HTML are one document.
pub(in crate::commands) fn output(results: &[SetResult], format: ResultFormat) -> Result<()> {
    let mut each = results.iter();
    match format {
        ResultFormat::Table => each.try_for_each(|result| print(&show::table(result))),
        ResultFormat::Json => each.try_for_each(|result| written(json(result))),
        ResultFormat::Junit => written(answer(&junit(results))),
        ResultFormat::Markdown => each.try_for_each(|result| written(answer(&result_summary(result)))),
        ResultFormat::Html => written(answer(&result_page(results))),
        ResultFormat::Atif => each.flat_map(atif::trajectories).try_for_each(|trajectory| written(json(&trajectory))),
    }
}

/// Writes a comparison to stdout.
pub(super) fn output_comparison(
    (before, after): (&SetResult, &SetResult),
    cases: &[CaseComparison],
    format: ComparisonFormat,
) -> Result<()> {
    match format {
        ComparisonFormat::Table => print(&show::comparison(cases)),
        ComparisonFormat::Json => cases.iter().try_for_each(|case| written(json(case))),
        ComparisonFormat::Markdown => written(answer(&comparison_table(cases))),
        ComparisonFormat::Html => written(answer(&comparison_page(before, after, cases))),
    }
}
