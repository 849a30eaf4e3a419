//! Definitions and results in the form of the protocol.

use super::offered::{OfferedPrompt, OfferedReply, PromptPart};
use pinion_protocol::{Authority, Content, LogLevel, ToolDefinition, ToolOutput};
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, MetaObject, Prompt, PromptArgument, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Member of `_meta` with the resources that a call used.
const LEDGER: &str = "dev.pinion/ledger";
/// Member of `_meta` with a result's details, which are for logs and UIs.
const DETAILS: &str = "dev.pinion/details";
/// Member of a result's details with content in the form of the protocol, for kinds that the contract with plugins does not
/// have: `{"content": [...]}`. It follows the result's own content. An action of a slash command with this name has the same.
pub const OWN_CONTENT: &str = "mcp";
/// Parts of such content.
pub(super) const MAX_OWN: usize = 100;
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
    let argument = |(name, is_required): (String, bool)| {
        let argument = PromptArgument::new(name).with_required(is_required);
        match &offered.argument_hint {
            Some(hint) => argument.with_description(hint.clone()),
            None => argument,
        }
    };
    let arguments: Vec<PromptArgument> = arguments_of(offered).into_iter().map(argument).collect();
    let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
    Prompt::new(offered.name.clone(), Some(offered.description.clone()), arguments)
}

/// Returns the names of a prompt's arguments, and whether they are required: the arguments in a hint such as `<file>
/// [line]`, or one for the whole line.
fn arguments_of(offered: &OfferedPrompt) -> Vec<(String, bool)> {
    let Some(hint) = &offered.argument_hint else { return Vec::new() };
    let named = |word: &str| {
        let required = word.strip_prefix('<').and_then(|word| word.strip_suffix('>')).map(|name| (name, true));
        let optional = || word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).map(|name| (name, false));
        let (name, is_required) = required.or_else(optional)?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        is_name.then(|| (name.to_owned(), is_required))
    };
    let names: Option<Vec<_>> = hint.split_whitespace().map(named).collect();
    let is_set = |names: &Vec<(String, bool)>| {
        let set: HashSet<&String> = names.iter().map(|(name, _)| name).collect();
        !names.is_empty() && set.len() == names.len()
    };
    names.filter(is_set).unwrap_or_else(|| vec![(ARGUMENTS.to_owned(), false)])
}

/// Returns the line of arguments of a prompt: their values, in the order of the hint.
///
/// # Errors
/// A name belongs to no argument, or an argument is missing before one that is given.
pub(super) fn line(offered: &OfferedPrompt, mut given: JsonObject) -> Result<String, String> {
    let mut values = Vec::new();
    let mut missing = None;
    for (name, _) in arguments_of(offered) {
        match (given.shift_remove(&name), &missing) {
            (None, _) => missing = missing.or(Some(name)),
            (Some(_), Some(missing)) => return Err(format!("the argument `{name}` needs `{missing}` before it")),
            (Some(Value::String(text)), None) => values.push(text),
            (Some(other), None) => values.push(other.to_string()),
        }
    }
    match given.keys().next() {
        Some(unknown) => Err(format!("the prompt `{}` has no argument `{unknown}`", offered.name)),
        None => Ok(values.join(" ")),
    }
}

/// Returns the text before an argument that is being typed, from the values of the arguments before it. `None` if the
/// prompt has no such argument, or one before it has no value.
pub(super) fn typed_before(
    offered: &OfferedPrompt,
    argument: &str,
    values: &HashMap<String, String>,
) -> Option<String> {
    let names = arguments_of(offered);
    let at = names.iter().position(|(name, _)| name == argument)?;
    let before = names[..at].iter().map(|(name, _)| Some(format!("{} ", values.get(name)?)));
    before.collect::<Option<String>>()
}

/// Converts the result of a call. The client's model reads errors, so that they are results.
///
/// Details never become structured content. No tool declares an output schema, and clients may give their model the structured
/// content in place of the text, which the details do not repeat.
pub(super) fn result(reply: OfferedReply) -> CallToolResult {
    let OfferedReply { output, ledger, .. } = reply;
    let own = output.details.as_ref().and_then(|details| details.get(OWN_CONTENT)).map(blocks).unwrap_or_default();
    let content = output.content.iter().filter_map(block).chain(own).collect();
    let mut result = if output.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    let is_own = |details: &Value| details.is_object() && details.get(OWN_CONTENT).is_none();
    let details = output.details.filter(is_own);
    let ledger = ledger.and_then(|ledger| serde_json::to_value(ledger).ok());
    let members = [(LEDGER, ledger), (DETAILS, details)];
    let meta: JsonObject = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// Returns the text of an output.
pub(super) fn text(output: &ToolOutput) -> String {
    output.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
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

/// Returns the lowest severity of lines that a client of this level gets; `None` for levels that no plugin logs.
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
    use pinion_protocol::Ledger;

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

    fn reply(output: ToolOutput) -> OfferedReply {
        OfferedReply { output, is_fault: false, ledger: None }
    }

    #[test]
    fn errors_are_results_and_details_are_metadata() {
        let denied = ToolOutput { is_error: true, ..ToolOutput::text("no") };
        let denied = result(OfferedReply { ledger: Some(Ledger::default()), ..reply(denied) });
        assert_eq!(denied.is_error, Some(true));
        assert!(denied.meta.unwrap().0.contains_key(LEDGER));
        let mut output = ToolOutput::text("x");
        output.details = Some(json!({ "a": 1 }));
        let done = result(reply(output));
        assert_eq!((done.structured_content, done.is_error), (None, Some(false)));
        assert_eq!(done.meta.unwrap().0[DETAILS], json!({ "a": 1 }));
    }

    #[test]
    fn content_of_the_protocol_follows_the_results_own() {
        let mut output = ToolOutput::text("x");
        let audio = json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" });
        output.details = Some(json!({ "mcp": { "content": [audio, { "type": "odd" }] } }));
        let done = result(reply(output));
        assert!(done.content.len() == 2 && done.content[1].as_audio().is_some() && done.structured_content.is_none());
    }

    fn offered(hint: Option<&str>) -> OfferedPrompt {
        let argument_hint = hint.map(str::to_owned);
        OfferedPrompt { name: "p".to_owned(), description: "d".to_owned(), argument_hint }
    }

    #[test]
    fn arguments_of_prompts_become_one_line_in_the_order_of_the_hint() {
        let line = |hint, given: Value| super::line(&offered(hint), given.as_object().unwrap().clone());
        assert_eq!(line(Some("<a> [b]"), json!({ "b": 2, "a": "x y" })).unwrap(), "x y 2");
        assert_eq!(line(Some("<a> [b]"), json!({ "a": "x" })).unwrap(), "x");
        assert_eq!(line(Some("<a> [b]"), json!({ "b": 2 })).unwrap_err(), "the argument `b` needs `a` before it");
        assert_eq!(line(Some("<a>"), json!({ "c": 2 })).unwrap_err(), "the prompt `p` has no argument `c`");
        // A hint of another form says nothing about single arguments.
        for hint in ["a file", "<a> <a>", "<a|b>", "[]", ""] {
            assert_eq!(line(Some(hint), json!({ "arguments": "x y" })).unwrap(), "x y", "{hint}");
        }
        assert!(line(None, json!({ "arguments": "x" })).is_err());
        let required: Vec<_> =
            prompt(&offered(Some("<a> [b]"))).arguments.unwrap().into_iter().map(|a| (a.name, a.required)).collect();
        assert_eq!(required, [("a".to_owned(), Some(true)), ("b".to_owned(), Some(false))]);
    }

    #[test]
    fn argument_is_completed_after_those_before_it() {
        let values = HashMap::from([("a".to_owned(), "x y".to_owned())]);
        let before = |hint, name, values| typed_before(&offered(Some(hint)), name, values);
        assert_eq!(before("<a> <b> <c>", "a", &values), Some(String::new()));
        assert_eq!(before("<a> <b> <c>", "b", &values), Some("x y ".to_owned()));
        assert_eq!(before("<a> <b> <c>", "c", &values), None);
        assert_eq!(before("<a> <b> <c>", "d", &values), None);
        assert_eq!(before("something", "arguments", &values), Some(String::new()));
    }
}
