//! Other tools, models, sub-agents and the conversation.

use crate::Nothing;
use pinion_plugin_sdk::agents::{self, Assignment};
use pinion_plugin_sdk::hooks::Content;
use pinion_plugin_sdk::invoke;
use pinion_plugin_sdk::model::{self, CompletionRequest, Message, Role};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::session;

pub(crate) fn count_todos(_input: Nothing, _call: &Call) -> Result<String> {
    let found = invoke::call_tool("search", &json!({ "pattern": "TODO" }).to_string())?;
    let texts = found.content.iter().filter_map(|part| if let Content::Text(text) = part { Some(text) } else { None });
    Ok(format!("{} lines", texts.flat_map(|text| text.lines()).filter(|line| line.contains("TODO")).count()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    text: String,
}

pub(crate) fn classify(input: Text, _call: &Call) -> Result<String> {
    let schema = json!({
        "type": "object",
        "properties": { "kind": { "enum": ["bug", "usage", "environment"] } },
        "required": ["kind"],
    });
    let answer = model::complete(&CompletionRequest {
        system: Some("Classify the error message.".to_owned()),
        messages: vec![Message { role: Role::User, content: vec![Content::Text(input.text)] }],
        model: None, // That of the conversation.
        max_tokens: 200,
        schema: Some(schema.to_string()),
        extra: None,
    })?;
    Ok(answer.text)
}

pub(crate) fn review(input: Text, call: &Call) -> Result<String> {
    let report = agents::run(&Assignment {
        prompt: format!("Review `{}` for errors. List each with its line.", input.text),
        kind: None,
        tools: Some(vec!["read".to_owned(), "search".to_owned()]),
        max_turns: Some(8),
        timeout_ms: Some(60_000),
        attempts: None,
        extra: None,
    })?;
    call.progress(&format!("{} turns", report.turns));
    Ok(report.text)
}

pub(crate) fn milestone(input: Text, _call: &Call) -> Result<String> {
    let (mut prompts, mut after) = (0, None);
    loop {
        let entries = session::entries(after.as_deref(), 1_000)?;
        let Some(last) = entries.last() else { break };
        prompts += entries.iter().filter(|entry| entry.data.contains(r#""role":"user""#)).count();
        after = Some(last.id.clone());
    }
    session::append(&json!({ "milestone": input.text, "prompts": prompts }).to_string())?;
    session::set_title(&input.text)?;
    Ok(format!("after {prompts} prompts"))
}
