//! Definitions and results in the form of the protocol.

use super::{OfferedPrompt, PromptPart};
use pinion_protocol::{Authority, Content, LogLevel, ToolDefinition, ToolReply};
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, MetaObject, Prompt, PromptArgument, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

/// Member of `_meta` with the resources that a call used.
const LEDGER: &str = "dev.pinion/ledger";
/// Member of a result's details with content in the form of the protocol, for kinds that the contract with plugins does not
/// have: `{"content": [...]}`. It follows the result's own content. An action of a slash command with this name has the same.
pub const OWN_CONTENT: &str = "mcp";
/// Parts of such content.
const MAX_OWN: usize = 100;
/// Name of the argument of prompts.
const ARGUMENTS: &str = "arguments";

/// Converts a definition. The annotations follow from the effects that the host enforces.
pub(super) fn tool(definition: &ToolDefinition) -> Tool {
    let schema = match &definition.input_schema {
        Value::Object(schema) => schema.clone(),
        _ => JsonObject::from_iter([("type".to_owned(), json!("object"))]),
    };
    let Authority { writes, executes, network, destructive, delegates, .. } = definition.authority;
    let changes = writes || executes || destructive || delegates;
    let annotations = ToolAnnotations::from_raw(
        None,
        Some(!changes),
        changes.then_some(destructive || executes),
        None,
        Some(network || executes),
    );
    let tool = Tool::new(definition.name.clone(), definition.description.clone(), schema).with_annotations(annotations);
    match definition.label.is_empty() {
        true => tool,
        false => tool.with_title(definition.label.clone()),
    }
}

pub(super) fn prompt(offered: &OfferedPrompt) -> Prompt {
    let argument = offered.argument_hint.as_ref().map(|hint| {
        let argument = PromptArgument::new(ARGUMENTS);
        vec![argument.with_description(hint.clone()).with_required(false)]
    });
    Prompt::new(offered.name.clone(), Some(offered.description.clone()), argument)
}

/// Returns the line of arguments of a prompt: the values of all arguments, in the order of the request.
pub(super) fn arguments(arguments: JsonObject) -> String {
    let texts = arguments.into_iter().map(|(_, value)| match value {
        Value::String(text) => text,
        other => other.to_string(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Converts the result of a call. The client's model reads errors, so that they are results.
pub(super) fn result(reply: ToolReply) -> CallToolResult {
    let ledger = reply.ledger.and_then(|ledger| serde_json::to_value(ledger).ok());
    let mut result = match reply.result {
        Ok(output) => {
            let own =
                output.details.as_ref().and_then(|details| details.get(OWN_CONTENT)).map(blocks).unwrap_or_default();
            let content = output.content.iter().filter_map(block).chain(own).collect();
            let mut result =
                if output.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
            result.structured_content =
                output.details.filter(|details| details.is_object() && details.get(OWN_CONTENT).is_none());
            result
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.for_model())]),
    };
    if let Some(ledger) = ledger {
        let mut meta = MetaObject::default();
        meta.0.insert(LEDGER.to_owned(), ledger);
        result.meta = Some(meta);
    }
    result
}

/// Reads content that a plugin made for MCP clients. Parts of an unknown form are left out.
fn blocks(own: &Value) -> Vec<ContentBlock> {
    let parts = own.get("content").and_then(Value::as_array).into_iter().flatten().take(MAX_OWN);
    parts.filter_map(|part| serde_json::from_value(part.clone()).ok()).collect()
}

/// Reads the content that a plugin made for MCP clients as a part of a prompt, `{"content": [...]}`: the argument of an
/// action named `mcp`.
pub fn own_content(name: &str, argument: &str) -> Vec<PromptPart> {
    let own: Value = Some(argument)
        .filter(|_| name == OWN_CONTENT)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let parts = own.get("content").and_then(Value::as_array).into_iter().flatten().take(MAX_OWN);
    parts.cloned().map(PromptPart::Own).collect()
}

pub(super) fn prompt_part(part: PromptPart) -> Option<ContentBlock> {
    match part {
        PromptPart::Text(text) => Some(ContentBlock::text(text)),
        PromptPart::Own(own) => serde_json::from_value(own).ok(),
    }
}

/// Returns the lowest severity of lines that a client of this level gets; none for those that no plugin logs.
#[expect(deprecated, reason = "clients still read logs")]
pub(super) fn severity(level: rmcp::model::LoggingLevel) -> Option<LogLevel> {
    use rmcp::model::LoggingLevel;
    match level {
        LoggingLevel::Debug => Some(LogLevel::Trace),
        LoggingLevel::Info => Some(LogLevel::Info),
        LoggingLevel::Notice | LoggingLevel::Warning => Some(LogLevel::Warn),
        LoggingLevel::Error => Some(LogLevel::Error),
        LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => None,
    }
}

fn block(content: &Content) -> Option<ContentBlock> {
    match content {
        Content::Text { text } => Some(ContentBlock::text(text.clone())),
        Content::Image(image) => Some(ContentBlock::image(image.base64(), image.media_type.clone())),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::{Ledger, ToolError, ToolOutput};

    #[test]
    fn annotations_follow_from_effects() {
        let annotated = |authority| {
            let definition = ToolDefinition {
                name: "t".to_owned(),
                label: "T".to_owned(),
                description: "d".to_owned(),
                input_schema: json!({ "type": "object" }),
                guidelines: Vec::new(),
                authority,
                execution: Default::default(),
                source: Default::default(),
            };
            let annotations = tool(&definition).annotations.unwrap();
            (annotations.read_only_hint, annotations.destructive_hint, annotations.open_world_hint)
        };
        let none = Authority::default();
        assert_eq!(annotated(Authority { reads: true, ..none }), (Some(true), None, Some(false)));
        assert_eq!(annotated(Authority { writes: true, ..none }), (Some(false), Some(false), Some(false)));
        assert_eq!(annotated(Authority { executes: true, ..none }), (Some(false), Some(true), Some(true)));
        assert_eq!(annotated(Authority { network: true, ..none }), (Some(true), None, Some(true)));
    }

    #[test]
    fn errors_are_results_and_details_are_structured() {
        let denied = ToolError::Denied { tool: "t".to_owned(), reason: "no".to_owned() };
        let reply = result(ToolReply { result: Err(denied), ledger: Some(Ledger::default()) });
        assert_eq!(reply.is_error, Some(true));
        assert!(reply.meta.unwrap().0.contains_key(LEDGER));
        let mut output = ToolOutput::text("x");
        output.details = Some(json!({ "a": 1 }));
        let reply = result(ToolReply { result: Ok(output), ledger: None });
        assert_eq!((reply.structured_content, reply.is_error), (Some(json!({ "a": 1 })), Some(false)));
    }

    #[test]
    fn content_of_the_protocol_follows_the_results_own() {
        let mut output = ToolOutput::text("x");
        let audio = json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" });
        output.details = Some(json!({ "mcp": { "content": [audio, { "type": "odd" }] } }));
        let reply = result(ToolReply { result: Ok(output), ledger: None });
        assert!(
            reply.content.len() == 2 && reply.content[1].as_audio().is_some() && reply.structured_content.is_none()
        );
    }

    #[test]
    fn arguments_of_prompts_become_one_line() {
        let object = json!({ "a": "x y", "b": 2 });
        assert_eq!(arguments(object.as_object().unwrap().clone()), "x y 2");
    }
}
