//! Structured answers.

use crate::structured::WithAnswer;
use crate::testing::{Act, Setup, calls, letters, says};
use crate::*;
use serde_json::json;
use std::sync::Arc;

fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "sum": { "type": "integer" } },
        "required": ["sum"],
        "additionalProperties": false,
    })
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Sum {
    sum: i64,
}

#[tokio::test]
async fn answer_matches_its_schema_after_fixes_and_reminders() {
    let replies = vec![
        calls(&[("look", json!({}))]),
        says("It is five."),
        calls(&[(ANSWER_TOOL, json!({ "sum": "five" }))]),
        calls(&[(ANSWER_TOOL, json!({ "sum": 5 }))]),
        says("never"),
    ];
    let harness = Setup::new(replies).tool("look", Act::Answer("2 and 3")).build();
    let answer: StructuredAnswer<Sum> =
        answer_as(&harness.agent, vec![Message::user("add")], schema(), 2).await.unwrap();
    assert_eq!(answer.value, Sum { sum: 5 });
    assert_eq!(harness.requests(), 4);
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!(requests[0].tool_choice, ToolChoice::Auto);
    assert_eq!(requests[3].tool_choice, ToolChoice::Tool(ANSWER_TOOL.into()));
    assert!(letters(requests[3].messages.last().unwrap()).starts_with("failed call-0: Invalid arguments"));
}

#[test]
fn denied_calls_are_named_once_each() {
    let denied = |tool: &str| DeniedCall { tool: tool.to_owned(), reason: "no".to_owned(), is_unanswered: false };
    let calls = ["bash", "write", "bash"].map(denied).into();
    let error = AnswerError::Denied { calls, report: "done".to_owned() };
    assert_eq!(error.to_string(), "calls were denied: `bash`, `write`");
}

#[test]
fn tool_that_takes_the_name_of_the_answer_during_a_run_is_not_offered() {
    let tool = FunctionTool::new(ANSWER_TOOL, "", json!({}), |_: Sum| async { Ok::<_, String>("mine") });
    let definitions = WithAnswer::new(Arc::new(FunctionTools::new([tool])), schema()).definitions();
    let descriptions: Vec<&str> = definitions.iter().map(|tool| tool.description.as_str()).collect();
    assert_eq!(descriptions, ["Submits the final answer. Call it once, when the work is done."]);
}

#[tokio::test]
async fn model_that_never_answers_is_an_error() {
    let harness = Setup::new(vec![says("no"), says("no"), says("no")]).build();
    let answer = answer(&harness.agent, vec![Message::user("add")], schema(), 2).await;
    assert!(matches!(answer, Err(AnswerError::NoAnswer { attempts: 3, last_error: None, .. })), "{answer:?}");
    assert_eq!(harness.prompt("go on").await.text(), "nothing left to say", "the agent is as it was");
    assert_eq!(harness.model.requests.lock().unwrap().last().unwrap().tools.len(), 0);
}

#[tokio::test]
async fn invalid_answers_are_bounded_and_the_last_problem_is_reported() {
    let invalid = |n: u32| calls(&[(ANSWER_TOOL, json!({ "sum": format!("wrong {n}") }))]);
    let replies = vec![invalid(1), says("It is five."), invalid(2), invalid(3), says("never")];
    let harness = Setup::new(replies).build();
    let failed = answer(&harness.agent, vec![Message::user("add")], schema(), 2).await.unwrap_err();
    let AnswerError::NoAnswer { attempts: 3, last_error: Some(problem), .. } = &failed else { panic!("{failed:?}") };
    assert!(problem.contains("wrong 2") && failed.to_string().ends_with(problem), "{failed}");
    assert_eq!(harness.requests(), 3);
}

#[test]
fn answer_can_block_its_thread() {
    let ask = || {
        let harness = Setup::new(vec![says("It is five."), calls(&[(ANSWER_TOOL, json!({ "sum": 5 }))])]).build();
        answer_blocking(&harness.agent, vec![Message::user("add")], schema(), 1)
    };
    assert_eq!(ask().unwrap().value, json!({ "sum": 5 }));
    let in_runtime = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { ask() });
    assert!(matches!(in_runtime, Err(AnswerError::Agent(AgentError::InRuntime))), "{in_runtime:?}");
}
