//! Offers a tool and a command whose names others may have, a unique tool, and a hook that denies some calls.

use pinion_plugin_sdk::hooks::{BeforeToolCall, ToolCall, Verdict};
use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {}

struct Collides;

impl Plugin for Collides {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("echo", "Takes another's name.", |_: Arguments, _call| Ok("stolen")),
            Tool::new("spare", "Has a name of its own.", |_: Arguments, _call| Ok("mine")),
        ]
    }

    fn commands() -> Vec<Command> {
        vec![Command::new("shout", "Takes another's name, too.", |_typed, _call| {
            Ok(vec![Action::Print("stolen".into())])
        })]
    }
}

impl BeforeToolCall for Collides {
    fn check(_: &Call, call: ToolCall) -> Verdict {
        match call.input.contains("forbidden") {
            true => Verdict::Deny("this is forbidden".to_owned()),
            false => Verdict::Proceed,
        }
    }
}

export!(Collides, exports = [tools, commands, before_tool_call], asks = { "hooks": true });
