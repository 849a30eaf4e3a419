//! `pinion plugin test`: runs the cases in the `tests` directory of a project.
//!
//! Each case runs in the real runtime, in a workspace of its own with the files that it names, and with the grants that it names
//! instead of those that the user gave.

use crate::base::Base;
use crate::commands::plugin::build::{self, Destination};
use crate::commands::plugin::call;
use crate::commands::plugin::steps::Steps;
use crate::failure::{Failure, Result, Status};
use crate::output::{Text, note, print, result, text, written};
use crate::plugins::policy::Extent;
use pinion_agent::Content;
use pinion_agent::ToolExecutor as _;
use pinion_agent::tool::ToolProgress;
use pinion_plugin_runtime::Action;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// A file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(default)]
    case: Vec<Case>,
}

/// One call of a tool or a command, with what it must return.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Case {
    name: String,
    tool: Option<String>,
    command: Option<String>,
    /// The arguments of a tool, or the text after a command's name.
    #[serde(default)]
    input: Value,
    /// The files of the workspace, by path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    grant: Vec<String>,
    /// The whole text of the result, without line breaks at its end.
    output: Option<String>,
    /// Parts of the text of the result.
    #[serde(default)]
    contains: Vec<String>,
    /// A part of the message of the error.
    error: Option<String>,
    /// The call is expected to fail, with any message.
    #[serde(default)]
    fails: bool,
    details: Option<Value>,
    /// The message that a command sends to the model.
    submit: Option<String>,
    /// The text that a command shows.
    print: Option<String>,
    /// The content of files after the call, by path.
    #[serde(default)]
    written: BTreeMap<String, String>,
}

/// The result of a case that ran.
#[derive(Debug, Default)]
struct Outcome {
    text: String,
    details: Option<Value>,
    error: Option<String>,
    submit: Option<String>,
    print: Option<String>,
    time_us: u64,
}

pub(crate) async fn run(base: &Base, directory: &Path, only: Option<&str>, as_json: bool) -> Result<()> {
    let cases = read(&base.workspace.join(directory).join("tests"))?;
    let built = build::build(base, directory, Destination::Project, Steps::IfChanged).await?;
    let plugin = built.file.to_string_lossy().into_owned();
    let (mut passed, mut failed, mut results) = (0_usize, 0_usize, Vec::new());
    for case in cases.iter().filter(|case| only.is_none_or(|part| case.name.contains(part))) {
        let outcome = one(base, &plugin, case).await;
        let problem = outcome.as_ref().map_or_else(|failure| Some(failure.to_string()), |(_, problem)| problem.clone());
        let time_us = outcome.map_or(0, |(outcome, _)| outcome.time_us);
        match &problem {
            None => passed += 1,
            Some(_) => failed += 1,
        }
        if !as_json {
            let mark = if problem.is_none() { "ok    " } else { "FAILED" };
            let problem = problem.as_ref().map(|problem| text!("\n  {}", Text::block(problem))).unwrap_or_default();
            print(&text!("{} {}{}\n", mark, case.name, problem))?;
        }
        results.push(json!({ "name": case.name, "ok": problem.is_none(), "problem": problem, "time_us": time_us }));
    }
    match as_json {
        true => written(result(&json!({ "passed": passed, "failed": failed, "cases": results })))?,
        false => print(&text!("{} passed, {} failed\n", passed, failed))?,
    }
    match (passed, failed) {
        (0, 0) => Err(Failure::usage("no case ran").hint("describe calls in tests/cases.toml")),
        (_, 0) => Ok(()),
        _ => Err(Failure::new(Status::Failed, format!("{failed} of {} cases failed", passed + failed))),
    }
}

/// Reads the cases in the TOML and JSON files of a directory, by name of file.
fn read(directory: &Path) -> Result<Vec<Case>> {
    let entries = fs::read_dir(directory).map_err(|error| {
        Failure::usage(format!("could not read `{}`", directory.display()))
            .because(error)
            .hint("describe calls in tests/cases.toml")
    })?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let wrong = |error: String| Failure::usage(format!("invalid cases in `{}`", file.display())).because(error);
        let parsed: Cases = match file.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => text_of(&file)
                .and_then(|text| toml::from_str(&text).map_err(|error| error.to_string()))
                .map_err(wrong)?,
            Some("json") => text_of(&file)
                .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
                .map_err(wrong)?,
            _ => continue,
        };
        cases.extend(parsed.case);
    }
    Ok(cases)
}

fn text_of(file: &Path) -> std::result::Result<String, String> {
    fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Runs a case. Returns its outcome, and the difference from what it expects.
async fn one(base: &Base, plugin: &str, case: &Case) -> Result<(Outcome, Option<String>)> {
    let failed = |error: std::io::Error| Failure::failed("could not prepare the workspace of the case").because(error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let workspace = directory.path().canonicalize().map_err(failed)?;
    for (name, text) in &case.files {
        let file = workspace.join(own_path(name)?);
        file.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(file, text).map_err(failed)?;
    }
    let base = Base { workspace: workspace.clone(), ..base.clone() };
    let outcome = execute(&base, plugin, case).await?;
    let problem = difference(case, &outcome, &workspace);
    Ok((outcome, problem))
}

/// Returns a path of a case, which stays inside its workspace.
fn own_path(name: &str) -> Result<&Path> {
    let path = Path::new(name);
    match path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(path),
        false => Err(Failure::usage(format!("`{name}` is not a path inside the workspace of the case"))),
    }
}

async fn execute(base: &Base, plugin: &str, case: &Case) -> Result<Outcome> {
    let (runtime, info) = call::runtime(base, plugin, &case.grant, Extent::Alone).await?;
    match (&case.tool, &case.command) {
        (Some(tool), None) => {
            let input = if case.input.is_null() { json!({}) } else { case.input.clone() };
            let call = call::prepare(&runtime, &info, tool, input).await?;
            let reply = runtime.call(call, &Stderr).await;
            let time_us = reply.ledger.as_ref().map_or(0, |ledger| ledger.time_us);
            Ok(match reply.result {
                Ok(output) => {
                    let text = output.to_text();
                    let error = output.is_error.then(|| text.clone());
                    Outcome { text, details: output.details, error, time_us, ..Outcome::default() }
                }
                Err(error) => Outcome { error: Some(error.to_string()), time_us, ..Outcome::default() },
            })
        }
        (None, Some(command)) => {
            let input = case.input.as_str().unwrap_or_default();
            let mut outcome = Outcome::default();
            match runtime.run_command(command, input, "none", None, CancellationToken::new()).await {
                Ok(actions) => actions.into_iter().for_each(|action| match action {
                    Action::Submit(text) => outcome.submit = Some(text),
                    Action::Print(text) => outcome.print = Some(text),
                    _ => {}
                }),
                Err(error) => outcome.error = Some(format!("{error:#}")),
            }
            Ok(outcome)
        }
        _ => Err(Failure::usage(format!("case `{}` needs either `tool` or `command`", case.name))),
    }
}

/// Describes the first difference between an outcome and what a case expects.
fn difference(case: &Case, outcome: &Outcome, workspace: &Path) -> Option<String> {
    match (&case.error, &outcome.error) {
        (Some(part), Some(error)) if error.contains(part.as_str()) => {}
        (Some(part), error) => {
            return Some(format!("expected an error with `{part}`, got {}", error.as_deref().unwrap_or("a result")));
        }
        (None, None) if case.fails => return Some("expected an error, got a result".to_owned()),
        (None, Some(error)) if !case.fails => return Some(error.clone()),
        (None, _) => {}
    }
    let text = outcome.text.trim_end_matches('\n');
    if let Some(expected) = case.output.as_deref().map(|text| text.trim_end_matches('\n'))
        && expected != text
    {
        return Some(format!("expected the output\n{expected}\ngot\n{text}"));
    }
    if let Some(part) = case.contains.iter().find(|part| !text.contains(part.as_str())) {
        return Some(format!("`{part}` is not in the output\n{text}"));
    }
    let same = |name: &str, expected: &Option<String>, found: &Option<String>| {
        let is_different = expected.is_some() && expected != found;
        is_different.then(|| format!("expected {name} {expected:?}, got {found:?}"))
    };
    if let Some(details) = &case.details
        && outcome.details.as_ref() != Some(details)
    {
        return Some(format!("expected the details {details}, got {:?}", outcome.details));
    }
    let actions = same("submit", &case.submit, &outcome.submit).or_else(|| same("print", &case.print, &outcome.print));
    actions.or_else(|| {
        case.written.iter().find_map(|(name, expected)| {
            let found = own_path(name).ok().and_then(|path| fs::read_to_string(workspace.join(path)).ok());
            (found.as_ref() != Some(expected))
                .then(|| format!("expected `{name}` to contain {expected:?}, got {found:?}"))
        })
    })
}

/// Reports progress on stderr.
struct Stderr;

impl ToolProgress for Stderr {
    fn report(&self, message: String) {
        note(&text!("… {}", message));
    }

    fn update(&self, _partial: Vec<Content>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(text: &str) -> Case {
        let mut cases: Cases = toml::from_str(&format!("[[case]]\nname = \"a\"\ntool = \"t\"\n{text}")).unwrap();
        cases.case.remove(0)
    }

    #[test]
    fn difference_names_what_was_expected() {
        let result = |text: &str| Outcome { text: text.to_owned(), ..Outcome::default() };
        let none = Path::new("/nowhere");
        let differs = |text: &str, outcome: &Outcome| difference(&case(text), outcome, none);
        assert_eq!(differs("output = \"3 words\"", &result("3 words\n")), None);
        assert!(differs("output = \"3 words\"", &result("2 words")).unwrap().contains("2 words"));
        assert!(differs("contains = [\"4\"]", &result("3")).is_some());
        assert!(differs("error = \"denied\"", &result("3")).unwrap().contains("got a result"));
        let denied = Outcome { error: Some("`t`: denied: no".to_owned()), ..Outcome::default() };
        assert_eq!(differs("error = \"denied\"", &denied), None);
        assert!(differs("output = \"3\"", &denied).unwrap().contains("denied"), "an unexpected error is shown");
    }

    #[test]
    fn files_of_a_case_stay_in_its_workspace() {
        assert!(own_path("a/b.txt").is_ok());
        for name in ["../a", "/a", "a/../../b"] {
            assert!(own_path(name).is_err(), "{name}");
        }
    }
}
