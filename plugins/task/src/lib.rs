//! The built-in tool `task`: a part of the work for a sub-agent, through the host's `agents`.
//!
//! What is decided here is what the model is told of sub-agents and of what became of one. To run it, and to hold it to
//! no more authority than the agent has, is the host's.

use pinion_plugin_sdk::agents::{self, Assignment, Attempts, Kind, Report};
use pinion_plugin_sdk::prelude::*;

/// Attempts that one task may have.
const MAX_ATTEMPTS: u32 = 8;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole task: what to find out or do, what is known, what to report. The sub-agent sees nothing else.
    prompt: String,
    /// One of the agents that the user has set up.
    agent: Option<String>,
    /// The only tools that it may use.
    tools: Option<Vec<String>>,
    /// Lets so many work on the same task side by side, without changing anything, and takes one answer.
    #[schemars(range(min = 2, max = 8))]
    attempts: Option<u32>,
    /// Which answer: judge by default.
    choose: Option<Choose>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Choose {
    First,
    FewestTokens,
    MostTokens,
    Judge,
}

/// The plugin.
pub struct Task;

impl Plugin for Task {
    fn tools() -> Vec<Tool> {
        // It declares all effects, so that its sub-agents may have all tools that the agent has. It has none of its own.
        vec![Tool::new("task", description(&kinds()), task).label("sub-agent").writes().executes().network().delegates().guideline(
            "Use task for searches and other work of many steps of which you need only the outcome; \
                     several in one message run side by side.",
        )]
    }
}

// An hour: how long a sub-agent takes is for the agent's own limits.
export!(Task, exports = [tools], asks = { "agents": true }, limits = { "deadline-ms": 3600000, "grace-ms": 5000 });

fn description(kinds: &[Kind]) -> String {
    let mut text = "Lets a sub-agent work on a task, with a conversation of its own, and returns its last message. It \
                    has your tools, and asks nobody: tell it all that it has to know."
        .to_owned();
    if !kinds.is_empty() {
        text.push_str("\nAgents that the user has set up:");
        kinds.iter().for_each(|kind| text.push_str(&format!("\n- {}: {}", kind.name, kind.description)));
    }
    text
}

/// Outside a host, as in the tests, none are set up.
fn kinds() -> Vec<Kind> {
    if cfg!(target_arch = "wasm32") { agents::kinds() } else { Vec::new() }
}

fn task(arguments: Arguments, _call: &Call) -> Result<Output> {
    let report = agents::run(&assignment(arguments)?)?;
    Ok(output(&report))
}

fn assignment(arguments: Arguments) -> Result<Assignment> {
    let Arguments { prompt, agent, tools, attempts, choose } = arguments;
    let attempts = match (attempts, choose) {
        (None | Some(1), None) => None,
        (None | Some(1), Some(_)) => return Err(Error::invalid_arguments("`choose` needs `attempts` of 2 or more")),
        (Some(count), choose) if count > 1 && count <= MAX_ATTEMPTS => {
            Some(Attempts { count, choice: choice(choose.unwrap_or(Choose::Judge)) })
        }
        (Some(count), _) => {
            return Err(Error::invalid_arguments(format!("`attempts` is 2 to {MAX_ATTEMPTS}, and not {count}")));
        }
    };
    Ok(Assignment { prompt, kind: agent, tools, max_turns: None, timeout_ms: None, attempts })
}

fn choice(choose: Choose) -> agents::Choice {
    match choose {
        Choose::First => agents::Choice::First,
        Choose::FewestTokens => agents::Choice::FewestTokens,
        Choose::MostTokens => agents::Choice::MostTokens,
        Choose::Judge => agents::Choice::Judge,
    }
}

fn output(report: &Report) -> Output {
    let text = if report.text.trim().is_empty() { "(the sub-agent said nothing)" } else { report.text.trim() };
    let text = match &report.shortfall {
        None => text.to_owned(),
        Some(shortfall) => format!("{text}\n\n[The sub-agent did not come to its end: {shortfall}.]"),
    };
    Output::text(text).markdown().details(json!({
        "loop_id": report.loop_id,
        "turns": report.turns,
        "input_tokens": report.input_tokens,
        "output_tokens": report.output_tokens,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    fn arguments(value: Value) -> Arguments {
        Arguments::deserialize(value).unwrap()
    }

    #[test]
    fn the_definition_is_short_and_names_the_agents_that_are_set_up() {
        let tool = testing::tools::<Task>().remove(0);
        let bytes = tool.name.len() + tool.description.len() + tool.input_schema.len();
        assert!(bytes / 4 < 350, "{bytes} bytes");
        let reviewer = Kind { name: "reviewer".into(), description: "reads diffs".into() };
        assert!(description(&[reviewer]).ends_with("\n- reviewer: reads diffs"));
    }

    #[test]
    fn attempts_are_judged_unless_something_else_is_said() {
        let attempts = |value| assignment(arguments(value)).map(|assignment| assignment.attempts);
        let judged = attempts(json!({ "prompt": "x", "attempts": 3 })).unwrap().unwrap();
        assert_eq!((judged.count, judged.choice), (3, agents::Choice::Judge));
        let first = attempts(json!({ "prompt": "x", "attempts": 2, "choose": "first" })).unwrap().unwrap();
        assert_eq!((first.count, first.choice), (2, agents::Choice::First));
        assert!(attempts(json!({ "prompt": "x", "attempts": 1 })).unwrap().is_none());
        for wrong in [json!({ "prompt": "x", "attempts": 9 }), json!({ "prompt": "x", "choose": "first" })] {
            assert!(matches!(attempts(wrong), Err(Error::InvalidArguments(_))));
        }
    }

    #[test]
    fn a_report_says_why_it_is_not_what_it_could_have_been() {
        let report = |text: &str, shortfall: Option<&str>| Report {
            text: text.into(),
            shortfall: shortfall.map(str::to_owned),
            loop_id: "s.c.1".into(),
            turns: 2,
            input_tokens: 10,
            output_tokens: 5,
        };
        let text = |report: &Report| testing::Reply::from(output(report)).text;
        assert_eq!(text(&report("found\n", None)), "found");
        assert_eq!(
            text(&report("", Some("it failed: no key"))),
            "(the sub-agent said nothing)\n\n[The sub-agent did not come to its end: it failed: no key.]"
        );
    }
}
