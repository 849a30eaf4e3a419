//! Cases as tasks of Harbor.

use super::verifier::{content_list, is_known_pattern, verifier, write_files};
use crate::case::{EvaluationCase, EvaluationSet};
use crate::workspace;
use std::io;
use std::path::Path;

/// Seconds that an agent has without a limit of the case.
const SECONDS: u64 = 1_800;

/// The image of tasks. Its files come from the directory next to the file.
const IMAGE: &str = "FROM debian:13-slim\nRUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl git && rm -rf \
     /var/lib/apt/lists/*\nCOPY workspace/ /app/\nWORKDIR /app\n";

/// The tasks that were written, and the parts of cases that Harbor does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedTasks {
    /// Ids of the cases.
    pub cases: Vec<String>,
    /// Sentences about expectations and cases that were left out.
    pub omissions: Vec<String>,
}

/// Writes a directory with a task for each case of a set to `directory`. A task has the prompts, the workspace, and the
/// expectations of files and commands as a script.
///
/// # Errors
/// A workspace cannot be prepared, or a file cannot be written; the text is for people.
pub fn export_tasks(set: &EvaluationSet, directory: &Path) -> Result<ExportedTasks, String> {
    let mut exported = ExportedTasks::default();
    for case in &set.cases {
        match obstacle(case) {
            Some(obstacle) => exported.omissions.push(format!("case `{}` was left out: {obstacle}", case.id)),
            None => {
                export_task(set, case, &directory.join(&case.id))?;
                exported.cases.push(case.id.clone());
                let omitted = omitted(case);
                if !omitted.is_empty() {
                    exported.omissions.push(format!("case `{}` has no {} in Harbor", case.id, omitted.join(", ")));
                }
            }
        }
    }
    Ok(exported)
}

/// Returns the reason a case cannot be a task.
fn obstacle(case: &EvaluationCase) -> Option<&'static str> {
    let files = case.expect.files.as_ref();
    if case.prompt.is_none() && case.prompts.len() != 1 {
        return Some("a task has one prompt");
    }
    if case.resume.is_some() || !case.workspace.outside.is_empty() {
        return Some("a task has neither a session nor files outside the workspace");
    }
    if files.is_none() && case.expect.commands.is_empty() {
        return Some("it expects neither files nor commands");
    }
    let is_known = files.is_none_or(|files| files.may_change.iter().all(|pattern| is_known_pattern(pattern)));
    (!is_known).then_some("`may-change` has a pattern with other characters than `*` and `?`")
}

/// Returns the kinds of expectations that a task does not have.
fn omitted(case: &EvaluationCase) -> Vec<&'static str> {
    let expect = &case.expect;
    let kinds = [
        ("tools", expect.tools.is_some()),
        ("answer", expect.answer.is_some()),
        ("budget", expect.budget.is_some()),
        ("efficiency", expect.efficiency.is_some()),
        ("authority", expect.authority.is_some()),
        ("no-denied-calls", expect.no_denied_calls),
        ("results", expect.results.is_some()),
        ("functions", !expect.functions.is_empty()),
        ("recorded-calls", expect.recorded_calls.is_some()),
        ("replay", !case.replay.is_empty()),
    ];
    kinds.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
}

fn export_task(set: &EvaluationSet, case: &EvaluationCase, directory: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("could not write the task `{}`: {error}", directory.display());
    let files = directory.join("environment/workspace");
    std::fs::create_dir_all(&files).map_err(failed)?;
    workspace::prepare(&case.workspace, &set.directory, &files)?;
    let before = content_list(&files).map_err(failed)?;
    let prompt: Vec<&str> = case.all_prompts().collect();
    let texts = vec![
        ("task.toml".to_owned(), settings(set, case)),
        ("instruction.md".to_owned(), format!("{}\n", prompt.join("\n").trim_end())),
        ("environment/Dockerfile".to_owned(), IMAGE.to_owned()),
    ];
    write_files(directory, &texts)
        .and_then(|()| write_files(&directory.join("tests"), &verifier(case, &before)))
        .map_err(failed)
}

fn settings(set: &EvaluationSet, case: &EvaluationCase) -> String {
    let text = |text: &str| toml::Value::String(text.to_owned());
    let description = case.description.as_deref().or(case.name.as_deref()).unwrap_or_default();
    let seconds = case.limits.seconds.unwrap_or(SECONDS);
    format!(
        "schema_version = \"1.4\"\n\n[metadata]\nset = {}\ncase = {}\ndescription = {}\n\n[agent]\ntimeout_sec = {seconds}.0\n\n\
         [verifier]\ntimeout_sec = 600.0\n\n[environment]\nworkdir = \"/app\"\n",
        text(&set.id),
        text(&case.id),
        text(description)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluators::EvaluatorRegistry;
    use crate::load::parse_set;

    #[test]
    fn case_is_a_task_with_its_workspace_and_omissions_are_named() {
        let text = "id: s\ncases:\n  - {id: a, prompt: 'Fix \"it\".', description: 'a \"b\"', workspace: {files: {x/y: z}}, limits: {seconds: 9}, \
                    expect: {commands: ['true'], answer: {exact: x}, authority: []}}\n  - {id: b, prompts: [x, y], expect: {commands: ['true']}}\n  \
                    - {id: c, prompt: x}\n  - {id: d, prompt: x, expect: {files: {unchanged-elsewhere: true, may-change: ['[ab]']}}}\n";
        let set = parse_set(text, Path::new("s.yaml"), &EvaluatorRegistry::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let exported = export_tasks(&set, directory.path()).unwrap();
        assert_eq!(exported.cases, ["a"]);
        let expected = [
            "case `a` has no answer, authority in Harbor",
            "case `b` was left out: a task has one prompt",
            "case `c` was left out: it expects neither files nor commands",
            "case `d` was left out: `may-change` has a pattern with other characters than `*` and `?`",
        ];
        assert_eq!(exported.omissions, expected);
        let read = |path: &str| std::fs::read_to_string(directory.path().join("a").join(path)).unwrap();
        assert_eq!(
            (read("environment/workspace/x/y").as_str(), read("instruction.md").as_str()),
            ("z", "Fix \"it\".\n")
        );
        let settings: toml::Table = read("task.toml").parse().unwrap();
        assert_eq!(settings["metadata"]["description"].as_str(), Some("a \"b\""));
        assert_eq!(settings["agent"]["timeout_sec"].as_float(), Some(9.0));
        assert!(read("tests/test.sh").contains("expect sh -c true") && read("environment/Dockerfile").contains("/app"));
    }
}
