//! A hook that denies forced pushes, and files with secrets. It guards against accidents, not against attackers.

mod push;
mod secret;

use pinion_plugin_sdk::hooks::{BeforeToolCall, Effects, ToolCall, Verdict};
use pinion_plugin_sdk::prelude::*;
use push::Push;

struct PushGuard;

impl Plugin for PushGuard {}

impl BeforeToolCall for PushGuard {
    fn check(_hook: &Call, call: ToolCall) -> Verdict {
        // The host has validated it, so that it is an object.
        let input: Value = pinion_plugin_sdk::serde_json::from_str(&call.input).unwrap_or_default();
        let mut texts = Vec::new();
        collect(&input, &mut texts);
        if call.effects.contains(Effects::EXECUTES) {
            match texts.iter().filter_map(|text| push::find(text)).max() {
                Some(Push::Forced) => {
                    let text = "push-guard: a forced push overwrites what others pushed. Push without force, or ask the \
                                user to do it.";
                    return Verdict::Deny(text.to_owned());
                }
                Some(Push::WithLease) => return Verdict::Ask("this push rewrites the remote branch".to_owned()),
                None => {}
            }
        }
        if call.effects.intersects(Effects::WRITES | Effects::EXECUTES)
            && let Some(kind) = texts.iter().find_map(|text| secret::find(text))
        {
            return Verdict::Deny(format!(
                "push-guard: the input contains {kind}. Do not write secrets into files or commands: read them from the \
                 environment."
            ));
        }
        Verdict::Proceed
    }
}

/// Collects all strings of a JSON value.
fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(members) => members.values().for_each(|member| collect(member, texts)),
        _ => {}
    }
}

export!(PushGuard, exports = [before_tool_call], asks = { "hooks": true });
