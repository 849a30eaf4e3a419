//! Replaces e-mail addresses and phone numbers in replies of the model and in results of tools.

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::pinion::hooks::after_reply;
use exports::pinion::plugin::after_tool_call;
use pinion::hooks::types::HookContext;
use pinion::plugin::types::{CallContext, Content, ToolCall, ToolError, ToolOutput};

struct Plug;

impl after_reply::Guest for Plug {
    fn revise(_: HookContext, texts: Vec<String>) -> Option<Vec<String>> {
        let redacted: Vec<String> = texts.iter().map(|text| redacted(text)).collect();
        (redacted != texts).then_some(redacted)
    }
}

impl after_tool_call::Guest for Plug {
    fn revise(
        _: CallContext,
        _: ToolCall,
        mut outcome: Result<ToolOutput, ToolError>,
    ) -> Option<Result<ToolOutput, ToolError>> {
        let (content, details, message) = match &mut outcome {
            Ok(output) => (&mut output.content, &mut output.details, None),
            Err(error) => (&mut error.content, &mut error.details, Some(&mut error.message)),
        };
        let texts =
            content.iter_mut().filter_map(|part| if let Content::Text(text) = part { Some(text) } else { None });
        let mut is_changed = false;
        for text in texts.chain(message) {
            let clean = redacted(text);
            is_changed |= clean != *text;
            *text = clean;
        }
        // Details repeat parts of the text in a form of their tool.
        if details.as_ref().is_some_and(|details| redacted(details) != *details) {
            (*details, is_changed) = (None, true);
        }
        is_changed.then_some(outcome)
    }
}

fn redacted(text: &str) -> String {
    let text = map_runs(text, is_part_of_address, |run| is_address(run).then_some("[e-mail address]"));
    map_runs(&text, is_part_of_number, |run| is_number(run).then_some("[phone number]"))
}

/// Replaces runs of characters, without punctuation at their ends.
fn map_runs(text: &str, is_part: fn(char) -> bool, replace: fn(&str) -> Option<&'static str>) -> String {
    let (mut mapped, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_part) {
        let run = &rest[start..];
        let run = &run[..run.find(|c| !is_part(c)).unwrap_or(run.len())];
        let core = run.trim_matches([' ', '.', '-', '/']);
        let at = run.find(core).unwrap_or(0);
        let after_letter = at == 0 && rest[..start].chars().next_back().is_some_and(char::is_alphanumeric);
        mapped.push_str(&rest[..start + at]);
        mapped.push_str(replace(core).filter(|_| !after_letter).unwrap_or(core));
        mapped.push_str(&run[at + core.len()..]);
        rest = &rest[start + run.len()..];
    }
    mapped + rest
}

fn is_part_of_address(c: char) -> bool {
    c.is_alphanumeric() || ".-_%+@".contains(c)
}

fn is_address(run: &str) -> bool {
    let Some((name, host)) = run.split_once('@') else { return false };
    let last = host.rsplit('.').next().unwrap_or_default();
    !name.is_empty()
        && host.contains('.')
        && !host.contains('@')
        && last.len() >= 2
        && last.chars().all(char::is_alphabetic)
}

fn is_part_of_number(c: char) -> bool {
    c.is_ascii_digit() || " +-()/".contains(c)
}

/// Numbers begin with `+`, `0` or an area code in brackets, which other long numbers seldom do.
fn is_number(run: &str) -> bool {
    let digits = run.chars().filter(char::is_ascii_digit).count();
    run.starts_with(['+', '0', '(']) && (9..=15).contains(&digits) && !run.contains("  ")
}

export!(Plug);
