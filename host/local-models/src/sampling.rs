//! Selects the next token from the model's scores, among the tokens that may follow.

/// Candidates that are sorted before all others are.
const FIRST_SORTED: usize = 64;
/// Tokens that a repetition is counted in.
const REPETITION_WINDOW: usize = 64;

/// Settings of the selection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingSettings {
    /// 0 selects the best token always; higher values give others a chance.
    pub temperature: f32,
    /// Considers the best tokens that have this share of the probability together.
    pub top_p: f32,
    /// Divides the scores of recent tokens, so that small models do not repeat themselves. 1 changes nothing.
    pub repetition_penalty: f32,
    /// Start of the random numbers: the same seed gives the same reply.
    pub seed: u64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 0.95, repetition_penalty: 1.1, seed: 1 }
    }
}

/// Selects tokens of one reply.
#[derive(Debug)]
pub(crate) struct Sampler {
    settings: SamplingSettings,
    random: u64,
    recent: Vec<u32>,
}

impl Sampler {
    pub(crate) fn new(settings: SamplingSettings) -> Self {
        Self { settings, random: settings.seed, recent: Vec::new() }
    }

    /// Returns the next token; `None` if no token may follow. Tokens are asked in the order of their scores, so that
    /// mostly few are.
    pub(crate) fn next(
        &mut self,
        mut scores: Vec<f32>,
        is_penalized: bool,
        allows: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        if is_penalized {
            self.penalize(&mut scores);
        }
        let token = match self.settings.temperature > 0.0 {
            true => self.draw(&scores, allows).or_else(|| best(&scores, allows)),
            false => best(&scores, allows),
        }?;
        if self.recent.len() == REPETITION_WINDOW {
            self.recent.remove(0);
        }
        self.recent.push(token);
        Some(token)
    }

    fn penalize(&self, scores: &mut [f32]) {
        let mut tokens = self.recent.clone();
        tokens.sort_unstable();
        tokens.dedup();
        for token in tokens {
            let Some(score) = scores.get_mut(token as usize) else { continue };
            *score = match *score > 0.0 {
                true => *score / self.settings.repetition_penalty,
                false => *score * self.settings.repetition_penalty,
            };
        }
    }

    /// Draws among the best tokens, with their probabilities.
    fn draw(&mut self, scores: &[f32], allows: &dyn Fn(u32) -> bool) -> Option<u32> {
        let mut order = sorted(scores, FIRST_SORTED);
        order.retain(|token| allows(*token));
        let top = scores[*order.first()? as usize];
        let weight = |token: u32| ((scores[token as usize] - top) / self.settings.temperature).exp();
        let total: f32 = order.iter().map(|token| weight(*token)).sum();
        let mut kept = 0;
        let mut share = 0.0;
        while kept < order.len() && share < self.settings.top_p * total {
            share += weight(order[kept]);
            kept += 1;
        }
        let weights: Vec<f32> = order[..kept].iter().map(|token| weight(*token)).collect();
        let mut left = self.random() * share;
        for (token, weight) in order.iter().zip(weights) {
            left -= weight;
            if left <= 0.0 {
                return Some(*token);
            }
        }
        order.first().copied()
    }

    /// Returns a random number from 0 to 1 (SplitMix64).
    fn random(&mut self) -> f32 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1_u64 << 24) as f32
    }
}

/// Returns the best token that may follow.
fn best(scores: &[f32], allows: &dyn Fn(u32) -> bool) -> Option<u32> {
    let first = sorted(scores, FIRST_SORTED);
    if let Some(token) = first.iter().find(|token| allows(**token)) {
        return Some(*token);
    }
    sorted(scores, scores.len()).into_iter().skip(first.len()).find(|token| allows(*token))
}

/// Returns the best `count` tokens, best first.
fn sorted(scores: &[f32], count: usize) -> Vec<u32> {
    let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    if count > 0 && count < order.len() {
        order.select_nth_unstable_by(count - 1, better);
        order.truncate(count);
    }
    order.sort_unstable_by(better);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_allowed_token_is_found_however_low_its_score() {
        let scores: Vec<f32> = (0..500).map(|at| -(at as f32)).collect();
        let mut sampler = Sampler::new(SamplingSettings::default());
        for wanted in [0, 3, 63, 64, 499] {
            assert_eq!(sampler.next(scores.clone(), false, &|token| token >= wanted), Some(wanted));
        }
        assert_eq!(sampler.next(scores, false, &|_| false), None);
    }

    #[test]
    fn draws_follow_seed_temperature_and_share() {
        let settings = SamplingSettings { temperature: 1.0, top_p: 0.9, seed: 7, ..SamplingSettings::default() };
        let draws = |settings: SamplingSettings| -> Vec<u32> {
            let mut sampler = Sampler::new(settings);
            (0..200).filter_map(|_| sampler.next(vec![2.0, 1.0, 0.0, -9.0], false, &|token| token != 1)).collect()
        };
        let drawn = draws(settings);
        assert_eq!(drawn, draws(settings));
        assert_ne!(drawn, draws(SamplingSettings { seed: 8, ..settings }));
        assert!(drawn.contains(&0) && drawn.contains(&2) && !drawn.contains(&1) && !drawn.contains(&3));
    }

    #[test]
    fn repeated_tokens_lose() {
        let mut sampler = Sampler::new(SamplingSettings::default());
        let tokens: Vec<Option<u32>> = (0..2).map(|_| sampler.next(vec![1.0, 0.95], true, &|_| true)).collect();
        assert_eq!(tokens, [Some(0), Some(1)]);
    }
}
