//! Hooks.

use crate::Guide;
use pinion_plugin_sdk::hooks::{
    AfterToolCall, BeforeCompaction, BeforePrompt, BeforeToolCall, Compaction, Content, Effects, PromptVerdict,
    ToolCall, ToolError, ToolOutput, Verdict,
};
use pinion_plugin_sdk::prelude::*;

impl BeforeToolCall for Guide {
    fn check(_hook: &Call, call: ToolCall) -> Verdict {
        match call.input.contains("production") && call.effects.contains(Effects::EXECUTES) {
            true => Verdict::Ask("this command names the production system".to_owned()),
            false => Verdict::Proceed,
        }
    }
}

impl AfterToolCall for Guide {
    fn revise(
        _hook: &Call,
        _call: ToolCall,
        outcome: Result<ToolOutput, ToolError>,
    ) -> Option<Result<ToolOutput, ToolError>> {
        let mut output = outcome.ok()?; // A failed call stays as it is.
        for part in &mut output.content {
            if let Content::Text(text) = part {
                *text = text.replace("internal.example", "[internal]");
            }
        }
        Some(Ok(output))
    }
}

impl BeforePrompt for Guide {
    fn check(_hook: &Call, prompt: String) -> PromptVerdict {
        match prompt.contains("deploy") {
            true => PromptVerdict::AddContext("Deployments are frozen until Monday.".to_owned()),
            false => PromptVerdict::Proceed,
        }
    }
}

impl BeforeCompaction for Guide {
    fn instructions(_hook: &Call, _compaction: Compaction) -> Option<String> {
        Some("Keep the names of all migrations.".to_owned())
    }
}
