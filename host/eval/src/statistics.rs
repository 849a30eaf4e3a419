//! Statistics of repeated trials.

/// Quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// Returns the interval of 95 % confidence for the probability of success, after `passed` of `trials` passed.
///
/// The score interval of E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal
/// of the American Statistical Association 22 (1927), 209–212. It holds for few trials and extreme shares, where the
/// interval around the share alone does not. Without trials it is 0 to 1.
pub fn wilson_interval(passed: u64, trials: u64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (trials as f64, passed.min(trials) as f64 / trials as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // Rounding must not exclude the share itself.
    ((centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0))
}

/// Returns the estimate of pass^k: the probability that `k` independent trials all pass. `None` with fewer than `k`
/// trials.
///
/// The unbiased estimator `C(passed, k) / C(trials, k)` of S. Yao et al., "τ-bench: A benchmark for tool-agent-user
/// interaction in real-world domains" (2024), arXiv:2406.12045.
pub fn pass_hat(passed: u64, trials: u64, k: u64) -> Option<f64> {
    if k == 0 || k > trials {
        return None;
    }
    // C(c, k) / C(n, k) is the product of (c - i) / (n - i).
    Some((0..k).map(|i| passed.min(trials).saturating_sub(i) as f64 / (trials - i) as f64).product())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_near((low, high): (f64, f64), expected: (f64, f64)) -> bool {
        (low - expected.0).abs() < 5e-5 && (high - expected.1).abs() < 5e-5
    }

    /// Values by hand, with z² = 3.8414588: for 8 of 10 the centre is (0.8 + 0.1920729) / 1.3841459 = 0.7167401 and the half
    /// width 1.9599640 / 1.3841459 × √(0.016 + 0.0096036) = 0.2265777.
    #[test]
    fn interval_has_values_computed_by_hand() {
        assert!(is_near(wilson_interval(8, 10), (0.49016, 0.94332)), "{:?}", wilson_interval(8, 10));
        assert!(is_near(wilson_interval(0, 10), (0.0, 0.27753)), "{:?}", wilson_interval(0, 10));
        assert!(is_near(wilson_interval(10, 10), (0.72247, 1.0)));
        assert!(is_near(wilson_interval(1, 1), (0.20655, 1.0)));
        assert_eq!(wilson_interval(0, 0), (0.0, 1.0));
    }

    #[test]
    fn pass_hat_is_the_share_of_selections_that_pass() {
        // Of the 6 pairs of 4 trials, 3 consist of the 3 that passed.
        assert_eq!(pass_hat(3, 4, 2), Some(0.5));
        assert_eq!(pass_hat(3, 4, 1), Some(0.75));
        assert_eq!([pass_hat(3, 4, 4), pass_hat(4, 4, 4)], [Some(0.0), Some(1.0)]);
        assert_eq!([pass_hat(4, 4, 5), pass_hat(4, 4, 0), pass_hat(0, 0, 1)], [None; 3]);
    }

    proptest! {
        #[test]
        fn interval_contains_the_share_and_narrows_with_trials(trials in 1u64..2_000, part in 0.0f64..=1.0) {
            let passed = (part * trials as f64).floor() as u64;
            let (low, high) = wilson_interval(passed, trials);
            let share = passed as f64 / trials as f64;
            prop_assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
            let (less, more) = wilson_interval(passed * 4, trials * 4);
            prop_assert!(more - less < high - low);
            // Successes and failures are symmetric.
            let (other_low, other_high) = wilson_interval(trials - passed, trials);
            prop_assert!((1.0 - other_high - low).abs() < 1e-9 && (1.0 - other_low - high).abs() < 1e-9);
        }

        #[test]
        fn pass_hat_falls_with_k(trials in 1u64..200, passed in 0u64..200) {
            let passed = passed.min(trials);
            let values: Vec<f64> = (1..=trials).map(|k| pass_hat(passed, trials, k).unwrap()).collect();
            prop_assert!((values[0] - passed as f64 / trials as f64).abs() < 1e-12);
            prop_assert!(values.windows(2).all(|pair| pair[1] <= pair[0]));
        }
    }
}
