//! Scripts of file operations for the guests `intruder` and `lingering`.

use pinion_tests::Sandbox;
use serde_json::json;

/// Runs steps in one call of `tool` and returns one line per step: `ok ANSWER` or `err MESSAGE`.
pub(super) async fn run(sandbox: &Sandbox, tool: &str, steps: &[&[&str]]) -> Vec<String> {
    sandbox.text(tool, json!({ "steps": steps })).await.lines().map(str::to_owned).collect()
}

/// Asserts that all steps fail.
pub(super) async fn refused(sandbox: &Sandbox, tool: &str, steps: &[&[&str]]) {
    for (step, line) in steps.iter().zip(run(sandbox, tool, steps).await) {
        assert!(line.starts_with("err"), "{tool} {step:?}: {line}");
    }
}

/// Asserts that all steps succeed and returns their answers.
pub(super) async fn done(sandbox: &Sandbox, tool: &str, steps: &[&[&str]]) -> Vec<String> {
    let lines = run(sandbox, tool, steps).await;
    for (step, line) in steps.iter().zip(&lines) {
        assert!(line.starts_with("ok"), "{tool} {step:?}: {line}");
    }
    lines.into_iter().map(|line| line[3..].to_owned()).collect()
}
