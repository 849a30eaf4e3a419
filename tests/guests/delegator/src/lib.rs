//! Starts sub-agents from tools that declare many or few effects, and from a command, which is forbidden.

use pinion_plugin_sdk::agents::{self, Assignment};
use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    prompt: String,
    tools: Option<Vec<String>>,
    /// Number of sub-agents, one after another.
    times: Option<u32>,
}

struct Delegator;

impl Plugin for Delegator {
    fn tools() -> Vec<Tool> {
        let tool = |name| Tool::new(name, "Starts a sub-agent.", delegate);
        vec![
            tool("delegate").writes().executes().network().delegates(),
            tool("delegate_reading").reads().delegates(),
            tool("delegate_nothing").delegates(),
            tool("undeclared").reads(),
        ]
    }

    fn commands() -> Vec<Command> {
        vec![Command::new("delegate", "Starts a sub-agent", |typed, _call| {
            let report = run(typed.to_owned(), None).map_err(|error| format!("{error:?}"))?;
            Ok(vec![Action::Print(report)])
        })]
    }
}

export!(Delegator, exports = [tools, commands], asks = { "agents": true });

fn delegate(arguments: Arguments, _call: &Call) -> Result<String> {
    let mut said = Vec::new();
    for _ in 0..arguments.times.unwrap_or(1) {
        said.push(run(arguments.prompt.clone(), arguments.tools.clone())?);
    }
    Ok(said.join("\n"))
}

fn run(prompt: String, tools: Option<Vec<String>>) -> Result<String> {
    let assignment =
        Assignment { prompt, kind: None, tools, max_turns: None, timeout_ms: None, attempts: None, extra: None };
    let report = agents::run(&assignment)?;
    Ok(format!("{} {}", report.text, report.shortfall.unwrap_or_default()).trim().to_owned())
}
