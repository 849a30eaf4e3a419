//! Reads the results of tests and draws them for the user; the model gets the failures only.

mod junit;

use junit::{Report, Test};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::ui::{self, Bar, Block, Span, Style, Table};

/// The most failures whose messages the model gets.
const MAX_FAILURES: usize = 20;
/// The most rows of the table.
const MAX_ROWS: usize = 50;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// A report in the JUnit format, relative to the workspace.
    path: String,
}

struct TestReport;

impl Plugin for TestReport {
    fn tools() -> Vec<Tool> {
        let description = "Reads a report of tests in the JUnit XML format, which pytest, cargo nextest, gotestsum, jest, \
                           Maven and Gradle write. Returns the totals and the failures with their messages.";
        vec![Tool::new("test_report", description, report).reads()]
    }

    fn commands() -> Vec<Command> {
        let ask = |typed: &str, _: &Call| match typed.trim() {
            "" => Err("name a report in the JUnit format".to_owned()),
            path => Ok(vec![Action::Submit(format!("Read {path} with test_report and fix the first failure."))]),
        };
        vec![Command::new("fix-tests", "Fix the first failure of a test report", ask).argument("<junit.xml>")]
    }
}

fn report(input: Input, call: &Call) -> Result<Output> {
    let text = std::fs::read_to_string(call.path(&input.path)?)?;
    let report = Report::parse(&text).map_err(|error| Error::failed(format!("`{}`: {error}", input.path)))?;
    // Without the grant, or without a user, there is no drawing. The text has everything that matters.
    let is_drawn = ui::draw_result(&drawing(&report)).is_ok();
    let (passed, failed, skipped) = report.totals();
    let details = json!({ "passed": passed, "failed": failed, "skipped": skipped, "drawn": is_drawn });
    Ok(Output::text(words(&report)).details(details))
}

/// The text for the model.
fn words(report: &Report) -> String {
    let (passed, failed, skipped) = report.totals();
    let mut text = format!("{passed} passed, {failed} failed, {skipped} skipped in {:.1} s", report.seconds());
    for test in report.failures().take(MAX_FAILURES) {
        text.push_str(&format!("\n\nFAILED {}\n{}", test.name, test.failure.as_deref().unwrap_or_default()));
    }
    if failed > MAX_FAILURES {
        text.push_str(&format!("\n\nand {} more failures", failed - MAX_FAILURES));
    }
    text
}

/// The drawing for the user: totals, a bar, the failures, and the first difference between two values.
fn drawing(report: &Report) -> Vec<Block> {
    let (passed, failed, skipped) = report.totals();
    let span = |text: String, style| Span { text, style };
    let colour = if failed == 0 { Style::Success } else { Style::Error };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut blocks = vec![
        Block::Lines(vec![vec![
            span(format!("{passed} passed "), Style::Success),
            span(format!("{failed} failed "), colour),
            span(format!("{skipped} skipped in {:.1} s", report.seconds()), Style::Dim),
        ]]),
        Block::Bar(Bar { label: "passed".to_owned(), done: count(passed), total: Some(count(passed + failed)) }),
    ];
    let rows: Vec<Vec<String>> = report.failures().take(MAX_ROWS).map(row).collect();
    if !rows.is_empty() {
        let header = ["failed test", "seconds", "message"].map(str::to_owned).to_vec();
        blocks.push(Block::Table(Table { header, rows }));
    }
    blocks.extend(report.failures().find_map(Test::difference).map(Block::Diff));
    blocks
}

fn row(test: &Test) -> Vec<String> {
    let message = test.failure.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
    vec![test.name.clone(), format!("{:.2}", test.seconds), message.to_owned()]
}

export!(TestReport, exports = [tools, commands], asks = { "files": "read", "ui": true });

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = include_str!("../tests/report.xml");

    #[test]
    fn model_gets_totals_and_failures() {
        let text = words(&Report::parse(XML).unwrap());
        assert!(text.starts_with("2 passed, 1 failed, 1 skipped in 1.8 s\n\nFAILED parser::reads_numbers\n"), "{text}");
        assert!(text.ends_with("left: 41\n right: 42"), "{text}");
    }

    #[test]
    fn drawing_has_a_table_and_a_difference() {
        let blocks = drawing(&Report::parse(XML).unwrap());
        let [Block::Lines(_), Block::Bar(bar), Block::Table(table), Block::Diff(diff)] = &blocks[..] else {
            panic!("{blocks:?}")
        };
        assert_eq!((bar.done, bar.total), (2, Some(3)));
        assert_eq!(table.rows, [["parser::reads_numbers", "1.25", "assertion `left == right` failed"]]);
        assert_eq!(diff, "-41\n+42");
    }
}
