//! What a model can do and what it costs.
//!
//! The figures come from the [`ModelTable`](crate::ModelTable); what a wire format has to know of a model is here, so that
//! no format asks for a model by its name.

use pinion_protocol::{Cost, Prices, ThinkingLevel, Usage};
use serde::Deserialize;

/// What a model can do, and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The provider's name.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub id: String,
    /// Whether a table names it. If not, the figures are guesses on the safe side.
    pub known: bool,
    /// Input and output together, in tokens.
    pub context_window: u64,
    /// The most input that it takes, in tokens; may be less than the context window.
    pub max_input: u64,
    /// The most output, thinking included, in tokens.
    pub max_output: u64,
    /// Prices by the size of the prompt, the smallest first; empty when they are not known.
    pub(crate) prices: Vec<PriceTier>,
    /// Takes pictures.
    pub images: bool,
    /// Several tool calls in one reply.
    pub parallel_tools: bool,
    /// A reply may be made to call a tool.
    pub forced_tools: bool,
    /// Takes a temperature.
    pub temperature: bool,
    /// How its thinking is asked for.
    pub thinking: ThinkingStyle,
    /// The efforts that it knows, the least first.
    pub efforts: Vec<Effort>,
    /// The fewest and the most tokens that it may be told to think with, where it counts them; a least of 0 turns thinking
    /// off.
    pub thinking_budgets: Option<(u64, u64)>,
    /// The vendor refuses thinking that comes back after anything before it has changed.
    pub bound_thinking: bool,
    /// The vendor refuses tool calls that come back without their signature.
    pub signed_calls: bool,
    /// How its vendor keeps prompts for the next request.
    pub caching: Caching,
    /// Tools over Chat Completions.
    pub chat_tools: ChatTools,
    /// Where the figures are from.
    pub source: String,
    /// When they were read there, as `2026-11-20`.
    pub date: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PriceTier {
    /// Holds for prompts of more than this many tokens.
    pub(crate) above: u64,
    pub(crate) prices: Prices,
}

/// How a model's thinking is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingStyle {
    /// It does not think.
    None,
    /// Nobody knows: only what the user asks for is sent.
    #[default]
    OnRequest,
    /// A number of tokens.
    Budget,
    /// Anthropic: it decides how much; off when nothing is said.
    Adaptive,
    /// Anthropic: it decides how much; on when nothing is said, and can be turned off.
    Default,
    /// It always thinks; an effort says how much.
    Always,
    /// An effort says how much; `none` turns it off where the model knows that word.
    Effort,
}

/// The vendors' words for how hard a model thinks, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words are the vendors' own")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// How a vendor keeps prompts for the next request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caching {
    /// Not at all.
    None,
    /// By itself, or nobody knows; there is nothing to say about it.
    #[default]
    Automatic,
    /// Where the request says so, or, where it says nothing, as the vendor likes.
    Breakpoints,
}

/// Tools over Chat Completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTools {
    /// As with any model.
    #[default]
    Yes,
    /// Only when it does not think.
    WithoutThinking,
    /// Only over the Responses API.
    No,
}

impl Model {
    /// What its tokens cost when the prompt has `context` of them; none when that is not known.
    pub fn prices(&self, context: u64) -> Option<Prices> {
        self.prices.iter().rev().find(|tier| tier.above == 0 || context > tier.above).map(|tier| tier.prices)
    }

    /// What a request cost; none when that is not known.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.prices(usage.context()).map(|prices| prices.cost(usage))
    }

    /// An output limit that the model accepts: `wanted`, or the most that it is known to give.
    pub(crate) fn output_limit(&self, wanted: u64) -> u64 {
        wanted.clamp(1, if self.known { self.max_output.max(1) } else { u64::MAX })
    }

    /// Its own word for `level`: the least that is not below it, or else its most. None when it knows no words.
    ///
    /// [`ThinkingLevel::Off`] is the word that turns thinking off, and none where there is no such word: a model that
    /// cannot do without is left to its vendor's default, not held to its least. Who wants the least asks for
    /// [`ThinkingLevel::Minimal`].
    pub fn effort(&self, level: ThinkingLevel) -> Option<Effort> {
        let wanted = match level {
            ThinkingLevel::Off => return self.efforts.first().filter(|least| **least == Effort::None).copied(),
            ThinkingLevel::Minimal => Effort::Minimal,
            ThinkingLevel::Low => Effort::Low,
            ThinkingLevel::Medium => Effort::Medium,
            ThinkingLevel::High => Effort::High,
            ThinkingLevel::Xhigh => Effort::Xhigh,
        };
        self.efforts.iter().find(|effort| **effort >= wanted).or(self.efforts.last()).copied()
    }
}

/// Tokens to think with at a level, where a vendor counts them and the user says nothing else. None for
/// [`ThinkingLevel::Off`].
pub(crate) fn level_budget(level: ThinkingLevel) -> Option<u64> {
    match level {
        ThinkingLevel::Off => None,
        ThinkingLevel::Minimal => Some(1_024),
        ThinkingLevel::Low => Some(2_048),
        ThinkingLevel::Medium => Some(8_192),
        ThinkingLevel::High => Some(16_384),
        ThinkingLevel::Xhigh => Some(32_768),
    }
}

/// Do both names mean the same model? Vendors answer with a dated name when asked by an alias.
pub(crate) fn same_model(a: &str, b: &str) -> bool {
    a == b || undated(a) == undated(b)
}

/// `claude-haiku-4-5-20251001` and `gpt-4o-2024-08-06` without their dates, and what follows them.
pub(crate) fn undated(id: &str) -> &str {
    let is_date = |at: usize| {
        let date = &id.as_bytes()[at + 1..];
        let digits = date.iter().filter(|byte| byte.is_ascii_digit()).count();
        match date {
            [_, _, _, _, b'-', _, _, b'-', _, _] => digits == 8,
            [start @ .., b'-', b'v', _, b':', _] | [start @ .., b'-', b'v', _] => {
                start.len() == 8 && start.iter().all(u8::is_ascii_digit)
            }
            _ => digits == 8 && date.len() == 8,
        }
    };
    id.match_indices(['-', '@']).find(|(at, _)| is_date(*at)).map_or(id, |(at, _)| &id[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelTable;

    #[test]
    fn dates_are_told_from_other_numbers() {
        assert!(same_model("gpt-4o", "gpt-4o-2024-08-06") && !same_model("gpt-4o", "gpt-4o-mini"));
        assert_eq!(undated("claude-haiku-4-5-20251001"), "claude-haiku-4-5");
        assert_eq!(undated("anthropic.claude-haiku-4-5-20251001-v1:0"), "anthropic.claude-haiku-4-5");
        assert_eq!(undated("claude-haiku-4-5@20251001"), "claude-haiku-4-5");
        assert_eq!(undated("devstral-2512"), "devstral-2512");
        assert_eq!(undated("größe-é-2024-08-0"), "größe-é-2024-08-0");
    }

    #[test]
    fn long_prompts_cost_more_where_the_vendor_says_so() {
        let haiku = ModelTable::builtin().find("anthropic", "claude-haiku-5-5");
        assert_eq!(haiku.prices(100_000).unwrap().input, 0.1);
        assert_eq!(haiku.prices(100_001).unwrap().input, 0.5);
        let usage = Usage { input: 1_000, output: 10, cache_read: 200_000, cache_write: 0 };
        assert!((haiku.cost(&usage).unwrap().cache_read - 0.01).abs() < 1e-9);
    }

    #[test]
    fn a_level_becomes_the_nearest_effort_that_is_not_less() {
        let model = |efforts: &[Effort]| Model {
            efforts: efforts.to_vec(),
            ..Model::clone(&ModelTable::default().find("", ""))
        };
        let claude = model(&[Effort::Low, Effort::Medium, Effort::High, Effort::Max]);
        assert_eq!(claude.effort(ThinkingLevel::Minimal), Some(Effort::Low));
        assert_eq!(claude.effort(ThinkingLevel::Xhigh), Some(Effort::Max));
        let gpt = model(&[Effort::Minimal, Effort::Low, Effort::Medium, Effort::High]);
        assert_eq!(gpt.effort(ThinkingLevel::Minimal), Some(Effort::Minimal));
        assert_eq!(gpt.effort(ThinkingLevel::Xhigh), Some(Effort::High));
        assert_eq!(model(&[]).effort(ThinkingLevel::High), None);
    }

    #[test]
    fn off_is_a_word_only_where_the_model_has_one() {
        let of = |provider: &str, id: &str| ModelTable::builtin().find(provider, id).effort(ThinkingLevel::Off);
        assert_eq!(of("openai-chat", "gpt-6-sol"), Some(Effort::None));
        assert_eq!(of("openai-chat", "gpt-5"), None);
        assert_eq!(of("anthropic", "claude-opus-5-5"), None);
    }
}
