//! An audit trail of a result: digests that chain over the turns of each trial, and over the trials.
//!
//! The digest of a turn is SHA-256 of the digest before it and of the turn's canonical form, which has neither times nor
//! ids. Equal runs leave equal trails, in any process and directory.

use crate::result::{SetResult, TrialResult};
use crate::trajectory::TrajectoryTurn;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Start of every chain, with the version of the canonical form.
const START: &str = "pinion-eval-audit-1";

/// The audit trail of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTrail {
    /// A chain for each trial, in the order of the result.
    pub trials: Vec<TrialChain>,
    /// Digest of the set, the digests of all trials, and their sums.
    pub digest: String,
}

/// The chain of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialChain {
    /// Digest after each turn.
    pub turns: Vec<String>,
    /// Digest after the last turn, the answer, the scores and the verdict.
    pub digest: String,
}

impl AuditTrail {
    /// Computes the trail of a result.
    pub fn from_result(result: &SetResult) -> Self {
        let trials: Vec<TrialChain> = result.trials.iter().map(TrialChain::from_trial).collect();
        let digests: Vec<&str> = trials.iter().map(|chain| chain.digest.as_str()).collect();
        let counts = json!({
            "set": result.set, "completion": result.completion, "gate": result.gate, "budget": result.budget,
            "trials": digests, "passed": result.sums.passed, "counted": result.sums.trials,
        });
        Self { digest: link(START, &counts), trials }
    }
}

impl TrialChain {
    fn from_trial(trial: &TrialResult) -> Self {
        let identity = json!({ "case": trial.case, "model": trial.model, "trial": trial.trial });
        let mut last = link(START, &identity);
        let mut turns = Vec::new();
        for turn in trial.trajectory.iter().flat_map(|trajectory| &trajectory.turns) {
            last = link(&last, &form(turn));
            turns.push(last.clone());
        }
        let answer = trial.trajectory.as_ref().map(|trajectory| &trajectory.answer);
        let end = trial.trajectory.as_ref().map(|trajectory| &trajectory.end);
        let verdict = json!({
            "answer": answer, "end": end, "metrics": trial.metrics, "verdict": trial.verdict, "error": trial.error,
        });
        Self { turns, digest: link(&last, &verdict) }
    }
}

/// Returns the canonical form of a turn.
fn form(turn: &TrajectoryTurn) -> Value {
    let calls = turn.calls.iter().map(|call| {
        json!({
            "tool": call.tool, "arguments": call.arguments, "result": call.result, "is_error": call.is_error,
            "is_denied": call.is_denied, "effects": call.effects,
        })
    });
    json!({
        "run": turn.run, "is_sub_agent": turn.is_sub_agent, "number": turn.number, "prompts": turn.prompts, "text": turn.text,
        "calls": calls.collect::<Vec<_>>(), "model": turn.model, "usage": turn.usage,
    })
}

fn link(before: &str, value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(before.as_bytes());
    hash.update(b"\n");
    hash.update(canonical_text(value).as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first places at which a result differs from its trail; empty if it is unchanged.
pub fn verify(result: &SetResult) -> Vec<String> {
    let (stored, computed) = (&result.audit, AuditTrail::from_result(result));
    if stored.trials.len() != computed.trials.len() {
        let (had, has) = (stored.trials.len(), computed.trials.len());
        return vec![format!("the trail has {had} trials, the result {has}")];
    }
    let mut problems = Vec::new();
    for (trial, (stored, computed)) in result.trials.iter().zip(stored.trials.iter().zip(&computed.trials)) {
        let name = format!("case `{}`, trial {}", trial.case, trial.trial);
        let differs = stored.turns.iter().zip(&computed.turns).position(|(one, other)| one != other);
        if let Some(turn) = differs {
            problems.push(format!("{name}: turn {} was changed", turn + 1));
        } else if stored.turns.len() != computed.turns.len() {
            problems.push(format!("{name}: turns were added or removed"));
        } else if stored.digest != computed.digest {
            problems.push(format!("{name}: the answer, the scores or the verdict was changed"));
        }
    }
    if problems.is_empty() && stored.digest != computed.digest {
        problems.push("the sums, the bounds or the order of the trials was changed".to_owned());
    }
    problems
}

/// Returns a value as JSON without white space, whose keys are sorted: equal values have equal texts.
pub(crate) fn canonical_text(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (number, (name, value)) in fields.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write_canonical(&Value::String(name.clone()), out);
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{GateBounds, SetBudget};
    use crate::evaluators::MetricScore;
    use crate::result::TrialVerdict;
    use crate::trajectory::{Trajectory, TrajectoryCall};
    use serde_json::json;

    /// Digests of stored results contain these forms: a setting that is added must not change them.
    #[test]
    fn settings_that_are_not_set_leave_no_trace() {
        assert_eq!(json!(SetBudget::default()), json!({ "cost": null, "tokens": null }));
        assert_eq!(json!(GateBounds::default()), json!({ "pass-rate": null, "cost": null, "seconds": null }));
    }

    fn result() -> SetResult {
        let call = |id: &str, path: &str| TrajectoryCall {
            id: id.to_owned(),
            tool: "read".to_owned(),
            arguments: json!({ "path": path, "all": true }),
            result: Some("text".to_owned()),
            duration_ms: 7,
            ..TrajectoryCall::default()
        };
        let turn = |id: &str, path: &str| TrajectoryTurn { calls: vec![call(id, path)], ..TrajectoryTurn::default() };
        let trajectory =
            Trajectory { turns: vec![turn("1", "a"), turn("2", "b")], duration_ms: 9, ..Trajectory::default() };
        let metrics = vec![MetricScore::new("efficiency", 0.1 + 0.2, 0.5, Vec::new())];
        let trial = |number| TrialResult {
            metrics: metrics.clone(),
            trajectory: Some(trajectory.clone()),
            ..TrialResult::planned("a", None, number)
        };
        SetResult::new("s", vec![trial(1), trial(2)])
    }

    #[test]
    fn equal_runs_have_equal_trails_and_every_change_is_found() {
        let mut result = result();
        result.audit = AuditTrail::from_result(&result);
        assert_eq!(verify(&result), Vec::<String>::new());
        let read: SetResult = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
        assert_eq!(verify(&read), Vec::<String>::new());
        let mut other = result.clone();
        for trial in &mut other.trials {
            let trajectory = trial.trajectory.as_mut().unwrap();
            (trajectory.duration_ms, trajectory.turns[0].calls[0].id) = (1, "other".to_owned());
            trajectory.turns[0].calls[0].arguments = json!({ "all": true, "path": "a" });
        }
        assert_eq!(AuditTrail::from_result(&other), result.audit);
        let changed = |change: &dyn Fn(&mut SetResult)| {
            let mut changed = result.clone();
            change(&mut changed);
            verify(&changed)
        };
        let trajectory = |result: &mut SetResult| result.trials[1].trajectory.clone().unwrap();
        let mut changed_turn = trajectory(&mut result.clone());
        changed_turn.turns[1].calls[0].result = Some("other".to_owned());
        let found = changed(&|result| result.trials[1].trajectory = Some(changed_turn.clone()));
        assert_eq!(found, ["case `a`, trial 2: turn 2 was changed"]);
        assert_eq!(
            changed(&|result| result.trials[0].verdict = TrialVerdict::Passed),
            ["case `a`, trial 1: the answer, the scores or the verdict was changed"]
        );
        assert_eq!(changed(&|result| drop(result.trials.pop())), ["the trail has 2 trials, the result 1"]);
        assert_eq!(
            changed(&|result| result.sums.passed = 2),
            ["the sums, the bounds or the order of the trials was changed"]
        );
        let fewer = changed(&|result| drop(result.trials[0].trajectory.as_mut().unwrap().turns.pop()));
        assert_eq!(fewer, ["case `a`, trial 1: turns were added or removed"]);
    }

    /// SHA-256 of the start, a newline and `{"a":1}`, by `printf 'pinion-eval-audit-1\n{"a":1}' | sha256sum`.
    #[test]
    fn digest_is_sha256_of_the_canonical_form() {
        assert_eq!(link(START, &json!({ "a": 1 })), "42974b82f925d046ae3c17dbf476263911f38d69b6a922cc7912e7cdc00acf1f");
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({ "b": [{ "y": "\"", "x": null }, 1.5], "a": {} });
        assert_eq!(canonical_text(&value), r#"{"a":{},"b":[{"x":null,"y":"\""},1.5]}"#);
    }
}
