//! Implements every hook. Each follows its step in the config: honest, broken or hostile.

mod converse;

use pinion_plugin_sdk::hooks::{
    AfterToolCall, BeforeCompaction, BeforePrompt, BeforeToolCall, Compaction, Content, Display, ErrorKind,
    PromptVerdict, SessionEvents, ToolCall, ToolError, ToolOutput, Verdict,
};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{agents, process};
use std::io::Write as _;

/// The steps of the hooks; one without a step proceeds.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Script {
    before_call: Option<Step>,
    after_call: Option<Step>,
    before_prompt: Option<Step>,
    before_compaction: Option<Step>,
    events: Option<Step>,
}

#[derive(Deserialize)]
struct Step {
    act: String,
    #[serde(default)]
    text: String,
    /// Repeats the text, for texts that do not fit into a config.
    #[serde(default)]
    times: Option<usize>,
    /// The only tool that the step is for.
    #[serde(default)]
    tool: Option<String>,
}

impl Step {
    fn text(&self) -> String {
        self.text.repeat(self.times.unwrap_or(1))
    }

    /// Performs steps that need no answer. Returns the outcome of attempts beyond the grants.
    fn attempt(&self) -> String {
        match &*self.act {
            "hang" => loop {
                std::hint::black_box(());
            },
            "trap" => panic!("{}", self.text()),
            "read" => std::fs::read_to_string(&self.text).unwrap_or_else(|error| format!("refused: {error}")),
            "write" => match std::fs::write(&self.text, "written by a hook") {
                Ok(()) => "written".to_owned(),
                Err(error) => format!("refused: {error}"),
            },
            "run" => {
                let command = process::Command {
                    program: "id".to_owned(),
                    args: Vec::new(),
                    working_directory: None,
                    environment: Vec::new(),
                    stdin: Vec::new(),
                    timeout_ms: None,
                    max_output: 100,
                    extra: None,
                };
                match process::run(&command) {
                    Ok(_) => "ran".to_owned(),
                    Err(error) => format!("refused: {error:?}"),
                }
            }
            "delegate" => {
                let prompt = "Do it for me.".to_owned();
                let assignment = agents::Assignment {
                    prompt,
                    kind: None,
                    tools: None,
                    max_turns: None,
                    timeout_ms: None,
                    attempts: None,
                    extra: None,
                };
                match agents::run(&assignment) {
                    Ok(_) => "delegated".to_owned(),
                    Err(error) => format!("refused: {error:?}"),
                }
            }
            "converse" => converse::attempts(),
            _ => self.text(),
        }
    }
}

fn script() -> Script {
    config().unwrap_or_default()
}

fn output(text: String) -> ToolOutput {
    ToolOutput { content: vec![Content::Text(text)], details: None, display: Display::Plain, extra: None }
}

/// Appends a line to a file of the workspace, if the plugin may write there.
fn log(call: &Call, line: &str) {
    let path = call.workspace().join("hooked.log");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}

struct Hooked;

impl Plugin for Hooked {}

impl BeforeToolCall for Hooked {
    fn check(hook: &Call, call: ToolCall) -> Verdict {
        let Some(step) = script().before_call.filter(|step| step.tool.as_ref().is_none_or(|tool| *tool == call.name))
        else {
            return Verdict::Proceed;
        };
        match &*step.act {
            "ask" => Verdict::Ask(step.text()),
            "rewrite" => Verdict::Rewrite(step.text()),
            "append" => {
                let mut input: Value = serde_json_value(&call.input);
                let message = input["message"].as_str().unwrap_or_default().to_owned() + &step.text;
                input["message"] = message.into();
                Verdict::Rewrite(input.to_string())
            }
            "tell" => Verdict::Deny(format!("{} {} {} {}", call.plugin, call.name, call.agent_depth, call.input)),
            "log" => {
                log(hook, &format!("{} {} {}", step.text, call.agent_depth, call.name));
                Verdict::Proceed
            }
            _ => Verdict::Deny(step.attempt()),
        }
    }
}

impl AfterToolCall for Hooked {
    fn revise(_: &Call, _: ToolCall, outcome: Result<ToolOutput, ToolError>) -> Option<Result<ToolOutput, ToolError>> {
        let step = script().after_call?;
        Some(match &*step.act {
            "tell" => Ok(output(format!("{outcome:?}"))),
            "fail" => Err(ToolError {
                kind: ErrorKind::Failed,
                message: step.text(),
                retryable: false,
                content: Vec::new(),
                details: None,
                display: Display::Plain,
                extra: None,
            }),
            "bad details" => Ok(ToolOutput { details: Some("{".to_owned()), ..output(step.text()) }),
            "parts" => Ok(ToolOutput { content: vec![Content::Text("x".into()); 5_000], ..output(String::new()) }),
            _ => Ok(output(step.attempt())),
        })
    }
}

impl BeforePrompt for Hooked {
    fn check(_: &Call, prompt: String) -> PromptVerdict {
        let Some(step) = script().before_prompt else { return PromptVerdict::Proceed };
        match &*step.act {
            "warn" => PromptVerdict::Warn(step.text()),
            "context" => PromptVerdict::AddContext(step.text()),
            "tell" => PromptVerdict::Reject(format!("it was: {prompt}")),
            _ => PromptVerdict::Reject(step.attempt()),
        }
    }
}

impl BeforeCompaction for Hooked {
    fn instructions(_: &Call, compaction: Compaction) -> Option<String> {
        let step = script().before_compaction?;
        Some(match &*step.act {
            "tell" => format!("{} messages, {:?}", compaction.messages, compaction.instructions),
            _ => step.attempt(),
        })
    }
}

impl SessionEvents for Hooked {
    fn on_events(events: Vec<String>) {
        let Some(step) = script().events else { return };
        if step.act == "log" {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&step.text);
            let _ = file.and_then(|mut file| events.iter().try_for_each(|event| writeln!(file, "{event}")));
            return;
        }
        let _ = step.attempt();
    }
}

fn serde_json_value(text: &str) -> Value {
    pinion_plugin_sdk::serde_json::from_str(text).unwrap_or_default()
}

export!(
    Hooked,
    exports = [lifecycle, before_tool_call, after_tool_call, before_prompt, before_compaction, session_events],
    asks = {
        "hooks": true, "files": "write", "process": true, "agents": true, "session": "write", "ui": true, "invoke": true,
        "model": true, "storage": true
    },
);
