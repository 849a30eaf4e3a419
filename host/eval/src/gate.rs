//! The bounds that a result must meet.

use crate::case::GateBounds;
use crate::result::SetResult;

/// Returns the bounds that a result misses, each as a sentence. Without any bound, every trial must pass. A result
/// without trials misses every bound.
pub fn missed_bounds(result: &SetResult) -> Vec<String> {
    let sums = &result.sums;
    if sums.trials == 0 {
        return vec!["no trial took place".to_owned()];
    }
    let bounds = match result.gate == GateBounds::default() {
        true => GateBounds { pass_rate: Some(1.0), ..GateBounds::default() },
        false => result.gate,
    };
    let mut missed = Vec::new();
    if let Some(least) = bounds.pass_rate.filter(|least| sums.pass_rate < *least) {
        missed.push(format!("pass-rate is {:.3}, at least {least} expected", sums.pass_rate));
    }
    if let Some(most) = bounds.cost {
        match sums.cost {
            Some(cost) if cost <= most => {}
            Some(cost) => missed.push(format!("cost is {cost}, at most {most} expected")),
            None => missed.push(format!("cost is unknown, at most {most} expected")),
        }
    }
    let counts = [
        ("calls", bounds.calls, sums.calls),
        ("turns", bounds.turns, sums.turns),
        ("tokens", bounds.tokens, sums.usage.total()),
        ("input-tokens", bounds.input_tokens, sums.usage.context()),
        ("output-tokens", bounds.output_tokens, sums.usage.output),
    ];
    for (name, most, count) in counts {
        if let Some(most) = most.filter(|most| count > *most) {
            missed.push(format!("{name} are {count}, at most {most} expected"));
        }
    }
    let seconds = sums.duration_ms as f64 / 1_000.0;
    if let Some(most) = bounds.seconds.filter(|most| seconds > *most) {
        missed.push(format!("seconds are {seconds}, at most {most} expected"));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::SetSums;
    use pinion_protocol::Usage;

    fn missed(gate: GateBounds, passed: u64, cost: Option<f64>) -> Vec<String> {
        let sums = SetSums {
            trials: 4,
            passed,
            pass_rate: passed as f64 / 4.0,
            cost,
            duration_ms: 2_500,
            calls: 6,
            turns: 8,
            usage: Usage { input: 70, output: 40, cache_read: 20, cache_write: 10 },
            ..SetSums::default()
        };
        missed_bounds(&SetResult { gate, sums, ..SetResult::new("s", Vec::new()) })
    }

    #[test]
    fn each_missed_bound_is_named() {
        let gate = GateBounds { pass_rate: Some(0.75), cost: Some(0.5), seconds: Some(2.5), ..GateBounds::default() };
        assert_eq!(missed(gate, 3, Some(0.5)), Vec::<String>::new());
        let gate = GateBounds { seconds: Some(2.0), ..gate };
        let expected = [
            "pass-rate is 0.500, at least 0.75 expected",
            "cost is 0.6, at most 0.5 expected",
            "seconds are 2.5, at most 2 expected",
        ];
        assert_eq!(missed(gate, 2, Some(0.6)), expected);
        assert_eq!(missed(gate, 3, None)[0], "cost is unknown, at most 0.5 expected");
        assert_eq!(missed(GateBounds::default(), 3, None), ["pass-rate is 0.750, at least 1 expected"]);
        assert!(missed(GateBounds::default(), 4, None).is_empty());
    }

    #[test]
    fn calls_turns_and_both_kinds_of_tokens_have_bounds() {
        let gate = |less: u64| GateBounds {
            tokens: Some(140 - less),
            input_tokens: Some(100 - less),
            output_tokens: Some(40 - less),
            calls: Some(6 - less),
            turns: Some(8 - less),
            ..GateBounds::default()
        };
        assert_eq!(missed(gate(0), 0, None), Vec::<String>::new());
        let expected = [
            "calls are 6, at most 5 expected",
            "turns are 8, at most 7 expected",
            "tokens are 140, at most 139 expected",
            "input-tokens are 100, at most 99 expected",
            "output-tokens are 40, at most 39 expected",
        ];
        assert_eq!(missed(gate(1), 0, None), expected);
    }
}
