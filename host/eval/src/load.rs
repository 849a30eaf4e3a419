//! Reading of sets of cases, with errors that name the file, the case and the field.

use crate::case::{EvaluationCase, EvaluationSet, is_id, is_inside};
use crate::error::EvalError;
use crate::evaluators::EvaluatorRegistry;
use crate::{files, yaml};
use globset::Glob;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;

/// Maximum bytes of a file of cases.
const MAX_FILE: u64 = 16 << 20;
/// Maximum number of trials of a case.
const MAX_TRIALS: u32 = 10_000;
/// Modes of `--approve`.
const APPROVE: [&str; 6] = ["ask", "confirm", "smart", "edits", "plan", "all"];
/// Settings whose entries are merged with the defaults of the set, one by one.
const MERGED: [&str; 3] = ["limits", "expect", "metadata"];

/// Loads a set, or a single case, from a file. Its name ends in `.toml`, or its content is YAML.
///
/// # Errors
/// The file cannot be read, is neither, or has an invalid field.
pub fn load_set(path: &Path, registry: &EvaluatorRegistry) -> Result<EvaluationSet, EvalError> {
    let bytes = files::read(path, MAX_FILE).map_err(EvalError::read(path))?;
    let text = String::from_utf8(bytes).map_err(|error| syntax(path, "UTF-8 text", error))?;
    parse_set(&text, path, registry)
}

fn syntax(path: &Path, format: &'static str, problem: impl ToString) -> EvalError {
    EvalError::Syntax { path: path.to_owned(), format, problem: problem.to_string().trim_end().to_owned() }
}

/// Reads a set from the text of the file `path`.
///
/// # Errors
/// The text is not of the format that the name says, or has an invalid field.
pub fn parse_set(text: &str, path: &Path, registry: &EvaluatorRegistry) -> Result<EvaluationSet, EvalError> {
    let value = match path.extension().is_some_and(|extension| extension == "toml") {
        true => toml::from_str::<Value>(text).map_err(|error| syntax(path, "TOML", error))?,
        false => yaml::parse(text).map_err(|error| syntax(path, "YAML", error))?,
    };
    let reader = SetReader { path, registry };
    reader.read(value)
}

/// The file that is read, for errors.
struct SetReader<'a> {
    path: &'a Path,
    registry: &'a EvaluatorRegistry,
}

impl SetReader<'_> {
    fn set_error(&self, field: &str, problem: impl ToString) -> EvalError {
        EvalError::SetField { path: self.path.to_owned(), field: field.to_owned(), problem: problem.to_string() }
    }

    fn case_error(&self, case: &str, field: impl Into<String>, problem: impl ToString) -> EvalError {
        let (path, case) = (self.path.to_owned(), case.to_owned());
        EvalError::CaseField { path, case, field: field.into(), problem: problem.to_string() }
    }

    fn read(&self, value: Value) -> Result<EvaluationSet, EvalError> {
        let Value::Object(mut fields) = value else { return Err(self.set_error(".", "not a table")) };
        if !fields.contains_key("cases") {
            // A file with a single case is a set of that name.
            let id = fields.get("id").cloned().unwrap_or_default();
            fields = Map::from_iter([("id".to_owned(), id), ("cases".to_owned(), json!([fields]))]);
        }
        let defaults = match fields.shift_remove("defaults") {
            None => Map::new(),
            Some(Value::Object(defaults)) => defaults,
            Some(_) => return Err(self.set_error("defaults", "not a table")),
        };
        if let Some(field) = ["id", "cases"].into_iter().find(|field| defaults.contains_key(*field)) {
            return Err(self.set_error(&format!("defaults.{field}"), "not a setting of all cases"));
        }
        let cases = match fields.insert("cases".to_owned(), json!([])) {
            Some(Value::Array(cases)) if !cases.is_empty() => cases,
            Some(Value::Array(_)) => return Err(self.set_error("cases", "a set needs at least one case")),
            _ => return Err(self.set_error("cases", "not a list")),
        };
        let mut set: EvaluationSet = serde_path_to_error::deserialize(Value::Object(fields))
            .map_err(|error| self.set_error(&error.path().to_string(), error.inner()))?;
        set.directory = self.path.parent().unwrap_or(Path::new("")).to_owned();
        self.check_set(&set)?;
        let mut ids = HashSet::new();
        for (number, case) in cases.into_iter().enumerate() {
            let case = self.case(case, number + 1, &defaults)?;
            if !ids.insert(case.id.clone()) {
                return Err(self.case_error(&case.id, "id", "an earlier case has the same id"));
            }
            set.cases.push(case);
        }
        Ok(set)
    }

    fn check_set(&self, set: &EvaluationSet) -> Result<(), EvalError> {
        if set.version != 1 {
            return Err(self.set_error("version", "this program reads version 1"));
        }
        if !is_id(&set.id) {
            return Err(self.set_error("id", ID_RULE));
        }
        let amounts =
            [("gate.cost", set.gate.cost), ("gate.seconds", set.gate.seconds), ("budget.cost", set.budget.cost)];
        for (field, amount) in amounts {
            if amount.is_some_and(|amount| !is_amount(amount)) {
                return Err(self.set_error(field, AMOUNT_RULE));
            }
        }
        match set.gate.pass_rate {
            Some(rate) if !is_share(rate) => Err(self.set_error("gate.pass-rate", SHARE_RULE)),
            _ => Ok(()),
        }
    }

    fn case(&self, value: Value, number: usize, defaults: &Map<String, Value>) -> Result<EvaluationCase, EvalError> {
        let unnamed = format!("number {number}");
        let Value::Object(mut fields) = value else { return Err(self.case_error(&unnamed, ".", "not a table")) };
        let name = fields.get("id").and_then(Value::as_str).unwrap_or(&unnamed).to_owned();
        merge(&mut fields, defaults);
        if let Some(replay @ Value::String(_)) = fields.get_mut("replay") {
            *replay = json!([replay.take()]);
        }
        let case: EvaluationCase = serde_path_to_error::deserialize(Value::Object(fields))
            .map_err(|error| self.case_error(&name, error.path().to_string(), error.inner()))?;
        match self.problem(&case) {
            Some((field, problem)) => Err(self.case_error(&name, field, problem)),
            None => Ok(case),
        }
    }

    /// Returns the first field of a case that has no meaning, and the reason.
    fn problem(&self, case: &EvaluationCase) -> Option<(String, String)> {
        let found = |field: &str, problem: &str| Some((field.to_owned(), problem.to_owned()));
        if !is_id(&case.id) {
            return found("id", ID_RULE);
        }
        let sources = [case.prompt.is_some(), !case.prompts.is_empty(), case.session.is_some(), case.execute.is_some()];
        if sources.into_iter().filter(|is_given| *is_given).count() != 1 {
            return found("prompt", "a case has one of `prompt`, `prompts`, `execute` and `session`");
        }
        if case.all_prompts().any(|prompt| prompt.trim().is_empty()) {
            return found("prompt", "it is empty");
        }
        if case.model.is_some() && !case.models.is_empty() {
            return found("models", "a case has one of `model` and `models`");
        }
        if case.resume.is_some() && case.all_prompts().next().is_none() {
            return found("resume", "only prompts continue a session");
        }
        if !case.replay.is_empty() && case.replay.len() != case.run_count() {
            return found("replay", "each prompt needs a recording or a script");
        }
        if !(1..=MAX_TRIALS).contains(&case.trials) {
            return found("trials", "not a number from 1 to 10000");
        }
        if case.approve.as_deref().is_some_and(|mode| !APPROVE.contains(&mode)) {
            return Some(("approve".to_owned(), format!("not one of {}", APPROVE.join(", "))));
        }
        let budget = case.expect.budget.unwrap_or_default();
        let amounts = [
            ("limits.cost", case.limits.cost),
            ("expect.budget.cost", budget.cost),
            ("expect.budget.seconds", budget.seconds),
        ];
        if let Some((field, _)) = amounts.iter().find(|(_, amount)| amount.is_some_and(|amount| !is_amount(amount))) {
            return found(field, AMOUNT_RULE);
        }
        let known = self.registry.names();
        let unknown = case.evaluators.iter().flatten().find(|name| !known.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Some(("evaluators".to_owned(), format!("no evaluator `{name}`; there are {}", known.join(", "))));
        }
        environment_problem(case)
            .or_else(|| workspace_problem(case))
            .or_else(|| file_problem(case))
            .or_else(|| answer_problem(case))
            .or_else(|| {
                let tools = case.expect.tools.as_ref().map(|tools| ("expect.tools.threshold", tools.threshold));
                let efficiency =
                    case.expect.efficiency.map(|efficiency| ("expect.efficiency.threshold", efficiency.threshold));
                let functions = case.expect.functions.iter().map(|function| ("expect.functions", function.threshold));
                let recorded = case.expect.recorded_calls.as_ref();
                let recorded = recorded.map(|recorded| ("expect.recorded-calls.threshold", recorded.threshold));
                let mut thresholds = tools.into_iter().chain(efficiency).chain(functions).chain(recorded);
                let wrong = thresholds.find(|(_, threshold)| !is_share(*threshold));
                if let Some((field, _)) = wrong {
                    return found(field, SHARE_RULE);
                }
                let is_empty = case.expect.tools.as_ref().is_some_and(|tools| tools.calls.is_empty());
                if is_empty { found("expect.tools.calls", "it is empty") } else { None }
            })
    }
}

const ID_RULE: &str = "not an id: letters, digits, `.`, `_` and `-`, at most 64, not starting with a dot";
const AMOUNT_RULE: &str = "not an amount of at least 0";
const SHARE_RULE: &str = "not a number from 0 to 1";
const PATH_RULE: &str = "not a relative path inside the workspace";

fn is_amount(amount: f64) -> bool {
    amount.is_finite() && amount >= 0.0
}

fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

/// Adds the defaults of a set to a case. The case's settings come first.
fn merge(case: &mut Map<String, Value>, defaults: &Map<String, Value>) {
    // A model or prompts of the case replace the set's, however many they are.
    let alternatives = [["model", "models"], ["models", "model"], ["prompt", "prompts"], ["prompts", "prompt"]];
    for (name, value) in defaults {
        if alternatives.iter().any(|[one, other]| name == one && case.contains_key(*other)) {
            continue;
        }
        match (case.get_mut(name), value) {
            (None, value) => drop(case.insert(name.clone(), value.clone())),
            (Some(Value::Object(own)), Value::Object(defaults)) if MERGED.contains(&name.as_str()) => {
                for (name, value) in defaults {
                    own.entry(name).or_insert_with(|| value.clone());
                }
            }
            _ => {}
        }
    }
}

/// Beginnings of variables that could change the program outside its sandbox: variables of Pinion, of the loader of
/// programs, of git, shells, config directories, certificates and SSH.
const PROGRAM_VARIABLES: [&str; 9] = ["PINION", "LD_", "DYLD_", "GLIBC_", "GIT_", "BASH_", "XDG_", "SSL_", "SSH_"];
/// Ends of variables that lead to other programs, directories and servers.
const PLACE_VARIABLES: [&str; 10] =
    ["PATH", "HOME", "SHELL", "TMPDIR", "EDITOR", "_PROXY", "_URL", "_HOST", "_ENDPOINT", "_FILE"];

/// The file of cases may be a stranger's: its variables must not reach beyond the confinement that a case relies on.
fn environment_problem(case: &EvaluationCase) -> Option<(String, String)> {
    let is_plain = |name: &str| {
        let mut characters = name.chars();
        characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_allowed = |name: &str| {
        let upper = name.to_ascii_uppercase();
        is_plain(name)
            && !PROGRAM_VARIABLES.iter().any(|start| upper.starts_with(*start))
            && !PLACE_VARIABLES.iter().any(|end| upper.ends_with(*end))
    };
    let (name, _) = case.environment.iter().find(|(name, value)| !is_allowed(name) || value.contains('\0'))?;
    Some((format!("environment.{name}"), "not a variable that a case can set".to_owned()))
}

fn workspace_problem(case: &EvaluationCase) -> Option<(String, String)> {
    let workspace = &case.workspace;
    if workspace.directory.is_some() && workspace.git.is_some() {
        return Some(("workspace".to_owned(), "a workspace has one of `directory` and `git`".to_owned()));
    }
    if workspace.git.as_ref().is_some_and(|git| git.reference.is_empty() || git.reference.starts_with('-')) {
        return Some(("workspace.git.reference".to_owned(), "not a branch, tag or commit".to_owned()));
    }
    let outside = workspace.files.keys().chain(workspace.outside.keys()).find(|path| !is_inside(path));
    if let Some(path) = outside {
        return Some((format!("workspace.files.{path}"), PATH_RULE.to_owned()));
    }
    if case.execute.as_deref().is_some_and(|path| !is_inside(path)) {
        return Some(("execute".to_owned(), PATH_RULE.to_owned()));
    }
    let expect = &case.expect;
    if expect.recorded_calls.is_some() && case.session.is_none() {
        return Some(("expect.recorded-calls".to_owned(), "only a case of a session has recorded calls".to_owned()));
    }
    let needs_files = expect.files.is_some() || !expect.commands.is_empty() || !expect.functions.is_empty();
    let problem = "a case of a session has no workspace, so it can expect neither files nor commands nor functions";
    (case.session.is_some() && needs_files).then(|| ("session".to_owned(), problem.to_owned()))
}

fn file_problem(case: &EvaluationCase) -> Option<(String, String)> {
    let files = case.expect.files.as_ref()?;
    if let Some(path) = files.paths().find(|path| !is_inside(path)) {
        return Some((format!("expect.files.{path}"), PATH_RULE.to_owned()));
    }
    let mut wrong = files.may_change.iter().filter_map(|pattern| Glob::new(pattern).err());
    wrong.next().map(|error| ("expect.files.may-change".to_owned(), error.to_string()))
}

fn answer_problem(case: &EvaluationCase) -> Option<(String, String)> {
    let answer = case.expect.answer.as_ref()?;
    for (number, pattern) in answer.matches.iter().enumerate() {
        if let Err(error) = Regex::new(pattern) {
            return Some((format!("expect.answer.matches[{number}]"), error.to_string()));
        }
    }
    let schema = answer.schema.as_ref()?;
    let error = jsonschema::validator_for(schema).err()?;
    Some(("expect.answer.schema".to_owned(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EvaluationSet, String> {
        parse_set(text, Path::new("dir/set.yaml"), &EvaluatorRegistry::default()).map_err(|error| error.to_string())
    }

    fn problem(case: &str) -> String {
        parse(&format!("id: s\ncases:\n  - id: a\n    prompt: p\n{case}")).unwrap_err()
    }

    #[test]
    fn set_of_yaml_and_of_toml_are_equal() {
        let yaml = "id: s\nname: Smoke\ndefaults:\n  trials: 3\n  limits: {turns: 9, seconds: 60}\ngate: {pass-rate: 0.9}\n\
                    cases:\n  - id: a\n    prompt: go\n    limits: {turns: 2}\n    replay: a.jsonl\n    expect:\n      tools:\n        \
                    mode: in-order\n        calls: [{name: read, arguments: {path: x}}]\n";
        let toml = "id = 's'\nname = 'Smoke'\ngate.pass-rate = 0.9\n[defaults]\ntrials = 3\nlimits = { turns = 9, seconds = 60 }\n\
                    [[cases]]\nid = 'a'\nprompt = 'go'\nreplay = ['a.jsonl']\nlimits.turns = 2\n[cases.expect.tools]\nmode = \
                    'in-order'\ncalls = [{ name = 'read', arguments = { path = 'x' } }]\n";
        let set = parse(yaml).unwrap();
        let registry = EvaluatorRegistry::default();
        assert_eq!(set, parse_set(toml, Path::new("dir/set.toml"), &registry).unwrap());
        let case = &set.cases[0];
        assert_eq!((case.trials, case.limits.turns, case.limits.seconds), (3, Some(2), Some(60)));
        assert_eq!(set.directory, Path::new("dir"));
    }

    #[test]
    fn json_is_read_as_yaml() {
        let case = json!({ "id": "a", "prompt": "go\n\u{e9} \"x\"", "trials": 2 });
        let set = json!({ "id": "s", "gate": { "calls": 3 }, "cases": [case] });
        let read = parse(&set.to_string()).unwrap();
        assert_eq!((read.gate.calls, read.cases[0].trials), (Some(3), 2));
        assert_eq!(read.cases[0].prompt.as_deref(), Some("go\n\u{e9} \"x\""));
        assert_eq!(parse(&serde_json::to_string_pretty(&set).unwrap()).unwrap(), read);
    }

    #[test]
    fn single_case_is_a_set() {
        let set = parse("id: one\nprompt: go\n").unwrap();
        assert_eq!((set.id.as_str(), set.cases.len(), set.cases[0].id.as_str()), ("one", 1, "one"));
    }

    #[test]
    fn errors_name_file_case_and_field() {
        let of_a = |field: &str| format!("`dir/set.yaml`: case `a`: `{field}`");
        for (case, field, part) in [
            ("    promt: x\n", "promt", "unknown field `promt`"),
            ("    trials: many\n", "trials", "invalid type"),
            ("    trials: 0\n", "trials", "1 to 10000"),
            ("    prompts: [b]\n", "prompt", "one of `prompt`, `prompts`, `execute` and `session`"),
            ("    environment: {PINION_HOME: x}\n", "environment.PINION_HOME", "not a variable"),
            ("    environment: {LD_PRELOAD: ./x.so}\n", "environment.LD_PRELOAD", "not a variable"),
            ("    environment: {XDG_CONFIG_HOME: .}\n", "environment.XDG_CONFIG_HOME", "not a variable"),
            ("    environment: {https_proxy: x}\n", "environment.https_proxy", "not a variable"),
            ("    environment: {A=B: x}\n", "environment.A=B", "not a variable"),
            ("    workspace: {outside: {../x: a}}\n", "workspace.files.../x", "inside the workspace"),
            ("    execute: plan.md\n", "prompt", "one of"),
            ("    expect: {recorded-calls: {}}\n", "expect.recorded-calls", "only a case of a session"),
            ("    expect: {functions: [{plugin: p, tool: t, threshold: 2}]}\n", "expect.functions", "0 to 1"),
            ("    evaluators: [files, taste]\n", "evaluators", "no evaluator `taste`"),
            (
                "    expect: {tools: {mode: sorted, calls: [{name: a}]}}\n",
                "expect.tools.mode",
                "unknown variant `sorted`",
            ),
            (
                "    expect: {tools: {calls: [{name: a}, {nam: b}]}}\n",
                "expect.tools.calls[1].nam",
                "unknown field `nam`",
            ),
            ("    expect: {tools: {calls: [{name: a}], threshold: 2}}\n", "expect.tools.threshold", "0 to 1"),
            ("    expect: {answer: {matches: ['a', '(']}}\n", "expect.answer.matches[1]", "unclosed group"),
            ("    expect: {answer: {schema: {type: 7}}}\n", "expect.answer.schema", ""),
            ("    expect: {files: {may-change: ['[']}}\n", "expect.files.may-change", "unclosed"),
            ("    expect: {files: {absent: [../x]}}\n", "expect.files.../x", "inside the workspace"),
            ("    workspace: {files: {/etc/x: a}}\n", "workspace.files./etc/x", "inside the workspace"),
            ("    workspace: {directory: a, git: {repository: b}}\n", "workspace", "one of"),
            ("    approve: some\n", "approve", "ask, confirm, smart"),
            ("    replay: [a, b]\n", "replay", "each prompt"),
            ("    limits: {input-tokens: -1}\n", "limits.input-tokens", "invalid value: integer `-1`"),
            ("    limits: {output-tokens: many}\n", "limits.output-tokens", "invalid type"),
            ("    limits: {output_tokens: 1}\n", "limits.output_tokens", "unknown field `output_tokens`"),
            ("    expect: {budget: {tokens: 1.5}}\n", "expect.budget.tokens", "invalid type"),
            ("    expect: {budget: {cost: -1}}\n", "expect.budget.cost", "not an amount"),
            ("    expect: {authority: [flies]}\n", "expect.authority[0]", "unknown variant `flies`"),
        ] {
            let error = problem(case);
            assert!(error.starts_with(&of_a(field)) && error.contains(part), "{case}{error}");
        }
        assert!(problem("  - id: a\n    prompt: q\n").starts_with(&format!("{}: an earlier", of_a("id"))));
        assert!(problem("  - id: ../b\n    prompt: q\n").starts_with("`dir/set.yaml`: case `../b`: `id`: not an id"));
        assert!(problem("  - prompt: q\n").starts_with("`dir/set.yaml`: case `number 2`"));
        assert!(parse("id: s\ncases: []\n").unwrap_err().contains("`cases`: a set needs at least one case"));
        assert!(parse("id: s\nother: 1\ncases: [{id: a, prompt: b}]\n").unwrap_err().contains("unknown field `other`"));
        assert!(
            parse("id: s\ngate: {pass-rate: 7}\ncases: [{id: a, prompt: b}]\n").unwrap_err().contains("gate.pass-rate")
        );
        for field in
            ["gate.input-tokens", "gate.output-tokens", "gate.calls", "budget.input-tokens", "budget.output-tokens"]
        {
            let (table, key) = field.split_once('.').unwrap();
            let error = parse(&format!("id: s\n{table}: {{{key}: x}}\ncases: [{{id: a, prompt: b}}]\n")).unwrap_err();
            assert!(error.starts_with(&format!("`dir/set.yaml`: `{field}`")), "{error}");
        }
        assert!(parse("a: [").unwrap_err().starts_with("`dir/set.yaml` is not YAML"));
        assert!(parse("id: s\ndefaults: {id: x}\ncases: [{id: a, prompt: b}]\n").unwrap_err().contains("defaults.id"));
    }
}
