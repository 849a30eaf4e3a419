//! Bounds on the texts of plugins: manifests and lists of tools and commands.
//!
//! These texts go into every request to a model and into questions that a person answers. A text that breaks a bound is
//! refused when the plugin is loaded, rather than cut, so that nothing depends on where it is shown.

use crate::offer::{Description, OfferedCommand, OfferedTool};
use pinion_protocol::text::{clip, find_unsafe};
use serde_json::Value;

/// Bytes of a version.
const MAX_VERSION: usize = 64;
/// Bytes of a plugin's or a command's description.
const MAX_ABOUT: usize = 2 * 1024;
/// Characters of a tool's label.
const MAX_LABEL: usize = 80;
/// Bytes of a tool's description.
const MAX_DESCRIPTION: usize = 8 * 1024;
/// Bytes of a tool's guidelines together.
const MAX_GUIDELINES: usize = 2 * 1024;
/// Guidelines of a tool.
const MAX_GUIDELINE_COUNT: usize = 16;
/// Bytes of a tool's schema.
const MAX_SCHEMA: usize = 64 * 1024;
/// Bytes of the text that approvals of a tool are bound to; the contract names it.
const MAX_BOUND_TO: usize = 64 * 1024;
/// Bytes of the value that a call of a tool gets back; the contract names it.
const MAX_ROUTE: usize = 4 * 1024;
/// Arguments of a tool that approvals depend on; the contract names it.
const MAX_APPROVED_BY: usize = 4;
/// Bytes of an argument hint.
const MAX_HINT: usize = 160;
/// Bytes of the sentences that a running plugin adds to the system prompt.
const MAX_INSTRUCTIONS: usize = 8 * 1024;

/// Bounds on a list of tools and commands.
#[derive(Debug, Clone, Copy)]
pub struct ListBounds {
    /// Tools, or commands.
    entries: usize,
    /// Bytes of all texts and schemas together.
    total: usize,
}

/// Bounds on the lists of a plugin that is loaded.
pub const LOADED: ListBounds = ListBounds { entries: 128, total: 128 * 1024 };
/// Bounds on the lists of a plugin that runs.
pub const RUNNING: ListBounds = ListBounds { entries: 1024, total: 1024 * 1024 };

/// Checks version and description of a manifest.
pub fn check_manifest(version: &str, description: &str) -> Result<(), String> {
    check_bytes("version", version, MAX_VERSION, LineCount::One)?;
    check_bytes("description", description, MAX_ABOUT, LineCount::Many)
}

/// Checks the total size of everything that a plugin offers, and its instructions.
pub fn check_lists(description: &Description, bounds: ListBounds) -> Result<(), String> {
    let Description { tools, commands, instructions, skipped: _, remarks: _ } = description;
    let ListBounds { entries, total: most } = bounds;
    if tools.len().max(commands.len()) > entries {
        return Err(format!("offers more than {entries} tools or commands"));
    }
    check_bytes(
        "text of instructions",
        instructions.as_deref().unwrap_or_default(),
        MAX_INSTRUCTIONS,
        LineCount::Many,
    )?;
    let of_tool = |tool: &OfferedTool| {
        let guidelines: usize = tool.guidelines.iter().map(String::len).sum();
        let extra = [&tool.bound_to, &tool.route, &tool.resource, &tool.task];
        let extra = extra.into_iter().flatten().map(String::len).sum::<usize>();
        tool.name.len() + tool.label.len() + tool.description.len() + tool.input_schema.len() + guidelines + extra
    };
    let of_command = |command: &OfferedCommand| {
        let options = [&command.argument_hint, &command.action, &command.bare_action];
        command.name.len() + command.description.len() + options.into_iter().flatten().map(String::len).sum::<usize>()
    };
    let total = tools.iter().map(of_tool).sum::<usize>() + commands.iter().map(of_command).sum::<usize>();
    match total <= most {
        true => Ok(()),
        false => Err(format!("describes its tools and commands in {total} bytes; the limit is {most}")),
    }
}

/// Checks the texts of a tool and the size of its schema. Its name is checked elsewhere.
pub fn check_tool(tool: &OfferedTool) -> Result<(), String> {
    check("label", &tool.label, LineCount::One)?;
    if tool.label.chars().count() > MAX_LABEL {
        return Err(format!("has a label of more than {MAX_LABEL} characters"));
    }
    check_bytes("description", &tool.description, MAX_DESCRIPTION, LineCount::Many)?;
    tool.guidelines.iter().try_for_each(|line| check("guideline", line, LineCount::Many))?;
    if tool.guidelines.len() > MAX_GUIDELINE_COUNT {
        return Err(format!("has more than {MAX_GUIDELINE_COUNT} guidelines"));
    }
    if tool.guidelines.iter().map(String::len).sum::<usize>() > MAX_GUIDELINES {
        return Err(format!("has guidelines of more than {MAX_GUIDELINES} bytes"));
    }
    for (what, text, max) in [("bound-to", &tool.bound_to, MAX_BOUND_TO), ("route", &tool.route, MAX_ROUTE)] {
        if text.as_ref().is_some_and(|text| text.len() > max) {
            return Err(format!("has a `{what}` of more than {max} bytes"));
        }
    }
    if tool.approved_by.len() > MAX_APPROVED_BY || tool.approved_by.iter().map(String::len).sum::<usize>() > MAX_HINT {
        return Err(format!("has more than {MAX_APPROVED_BY} names or {MAX_HINT} bytes in `approved-by`"));
    }
    match tool.input_schema.len() {
        0..=MAX_SCHEMA => Ok(()),
        _ => Err(format!("has an input schema of more than {MAX_SCHEMA} bytes")),
    }
}

/// Checks the texts of a command, but not its name.
pub fn check_command(command: &OfferedCommand) -> Result<(), String> {
    check_bytes("description", &command.description, MAX_ABOUT, LineCount::Many)?;
    for (what, text) in [
        ("argument hint", &command.argument_hint),
        ("`action`", &command.action),
        ("`bare-action`", &command.bare_action),
    ] {
        check_bytes(what, text.as_deref().unwrap_or_default(), MAX_HINT, LineCount::One)?;
    }
    Ok(())
}

/// Checks all names and texts in a schema. Values, such as the values of `enum`, may hold carriage returns.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            check("name in its input schema", name, LineCount::One)?;
            match name.as_str() {
                "enum" | "const" | "default" | "examples" => check_value(value),
                _ => check_schema(value),
            }
        }),
        Value::Array(items) => items.iter().try_for_each(check_schema),
        Value::String(text) => check("text in its input schema", text, LineCount::Many),
        _ => Ok(()),
    }
}

fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            check("name in its input schema", name, LineCount::One)?;
            check_value(value)
        }),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::String(text) => check("value in its input schema", &text.replace('\r', ""), LineCount::Many),
        _ => Ok(()),
    }
}

/// Checks a text of one line; the second argument names it in the problem.
pub fn check_line(what: &str, text: &str) -> Result<(), String> {
    check(what, text, LineCount::One)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineCount {
    One,
    Many,
}

fn check_bytes(what: &str, text: &str, max: usize, lines: LineCount) -> Result<(), String> {
    match text.len() > max {
        true => Err(format!("has a {what} of more than {max} bytes")),
        false => check(what, text, lines),
    }
}

fn check(what: &str, text: &str, lines: LineCount) -> Result<(), String> {
    match find_unsafe(text, lines == LineCount::Many) {
        None => Ok(()),
        Some((at, c)) => {
            let around: String = clip(&text[..at], 40).chars().flat_map(char::escape_debug).collect();
            Err(format!("has a {what} with the character U+{:04X} after `{around}`", u32::from(c)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn manifest_texts_are_bounded_and_visible() {
        check_manifest("1.0.0", "Reads files.\n\tAnd more.").unwrap();
        check_manifest("1.0.0", "Kann Umlaute: ä, 世界 👨‍👩‍👧").unwrap();
        for (version, description) in [
            ("1\x1b[2J", ""),
            ("1\n2", ""),
            ("1", "a\u{202e}b"),
            ("1", "a\u{200b}b"),
            ("1", "a\u{e0041}"),
            ("1", "a\rb"),
        ] {
            let problem = check_manifest(version, description).unwrap_err();
            assert!(problem.contains("U+") && find_unsafe(&problem, false).is_none(), "{problem:?}");
        }
        assert!(check_manifest(&"1".repeat(65), "").is_err() && check_manifest("1", &"x".repeat(2049)).is_err());
    }

    #[test]
    fn names_and_texts_in_schemas_are_checked() {
        check_schema(&json!({ "properties": { "end": { "enum": ["\r\n", "\n"] } } })).unwrap();
        for schema in [
            json!({ "properties": { "a\n? Continue": {} } }),
            json!({ "properties": { "a": { "description": "x\x1b]52;c;eA==\x07" } } }),
            json!({ "properties": { "a": { "enum": ["x\u{202e}"] } } }),
            json!({ "required": ["a\u{200b}"] }),
        ] {
            assert!(check_schema(&schema).is_err(), "{schema}");
        }
    }
}
