//! Requests in several phrasings, which should make a model call a tool.

use crate::case::{
    CaseExpectations, CaseLimits, EvaluationCase, EvaluationSet, ExpectedCall, GateBounds, ToolExpectations, ToolOrder,
    is_id, is_inside,
};
use crate::error::EvalError;
use crate::{files, yaml};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum bytes of a file.
const MAX_FILE: u64 = 1 << 20;
/// Turns of a model. A tool that it does not call by then was not found.
const TURNS: u32 = 4;

/// A file of requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RequestFile {
    /// Minimum share of phrasings that lead to the tool.
    #[serde(default)]
    pass_rate: Option<f64>,
    requests: Vec<ToolRequest>,
}

/// A request that a tool serves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ToolRequest {
    tool: String,
    phrasings: Vec<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Scripts that replace the model, one for each phrasing.
    #[serde(default)]
    replay: Vec<PathBuf>,
}

/// Loads the requests in a YAML file as a set: a case for each phrasing, which passes if the tool is called.
///
/// # Errors
/// The file cannot be read or has an invalid field.
pub fn load_phrasings(path: &Path) -> Result<EvaluationSet, EvalError> {
    let bytes = files::read(path, MAX_FILE).map_err(EvalError::read(path))?;
    let syntax = |problem: String| EvalError::Syntax { path: path.to_owned(), format: "YAML", problem };
    let text = String::from_utf8(bytes).map_err(|error| syntax(error.to_string()))?;
    let value = yaml::parse(&text).map_err(syntax)?;
    let invalid = |field: String, problem: String| EvalError::SetField { path: path.to_owned(), field, problem };
    let file: RequestFile = serde_path_to_error::deserialize(value)
        .map_err(|error| invalid(error.path().to_string(), error.inner().to_string()))?;
    if file.requests.is_empty() || file.pass_rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(invalid("requests".to_owned(), "needs a request, and `pass-rate` from 0 to 1".to_owned()));
    }
    let mut set = EvaluationSet {
        version: 1,
        id: "tool-use".to_owned(),
        name: Some("Use of the plugin's tools".to_owned()),
        description: None,
        budget: Default::default(),
        gate: GateBounds { pass_rate: Some(file.pass_rate.unwrap_or(1.0)), ..GateBounds::default() },
        cases: Vec::new(),
        directory: path.parent().unwrap_or(Path::new("")).to_owned(),
    };
    for (number, request) in file.requests.into_iter().enumerate() {
        if let Some(problem) = problem(&request) {
            return Err(invalid(format!("requests[{number}]"), problem.to_owned()));
        }
        set.cases.extend(cases(number + 1, &request).map_err(|error| invalid(format!("requests[{number}]"), error))?);
    }
    Ok(set)
}

fn problem(request: &ToolRequest) -> Option<&'static str> {
    if request.phrasings.is_empty() || request.phrasings.iter().any(|phrasing| phrasing.trim().is_empty()) {
        return Some("needs phrasings that are not empty");
    }
    if !request.replay.is_empty() && request.replay.len() != request.phrasings.len() {
        return Some("each phrasing needs a script");
    }
    request.files.keys().any(|path| !is_inside(path)).then_some("a file is not inside the workspace")
}

fn cases(number: usize, request: &ToolRequest) -> Result<Vec<EvaluationCase>, String> {
    let name = format!("{}-{number}", request.tool);
    let name = if is_id(&name) && name.len() < 56 { name } else { format!("tool-{number}") };
    let case = |(at, phrasing): (usize, &String)| {
        let base = json!({ "id": format!("{name}-{}", at + 1), "prompt": phrasing, "evaluators": ["tools"] });
        let mut case: EvaluationCase = serde_json::from_value(base).map_err(|error| error.to_string())?;
        case.workspace.files.clone_from(&request.files);
        case.replay = request.replay.get(at).cloned().into_iter().collect();
        case.limits = CaseLimits { turns: Some(TURNS), ..CaseLimits::default() };
        let calls = vec![ExpectedCall { name: request.tool.clone(), arguments: request.arguments.clone() }];
        let tools = ToolExpectations { mode: ToolOrder::AnyOrder, calls, sub_agents: false, threshold: 1.0 };
        case.expect = CaseExpectations { tools: Some(tools), ..CaseExpectations::default() };
        Ok(case)
    };
    request.phrasings.iter().enumerate().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<EvaluationSet, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prompts.yaml");
        std::fs::write(&path, text).unwrap();
        load_phrasings(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn each_phrasing_is_a_case_that_expects_the_tool() {
        let text = "pass-rate: 0.5\nrequests:\n  - tool: sum\n    phrasings: [add it, 'what is 1 + 1?']\n    arguments: {a: 1}\n    files: {x: y}\n    \
                    replay: [1.jsonl, 2.jsonl]\n  - {tool: 'a b', phrasings: [go]}\n";
        let set = load(text).unwrap();
        let ids: Vec<&str> = set.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!((ids, set.gate.pass_rate), (vec!["sum-1-1", "sum-1-2", "tool-2-1"], Some(0.5)));
        let case = &set.cases[1];
        assert_eq!((case.prompt.as_deref(), case.limits.turns), (Some("what is 1 + 1?"), Some(4)));
        assert_eq!((case.workspace.files["x"].as_str(), &case.replay), ("y", &vec![PathBuf::from("2.jsonl")]));
        let calls = &case.expect.tools.as_ref().unwrap().calls;
        assert_eq!(calls, &[ExpectedCall { name: "sum".to_owned(), arguments: Some(json!({ "a": 1 })) }]);
        assert!(case.uses("tools") && !case.uses("completed"));
    }

    #[test]
    fn wrong_request_is_named() {
        for (text, part) in [
            ("requests: []\n", "`requests`: needs a request"),
            ("requests: [{tool: a, phrasings: []}]\n", "`requests[0]`: needs phrasings"),
            ("requests: [{tool: a, phrasing: [x]}]\n", "unknown field `phrasing`"),
            ("requests: [{tool: a, phrasings: [x, y], replay: [z]}]\n", "each phrasing needs a script"),
            ("requests: [{tool: a, phrasings: [x], files: {../y: z}}]\n", "not inside the workspace"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
