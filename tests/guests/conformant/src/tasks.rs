//! Calls that take long. Each becomes a task with its first report of progress.

use crate::{Nothing, asked, field, text_form};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::questions::{Answer, Form, Question};
use pinion_plugin_sdk::{TaskSupport, serde_json};
use std::time::{Duration, Instant};

#[derive(Deserialize, JsonSchema)]
struct Greeted {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Work {
    seconds: f64,
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct File {
    filename: String,
}

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("greet", "Greets.", |Greeted { name }: Greeted, _| Ok(format!("Hello, {name}!"))),
        Tool::new("slow_compute", "Computes for some seconds.", slow_compute).task(TaskSupport::Optional),
        Tool::new("failing_job", "Fails.", |_: Nothing, call| {
            call.progress("working");
            Err::<Output, _>(Error::failed("the job failed"))
        })
        .task(TaskSupport::Required),
        Tool::new("protocol_error_job", "Breaks down.", protocol_error_job).task(TaskSupport::Optional),
        Tool::new("confirm_delete", "Asks before it deletes.", confirm_delete).task(TaskSupport::Optional),
        Tool::new("multi_input", "Asks two questions at once.", multi_input).task(TaskSupport::Optional),
        Tool::new("test_tool_with_task", "Asks first and works then.", |_: Nothing, call| {
            let name = field("Who are you?", "user_name")?;
            call.progress("working");
            Ok(format!("Done for {name}."))
        })
        .task(TaskSupport::Required),
    ]
}

fn slow_compute(Work { seconds, label }: Work, call: &Call) -> Result<String> {
    let end = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 100.0));
    call.progress("computing");
    while Instant::now() < end {
        call.check()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(format!("{label}: computed for {seconds} s"))
}

#[allow(clippy::panic, reason = "a fault of a plugin is what the tool is for")]
fn protocol_error_job(_: Nothing, call: &Call) -> Result<String> {
    call.progress("working");
    panic!("the job broke down")
}

fn confirm_delete(File { filename }: File, call: &Call) -> Result<String> {
    call.progress("looking at the file");
    let schema =
        json!({ "type": "object", "properties": { "confirm": { "type": "boolean" } }, "required": ["confirm"] });
    let form = Form { question: format!("Delete {filename}?"), schema: schema.to_string() };
    match &asked(vec![("confirm", Question::Form(form))])?[..] {
        [Answer::Form(answer)] if answer.contains("true") => Ok(format!("deleted {filename}")),
        _ => Ok(format!("kept {filename}")),
    }
}

fn multi_input(_: Nothing, call: &Call) -> Result<String> {
    call.progress("asking");
    let form = |question| Question::Form(text_form(question, "name"));
    let answers = asked(vec![("first", form("Who is first?")), ("second", form("Who is second?"))])?;
    let name = |answer: &Answer| match answer {
        Answer::Form(answer) => serde_json::from_str::<Value>(answer).ok()?["name"].as_str().map(str::to_owned),
        _ => None,
    };
    Ok(answers.iter().filter_map(name).collect::<Vec<_>>().join(" and "))
}
