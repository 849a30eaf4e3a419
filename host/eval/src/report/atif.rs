//! ATIF v1.8, the Agent Trajectory Interchange Format of Harbor: one trajectory for each trial.

use crate::result::{SetResult, TrialResult};
use crate::trajectory::{Trajectory, TrajectoryTurn};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The version of the format.
const VERSION: &str = "ATIF-v1.8";

/// Returns the trajectories of all trials that have one with a step, in the order of the result.
pub fn trajectories(result: &SetResult) -> Vec<Value> {
    result.trials.iter().filter_map(|trial| trajectory(&result.set, trial)).collect()
}

fn trajectory(set: &str, trial: &TrialResult) -> Option<Value> {
    let trajectory = trial.trajectory.as_ref()?;
    let own: Vec<&TrajectoryTurn> = trajectory.turns.iter().filter(|turn| !turn.is_sub_agent).collect();
    if own.is_empty() {
        return None;
    }
    let mut sub_agents: BTreeMap<usize, Vec<&TrajectoryTurn>> = BTreeMap::new();
    for turn in trajectory.turns.iter().filter(|turn| turn.is_sub_agent) {
        sub_agents.entry(turn.run).or_default().push(turn);
    }
    let scores: Map<String, Value> =
        trial.metrics.iter().map(|metric| (metric.evaluator.clone(), json!(metric.value))).collect();
    let steps = steps(&own);
    let mut value = json!({
        "schema_version": VERSION,
        "agent": agent(&trajectory.model),
        "final_metrics": sums(trajectory, steps.len()),
        "steps": steps,
        "extra": {
            "set": set, "case": trial.case, "trial": trial.trial, "verdict": trial.verdict, "scores": scores,
            "findings": trial.findings(),
        },
    });
    if !trajectory.session_id.is_empty() {
        value["session_id"] = json!(trajectory.session_id);
    }
    if !sub_agents.is_empty() {
        let embedded = sub_agents.into_iter().map(|(run, turns)| {
            let model = turns.last().map(|turn| turn.model.as_str()).unwrap_or_default();
            json!({
                "schema_version": VERSION, "trajectory_id": format!("run-{run}"), "agent": agent(model), "steps": self::steps(&turns),
            })
        });
        value["subagent_trajectories"] = embedded.collect();
    }
    Some(value)
}

fn agent(model: &str) -> Value {
    let mut agent = json!({ "name": "pinion", "version": env!("CARGO_PKG_VERSION") });
    if !model.is_empty() {
        agent["model_name"] = json!(model);
    }
    agent
}

fn sums(trajectory: &Trajectory, steps: usize) -> Value {
    let usage = trajectory.usage;
    let mut sums = json!({
        "total_prompt_tokens": usage.context(), "total_completion_tokens": usage.output, "total_cached_tokens": usage.cache_read,
        "total_steps": steps,
    });
    if let Some(cost) = trajectory.cost {
        sums["total_cost_usd"] = json!(cost);
    }
    sums
}

/// Returns a step for each prompt, and one for each reply with its calls and their results.
fn steps(turns: &[&TrajectoryTurn]) -> Vec<Value> {
    let mut steps = Vec::new();
    for turn in turns {
        for prompt in &turn.prompts {
            steps.push(json!({ "step_id": steps.len() + 1, "source": "user", "message": prompt }));
        }
        steps.push(reply(turn, steps.len() + 1));
    }
    steps
}

fn reply(turn: &TrajectoryTurn, id: usize) -> Value {
    let mut metrics = json!({
        "prompt_tokens": turn.usage.context(), "completion_tokens": turn.usage.output, "cached_tokens": turn.usage.cache_read,
    });
    if let Some(cost) = turn.cost {
        metrics["cost_usd"] = json!(cost);
    }
    let mut step = json!({ "step_id": id, "source": "agent", "message": turn.text, "metrics": metrics });
    if !turn.model.is_empty() {
        step["model_name"] = json!(turn.model);
    }
    if turn.calls.is_empty() {
        return step;
    }
    let calls = turn.calls.iter().map(|call| {
        // The format wants an object.
        let arguments = match &call.arguments {
            object @ Value::Object(_) => object.clone(),
            other => json!({ "value": other }),
        };
        json!({ "tool_call_id": call.id, "function_name": call.tool, "arguments": arguments, "extra": { "effects": call.effects } })
    });
    step["tool_calls"] = calls.collect();
    let results = turn.calls.iter().filter_map(|call| {
        let content = call.result.as_ref()?;
        Some(json!({ "source_call_id": call.id, "content": content, "extra": { "is_error": call.is_error } }))
    });
    let results: Vec<Value> = results.collect();
    if !results.is_empty() {
        step["observation"] = json!({ "results": results });
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::TrajectoryCall;
    use pinion_protocol::Usage;

    #[test]
    fn trial_is_a_trajectory_with_embedded_sub_agents() {
        let call = |id: &str, arguments: Value, result: Option<&str>| TrajectoryCall {
            id: id.to_owned(),
            tool: "read".to_owned(),
            arguments,
            result: result.map(str::to_owned),
            ..TrajectoryCall::default()
        };
        let turn = |run, is_sub_agent, prompts: &[&str], calls| TrajectoryTurn {
            run,
            is_sub_agent,
            prompts: prompts.iter().map(|prompt| (*prompt).to_owned()).collect(),
            calls,
            model: "m".to_owned(),
            usage: Usage { input: 10, output: 2, cache_read: 5, cache_write: 1 },
            ..TrajectoryTurn::default()
        };
        let calls = vec![call("1", json!({ "path": "a" }), Some("text")), call("2", json!("odd"), None)];
        let turns =
            vec![turn(1, true, &["sub"], vec![]), turn(0, false, &["go", "on"], calls), turn(0, false, &[], vec![])];
        let trajectory = Trajectory { turns, cost: Some(0.5), ..Trajectory::default() };
        let trial = TrialResult { trajectory: Some(trajectory), ..TrialResult::planned("a", None, 1) };
        let empty = TrialResult { trajectory: Some(Trajectory::default()), ..TrialResult::planned("b", None, 1) };
        let values = trajectories(&SetResult::new("s", vec![trial, empty]));
        let [value] = &values[..] else { panic!("{values:?}") };
        let steps = value["steps"].as_array().unwrap();
        let sources: Vec<_> = steps.iter().map(|step| (step["step_id"].as_u64(), step["source"].as_str())).collect();
        assert_eq!(
            sources,
            [(Some(1), Some("user")), (Some(2), Some("user")), (Some(3), Some("agent")), (Some(4), Some("agent"))]
        );
        assert_eq!(steps[2]["metrics"], json!({ "prompt_tokens": 16, "completion_tokens": 2, "cached_tokens": 5 }));
        assert_eq!(steps[2]["tool_calls"][1]["arguments"], json!({ "value": "odd" }));
        let results = json!([{ "source_call_id": "1", "content": "text", "extra": { "is_error": false } }]);
        assert_eq!(steps[2]["observation"]["results"], results);
        assert_eq!(
            (&value["final_metrics"]["total_steps"], &value["final_metrics"]["total_cost_usd"]),
            (&json!(4), &json!(0.5))
        );
        let embedded = &value["subagent_trajectories"][0];
        assert_eq!((&embedded["trajectory_id"], embedded["steps"].as_array().unwrap().len()), (&json!("run-1"), 2));
        assert_eq!((&value["schema_version"], value.get("session_id")), (&json!("ATIF-v1.8"), None));
    }
}
