//! The built-in tool `task`: hands part of the work to a sub-agent through the host's `agents`.
//!
//! This crate decides which texts the model reads about sub-agents and their results. The host runs a sub-agent and limits it
//! to the agent's authority.

use pinion_plugin_sdk::agents::{self, Assignment, Attempts, Kind, Report};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;

/// Maximum number of attempts at one task.
const MAX_ATTEMPTS: u32 = 8;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The complete task: goal, known facts, expected report.
    prompt: String,
    /// One of the agents that the user configured.
    agent: Option<String>,
    /// The only tools that it may use.
    tools: Option<Vec<String>>,
    /// Run this many read-only attempts in parallel and keep one answer.
    #[schemars(range(min = 2, max = 8))]
    attempts: Option<u32>,
    /// Strategy that chooses the answer (default: judge).
    choose: Option<Choose>,
    /// Its conversation at the start: empty (default), or a copy of this one.
    context: Option<Start>,
    /// One of the models that the user allows.
    model: Option<String>,
    /// Return at once; the report comes as a later message.
    background: Option<bool>,
}

#[derive(Deserialize, Serialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Start {
    None,
    Conversation,
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
        // Declares all effects so that its sub-agents may use all of the agent's tools; it has none of its own.
        vec![
            Tool::new("task", description(&kinds()), task)
                .label("sub-agent")
                .writes()
                .executes()
                .network()
                .delegates()
                .guideline(
                    "Use task for searches and other long work of which you need only the outcome; \
                     several calls in one message run in parallel.",
                ),
        ]
    }
}

// One hour: the agent's own limits decide how long a sub-agent may run.
export!(Task, exports = [tools], asks = { "agents": true, "session": "read" }, limits = { "deadline-ms": 3600000, "grace-ms": 5000 });

fn description(kinds: &[Kind]) -> String {
    let mut text = "Runs a sub-agent on a task in a separate conversation and returns its last message. It has your \
                    tools but cannot ask questions: include everything that it needs to know, or start it from this \
                    conversation."
        .to_owned();
    if !kinds.is_empty() {
        text.push_str("\nAgents that the user configured:");
        kinds.iter().for_each(|kind| text.push_str(&format!("\n- {}: {}", kind.name, kind.description)));
    }
    text
}

/// Returns the configured agents; none outside a host, as in tests.
fn kinds() -> Vec<Kind> {
    if cfg!(target_arch = "wasm32") { agents::kinds() } else { Vec::new() }
}

fn task(arguments: Arguments, _call: &Call) -> Result<Output> {
    let assignment = assignment(arguments)?;
    let report = agents::run(&assignment)?;
    Ok(output(assignment.kind.as_deref(), &report))
}

fn assignment(arguments: Arguments) -> Result<Assignment> {
    let Arguments { prompt, agent, tools, attempts, choose, context, model, background } = arguments;
    let attempts = match (attempts, choose) {
        (None | Some(1), None) => None,
        (None | Some(1), Some(_)) => {
            return Err(Error::invalid_input("`choose` requires `attempts` of at least 2"));
        }
        (Some(count), choose) if count > 1 && count <= MAX_ATTEMPTS => {
            Some(Attempts { count, choice: choice(choose.unwrap_or(Choose::Judge)) })
        }
        (Some(count), _) => {
            return Err(Error::invalid_input(format!("`attempts` must be 2 to {MAX_ATTEMPTS}, not {count}")));
        }
    };
    let extra = extra(context, model, background);
    Ok(Assignment { prompt, kind: agent, tools, max_turns: None, timeout_ms: None, attempts, extra })
}

/// Returns the settings that have no member of their own in the contract; `None` without any.
fn extra(context: Option<Start>, model: Option<String>, background: Option<bool>) -> Option<String> {
    let mut extra = Map::new();
    extra.extend(context.map(|context| ("context".to_owned(), json!(context))));
    extra.extend(model.map(|model| ("model".to_owned(), json!(model))));
    extra.extend(background.map(|background| ("background".to_owned(), json!(background))));
    (!extra.is_empty()).then(|| Value::Object(extra).to_string())
}

fn choice(choose: Choose) -> agents::Choice {
    match choose {
        Choose::First => agents::Choice::First,
        Choose::FewestTokens => agents::Choice::FewestTokens,
        Choose::MostTokens => agents::Choice::MostTokens,
        Choose::Judge => agents::Choice::Judge,
    }
}

fn output(agent: Option<&str>, report: &Report) -> Output {
    let text = if report.text.trim().is_empty() { "(the sub-agent returned no text)" } else { report.text.trim() };
    let output = match &report.shortfall {
        None => Output::text(text),
        Some(shortfall) => Output::text(format!("{text}\n\n[The sub-agent stopped early: {shortfall}.]")).failed(),
    };
    output.markdown().details(json!({
        "agent": agent,
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
    fn definition_is_short_and_names_configured_agents() {
        let tool = testing::tools::<Task>().remove(0);
        let bytes = tool.name.len() + tool.description.len() + tool.input_schema.len();
        assert!(bytes / 4 < 350, "{bytes} bytes");
        let reviewer = Kind { name: "reviewer".into(), description: "reads diffs".into() };
        assert!(description(&[reviewer]).ends_with("\n- reviewer: reads diffs"));
    }

    #[test]
    fn attempts_are_judged_by_default() {
        let attempts = |value| assignment(arguments(value)).map(|assignment| assignment.attempts);
        let judged = attempts(json!({ "prompt": "x", "attempts": 3 })).unwrap().unwrap();
        assert_eq!((judged.count, judged.choice), (3, agents::Choice::Judge));
        let first = attempts(json!({ "prompt": "x", "attempts": 2, "choose": "first" })).unwrap().unwrap();
        assert_eq!((first.count, first.choice), (2, agents::Choice::First));
        assert!(attempts(json!({ "prompt": "x", "attempts": 1 })).unwrap().is_none());
        for wrong in [json!({ "prompt": "x", "attempts": 9 }), json!({ "prompt": "x", "choose": "first" })] {
            assert!(matches!(attempts(wrong), Err(Error::InvalidInput(_))));
        }
    }

    #[test]
    fn later_settings_are_members_of_extra() {
        let extra = |value| assignment(arguments(value)).unwrap().extra;
        assert_eq!(extra(json!({ "prompt": "x" })), None);
        let both = extra(json!({ "prompt": "x", "context": "conversation", "model": "opus", "background": true }));
        let expected = json!({ "context": "conversation", "model": "opus", "background": true });
        assert_eq!(both.unwrap().parse::<Value>().unwrap(), expected);
    }

    #[test]
    fn report_names_the_reason_for_an_early_stop() {
        let report = |text: &str, shortfall: Option<&str>| Report {
            text: text.into(),
            shortfall: shortfall.map(str::to_owned),
            loop_id: "s.c.1".into(),
            turns: 2,
            input_tokens: 10,
            output_tokens: 5,
        };
        let text = |report: &Report| testing::Reply::from(output(None, report)).text;
        let named = testing::Reply::from(output(Some("reviewer"), &report("found", None)));
        assert_eq!((&named.details["agent"], &named.details["turns"]), (&json!("reviewer"), &json!(2)));
        assert!(!named.is_error && testing::Reply::from(output(None, &report("half", Some("it failed")))).is_error);
        assert_eq!(text(&report("found\n", None)), "found");
        assert_eq!(
            text(&report("", Some("it failed: no key"))),
            "(the sub-agent returned no text)\n\n[The sub-agent stopped early: it failed: no key.]"
        );
    }
}
