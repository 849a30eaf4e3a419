//! Cases made of sessions.

use crate::case::CallEffect;
use crate::evaluators::FileChange;
use crate::trajectory::{Trajectory, TrajectoryTurn, WORKSPACE};
use crate::{files, workspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Maximum bytes of a file whose content becomes an expectation.
const MAX_CONTENT: u64 = 64 << 10;
/// Name of the directory of the case's workspace.
const DIRECTORY: &str = "workspace";

/// The expected outcome of the files, from the work of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOutcome {
    /// Contents of text files that were created or changed.
    pub equal: Vec<(String, String)>,
    /// Files that were deleted.
    pub absent: Vec<String>,
    /// Files that changed to a content that is not text, or is too long.
    pub may_change: Vec<String>,
}

impl FileOutcome {
    /// Compares the directories before and after the work.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn from_directories(before: &Path, after: &Path) -> io::Result<Self> {
        let mut outcome = Self::default();
        for FileChange { path, kind } in workspace::changes(&workspace::digests(before)?, &workspace::digests(after)?) {
            let content = match files::read(&after.join(&path), MAX_CONTENT) {
                _ if kind == "deleted" => {
                    outcome.absent.push(path);
                    continue;
                }
                Ok(bytes) => String::from_utf8(bytes).ok(),
                Err(_) => None,
            };
            match content {
                Some(content) => outcome.equal.push((path, content)),
                None => outcome.may_change.push(path),
            }
        }
        Ok(outcome)
    }
}

/// Returns the file of a case, in YAML: the prompts of a session, and its work as expectations. `scripts` are the names of
/// scripts that replace the model, one for each prompt.
pub fn case_text(id: &str, trajectory: &Trajectory, files: Option<&FileOutcome>, scripts: &[String]) -> String {
    let prompts: Vec<String> = conversation(trajectory).into_iter().map(|(prompt, _)| prompt).collect();
    let mut out = format!(
        "# Made of the session {}. Expectations are those of its work: keep the ones that matter.\n",
        trajectory.session_id
    );
    // A text in JSON is one in YAML, too. Writing to a string does not fail.
    let _ = writeln!(out, "id: {}\nprompts:", json!(id));
    for prompt in &prompts {
        let _ = writeln!(out, "  - {}", json!(prompt));
    }
    if files.is_some() {
        let _ = writeln!(out, "workspace: {{directory: {DIRECTORY}}}");
    }
    if !scripts.is_empty() {
        let _ = writeln!(out, "replay: {}", json!(scripts));
    }
    out.push_str("expect:\n");
    if let Some(files) = files {
        out.push_str("  files:\n    unchanged-elsewhere: true\n");
        if !files.equal.is_empty() {
            out.push_str("    equal:\n");
        }
        for (path, content) in &files.equal {
            let _ = writeln!(out, "      {}: {}", json!(path), json!(content));
        }
        for (name, paths) in [("absent", &files.absent), ("may-change", &files.may_change)] {
            if !paths.is_empty() {
                let _ = writeln!(out, "    {name}: {}", json!(paths));
            }
        }
    }
    let calls: Vec<&str> = trajectory.calls(false).map(|call| call.tool.as_str()).collect();
    if !calls.is_empty() {
        out.push_str("  tools:\n    mode: in-order\n    calls:\n");
        for tool in &calls {
            let _ = writeln!(out, "      - {{\"name\": {}}}", json!(tool));
        }
    }
    if !trajectory.answer.trim().is_empty() && !scripts.is_empty() {
        let _ = writeln!(out, "  answer: {{\"exact\": {}}}", json!(trajectory.answer.trim()));
    }
    let effects: BTreeSet<CallEffect> = trajectory.calls(true).flat_map(|call| call.effects.iter().copied()).collect();
    let effects: Vec<&str> = effects.into_iter().map(CallEffect::name).collect();
    let _ = writeln!(out, "  authority: {}", json!(effects));
    if !trajectory.calls(true).any(|call| call.is_denied) {
        out.push_str("  no-denied-calls: true\n");
    }
    let (calls, turns) = (trajectory.calls(true).count(), trajectory.turns.len());
    let _ = writeln!(out, "  budget: {{calls: {calls}, turns: {turns}}}");
    out
}

/// Returns the replies of a session as scripts, one for each prompt. `None` with sub-agents, whose requests have no fixed
/// order relative to the agent's requests.
pub fn scripts(trajectory: &Trajectory) -> Option<Vec<String>> {
    if trajectory.turns.iter().any(|turn| turn.is_sub_agent) {
        return None;
    }
    let script =
        |turns: Vec<&TrajectoryTurn>| -> String { turns.iter().map(|turn| format!("{}\n", reply(turn))).collect() };
    Some(conversation(trajectory).into_iter().map(|(_, turns)| script(turns)).collect())
}

fn reply(turn: &TrajectoryTurn) -> Value {
    let calls: Vec<Value> = turn
        .calls
        .iter()
        .map(|call| json!({ "tool": call.tool, "arguments": relative(&call.arguments), "id": call.id }))
        .collect();
    let mut reply = json!({ "calls": calls, "usage": turn.usage });
    if !turn.text.is_empty() {
        reply["text"] = relative(&Value::String(turn.text.clone()));
    }
    reply
}

/// Groups the agent's turns by the prompts before them. Prompts without a reply are left out.
fn conversation(trajectory: &Trajectory) -> Vec<(String, Vec<&TrajectoryTurn>)> {
    let mut groups: Vec<(String, Vec<&TrajectoryTurn>)> = Vec::new();
    for turn in trajectory.turns.iter().filter(|turn| !turn.is_sub_agent) {
        match groups.last_mut() {
            Some((_, turns)) if turn.prompts.is_empty() => turns.push(turn),
            _ => groups.push((relative_text(&turn.prompts.join("\n\n")), vec![turn])),
        }
    }
    groups
}

/// Replaces paths in the workspace by relative ones, because a trial has another workspace.
fn relative(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(relative_text(text)),
        Value::Array(items) => items.iter().map(relative).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), relative(value))).collect(),
        plain => plain.clone(),
    }
}

fn relative_text(text: &str) -> String {
    text.replace(&format!("{WORKSPACE}/"), "").replace(WORKSPACE, ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluators::EvaluatorRegistry;
    use crate::load::parse_set;
    use crate::trajectory::TrajectoryCall;

    fn trajectory() -> Trajectory {
        let call = TrajectoryCall {
            id: "1".to_owned(),
            tool: "write".to_owned(),
            arguments: json!({ "path": "$WORKSPACE/a b", "in": ["$WORKSPACE"] }),
            effects: [CallEffect::Writes, CallEffect::Reads].into(),
            ..TrajectoryCall::default()
        };
        let turn = |prompts: &[&str], text: &str, calls: Vec<TrajectoryCall>| TrajectoryTurn {
            prompts: prompts.iter().map(|prompt| (*prompt).to_owned()).collect(),
            text: text.to_owned(),
            calls,
            ..TrajectoryTurn::default()
        };
        let turns = vec![
            turn(&["look: \"$WORKSPACE/x\"\n- and # go"], "", vec![call]),
            turn(&[], "one", vec![]),
            turn(&["more"], "two", vec![]),
        ];
        Trajectory { turns, answer: "two".to_owned(), session_id: "S".to_owned(), ..Trajectory::default() }
    }

    #[test]
    fn case_of_a_session_loads_with_its_work_as_expectations() {
        let files = FileOutcome {
            equal: vec![("a b".to_owned(), "x: \"y\"\n\u{1}é".to_owned())],
            absent: vec!["gone".to_owned()],
            may_change: vec!["big".to_owned()],
        };
        let names = ["1.jsonl".to_owned(), "2.jsonl".to_owned()];
        let text = case_text("s-1", &trajectory(), Some(&files), &names);
        let set = parse_set(&text, Path::new("case.yaml"), &EvaluatorRegistry::default()).unwrap();
        let case = &set.cases[0];
        assert_eq!(
            (case.id.as_str(), &case.prompts[..]),
            ("s-1", &["look: \"x\"\n- and # go".to_owned(), "more".to_owned()][..])
        );
        let expected = case.expect.files.as_ref().unwrap();
        assert_eq!(expected.equal["a b"], "x: \"y\"\n\u{1}é");
        assert_eq!((&expected.absent, &expected.may_change), (&vec!["gone".to_owned()], &vec!["big".to_owned()]));
        assert_eq!(case.expect.authority, Some(vec![CallEffect::Reads, CallEffect::Writes]));
        assert_eq!(case.expect.answer.as_ref().unwrap().exact.as_deref(), Some("two"));
        assert_eq!(case.expect.budget.map(|budget| (budget.calls, budget.turns)), Some((Some(1), Some(3))));
        assert!(case.expect.no_denied_calls && case.replay.len() == 2);
    }

    #[test]
    fn scripts_have_the_replies_of_each_prompt() {
        let scripts = scripts(&trajectory()).unwrap();
        let replies: Vec<Vec<Value>> = scripts
            .iter()
            .map(|script| script.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
            .collect();
        assert_eq!(replies.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(replies[0][0]["calls"][0]["arguments"], json!({ "path": "a b", "in": ["."] }));
        assert_eq!((&replies[0][1]["text"], &replies[1][0]["text"]), (&json!("one"), &json!("two")));
        let mut nested = trajectory();
        nested.turns[1].is_sub_agent = true;
        assert_eq!(super::scripts(&nested), None);
    }

    #[test]
    fn outcome_has_texts_and_names_of_other_files() {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (directory, path, content) in [
            (&before, "same", b"1".as_slice()),
            (&after, "same", b"1"),
            (&before, "gone", b"1"),
            (&before, "text", b"1"),
            (&after, "text", b"2"),
            (&after, "bytes", b"\xff"),
        ] {
            std::fs::write(directory.path().join(path), content).unwrap();
        }
        let expected = FileOutcome {
            equal: vec![("text".to_owned(), "2".to_owned())],
            absent: vec!["gone".to_owned()],
            may_change: vec!["bytes".to_owned()],
        };
        assert_eq!(FileOutcome::from_directories(before.path(), after.path()).unwrap(), expected);
    }
}
