//! Calls that take long, as tasks.

use super::{Client, conformant, meta, text, with};
use pinion_tests::{Pinion, wait_until};
use serde_json::{Value, json};

fn capabilities(more: Value) -> Value {
    with(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }), more)
}

/// A client that supports tasks.
struct Tasks {
    client: Client,
    base: Value,
}

impl Tasks {
    fn start(pinion: &Pinion, more: Value) -> Self {
        let arguments = conformant(pinion);
        let client = Client::start(pinion, &arguments.each_ref().map(String::as_str));
        Self { client, base: json!({ "_meta": meta(capabilities(more)) }) }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.client.request(method, with(self.base.clone(), params))
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    fn get(&mut self, task: &Value) -> Value {
        self.request("tasks/get", json!({ "taskId": task }))["result"].clone()
    }

    /// Waits until a task has another status, and returns it.
    fn until(&mut self, task: &Value, status: &str) -> Value {
        let mut found = Value::Null;
        wait_until("the task has the status", || {
            found = self.get(task);
            found["status"] == status
        });
        found
    }
}

#[test]
fn call_that_reports_progress_becomes_a_task_with_its_result() {
    let pinion = Pinion::default();
    let mut tasks = Tasks::start(&pinion, json!({}));
    let created = tasks.call("slow_compute", json!({ "seconds": 0.3, "label": "x" }));
    let task = created["taskId"].clone();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    assert!(created["ttlMs"].as_u64() >= Some(600_000) && created["pollIntervalMs"].is_u64(), "{created}");
    assert_eq!(tasks.get(&task)["statusMessage"], "computing");
    let done = tasks.until(&task, "completed");
    assert_eq!(text(&done["result"]), "x: computed for 0.3 s", "{done}");
    assert_eq!(done["result"]["_meta"]["dev.pinion/ledger"]["plugin"], "conformant", "{done}");
    // A call that reports no progress and is quick needs no task.
    assert_eq!(text(&tasks.call("greet", json!({ "name": "Ada" }))), "Hello, Ada!");
    let unknown = tasks.request("tasks/get", json!({ "taskId": "none" }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn failure_of_a_tool_is_a_result_and_that_of_its_plugin_an_error() {
    let pinion = Pinion::default();
    let mut tasks = Tasks::start(&pinion, json!({}));
    let failing = tasks.call("failing_job", json!({}))["taskId"].clone();
    let failed = tasks.until(&failing, "completed");
    assert!(failed["result"]["isError"] == true && text(&failed["result"]).contains("the job failed"), "{failed}");
    let breaking = tasks.call("protocol_error_job", json!({}))["taskId"].clone();
    let broken = tasks.until(&breaking, "failed");
    assert!(broken["error"]["code"].is_i64() && broken.get("result").is_none(), "{broken}");
    // A client without the capability gets the result itself, or cannot call the tool.
    let arguments = conformant(&pinion);
    let mut plain = Client::start(&pinion, &arguments.each_ref().map(String::as_str));
    let base = json!({ "_meta": meta(json!({})), "arguments": {} });
    let refused = plain.request("tools/call", with(base.clone(), json!({ "name": "failing_job" })));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let direct = plain.request("tools/call", with(base, json!({ "name": "protocol_error_job" })));
    assert_eq!(direct["result"]["isError"], true, "{direct}");
}

#[test]
fn questions_of_a_task_are_answered_one_by_one() {
    let pinion = Pinion::default();
    let mut tasks = Tasks::start(&pinion, json!({ "elicitation": {} }));
    let task = tasks.call("multi_input", json!({}))["taskId"].clone();
    let asking = tasks.until(&task, "input_required");
    let open = |state: &Value| state["inputRequests"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(open(&asking), ["first", "second"], "{asking}");
    let named = |name: &str| json!({ "action": "accept", "content": { "name": name } });
    let update = |answers: Value| json!({ "taskId": task, "inputResponses": answers });
    let acknowledged = tasks.request("tasks/update", update(json!({ "first": named("Ada"), "other": 1 })));
    assert_eq!(acknowledged["result"], json!({ "resultType": "complete" }));
    assert_eq!(open(&tasks.get(&task)), ["second"]);
    tasks.request("tasks/update", update(json!({ "second": 5 })));
    assert_eq!(open(&tasks.get(&task)), ["second"], "an answer that does not fit is none");
    tasks.request("tasks/update", update(json!({ "second": named("Bob") })));
    assert_eq!(text(&tasks.until(&task, "completed")["result"]), "Ada and Bob");
}

#[test]
fn cancelled_task_ends_its_call() {
    let pinion = Pinion::default();
    let mut tasks = Tasks::start(&pinion, json!({}));
    let task = tasks.call("slow_compute", json!({ "seconds": 60, "label": "x" }))["taskId"].clone();
    for _ in 0..2 {
        let cancelled = tasks.request("tasks/cancel", json!({ "taskId": task }));
        assert_eq!(cancelled["result"], json!({ "resultType": "complete" }));
        assert_eq!(tasks.get(&task)["status"], "cancelled");
    }
    // Its place is free: the plugin answers.
    assert_eq!(text(&tasks.call("greet", json!({ "name": "Ada" }))), "Hello, Ada!");
}

#[test]
fn questions_before_the_first_progress_come_in_rounds() {
    let pinion = Pinion::default();
    let mut tasks = Tasks::start(&pinion, json!({ "elicitation": {} }));
    let first = tasks.call("test_tool_with_task", json!({}));
    assert!(first["resultType"] == "input_required" && first.get("taskId").is_none(), "{first}");
    let answer = json!({ "action": "accept", "content": { "value": "Ada" } });
    let more = json!({ "name": "test_tool_with_task", "arguments": {}, "requestState": first["requestState"],
                       "inputResponses": { "user_name": answer } });
    let second = tasks.request("tools/call", more)["result"].clone();
    assert!(second["resultType"] == "task" && second.get("requestState").is_none(), "{second}");
    let task = second["taskId"].clone();
    assert_eq!(text(&tasks.until(&task, "completed")["result"]), "Done for Ada.");
}
