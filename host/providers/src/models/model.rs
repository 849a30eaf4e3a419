//! The abilities and prices of a model.
//!
//! The figures come from the [`ModelTable`](crate::ModelTable). Wire formats consult this type instead of comparing
//! model names.

use pinion_protocol::{Cost, PriceList, Prices, ThinkingLevel, Usage};
use serde::Deserialize;

/// The abilities and prices of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The provider's name.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub id: String,
    /// True when a table lists the model. Otherwise the figures are conservative guesses.
    pub known: bool,
    /// True when a table states the context window, by name or by pattern. Otherwise it is a guess.
    pub knows_window: bool,
    /// The limit on input and output together, in tokens.
    pub context_window: u64,
    /// The limit on input, in tokens; may be less than the context window.
    pub max_input: u64,
    /// The limit on output, including thinking, in tokens.
    pub max_output: u64,
    /// Prices by prompt size, ascending; empty when unknown.
    pub(crate) prices: Vec<PriceTier>,
    /// Accepts images.
    pub images: bool,
    /// Supports several tool calls in one reply.
    pub parallel_tools: bool,
    /// Supports requests that force a tool call.
    pub forced_tools: bool,
    /// Accepts a temperature.
    pub temperature: bool,
    /// The way to request thinking.
    pub thinking: ThinkingStyle,
    /// The supported efforts, ascending.
    pub efforts: Vec<Effort>,
    /// The smallest and largest thinking budget in tokens, where it has budgets; a minimum of 0 disables thinking.
    pub thinking_budgets: Option<(u64, u64)>,
    /// The vendor rejects thinking after anything before it has changed.
    pub bound_thinking: bool,
    /// The vendor rejects tool calls without their signature.
    pub signed_calls: bool,
    /// The vendor's prompt caching.
    pub caching: Caching,
    /// The support for tools over Chat Completions.
    pub chat_tools: ChatTools,
    /// The URL of the figures.
    pub source: String,
    /// The date when they were read, as `2026-11-20`.
    pub date: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PriceTier {
    /// The prompt size in tokens above which these prices apply.
    pub(crate) above: u64,
    pub(crate) prices: Prices,
}

/// The way to request a model's thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingStyle {
    /// The model does not think.
    None,
    /// Unknown: thinking parameters are sent only at the user's request, with usual efforts unless a table lists others.
    #[default]
    OnRequest,
    /// A budget in tokens.
    Budget,
    /// Anthropic: the model decides how much; off by default.
    Adaptive,
    /// Anthropic: the model decides how much; on by default, and can be disabled.
    Default,
    /// The model always thinks; an effort sets how much.
    Always,
    /// An effort sets how much; `none` disables it where the model supports that word.
    Effort,
}

/// The vendors' names for the amount of thinking, ascending.
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

/// A vendor's prompt caching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caching {
    /// The vendor caches nothing.
    None,
    /// Automatic or unknown; no parameter is sent.
    #[default]
    Automatic,
    /// Breakpoints in the request, or the vendor's default without breakpoints.
    Breakpoints,
}

/// The support for tools over Chat Completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTools {
    /// Tools are supported.
    #[default]
    Yes,
    /// Tools are supported only without thinking.
    WithoutThinking,
    /// Tools are supported only over the Responses API.
    No,
}

/// The prices of the table, which depend on the size of the prompt and not on the model that answers.
impl PriceList for ModelSpec {
    fn cost(&self, _: &str, usage: &Usage) -> Option<Cost> {
        ModelSpec::cost(self, usage)
    }
}

impl ModelSpec {
    /// Returns the prices for a prompt of `context` tokens; `None` when unknown.
    pub fn prices(&self, context: u64) -> Option<Prices> {
        self.prices.iter().rev().find(|tier| tier.above == 0 || context > tier.above).map(|tier| tier.prices)
    }

    /// Returns the cost of a request; `None` when unknown.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.prices(usage.context()).map(|prices| prices.cost(usage))
    }

    /// Returns the maximum tokens of a request; `None` when neither an entry of the model nor one of a pattern states
    /// the context window.
    pub fn request_limit(&self) -> Option<u64> {
        self.knows_window.then_some(self.context_window.min(self.max_input))
    }

    /// Clamps an output limit to the model's known maximum.
    pub(crate) fn output_limit(&self, wanted: u64) -> u64 {
        wanted.clamp(1, if self.known { self.max_output.max(1) } else { u64::MAX })
    }

    /// Maps `level` to the model's smallest effort that is not below it, or else to its largest; `None` when it has no
    /// efforts.
    ///
    /// [`ThinkingLevel::Off`] maps to [`Effort::None`], or to `None` where the model does not support it: a model that
    /// cannot stop thinking uses its vendor's default, not its minimum. For the minimum, use
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

/// The default thinking budget of a level in tokens; `None` for [`ThinkingLevel::Off`].
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

/// Returns whether both names mean the same model. Vendors answer with a dated name when an alias is requested.
pub(crate) fn same_model(a: &str, b: &str) -> bool {
    a == b || undated(a) == undated(b)
}

/// Removes the date from names such as `claude-haiku-4-5-20251001` and `gpt-4o-2024-08-06`, and everything after it.
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
    fn dates_are_distinguished_from_other_numbers() {
        assert!(same_model("gpt-4o", "gpt-4o-2024-08-06") && !same_model("gpt-4o", "gpt-4o-mini"));
        assert_eq!(undated("claude-haiku-4-5-20251001"), "claude-haiku-4-5");
        assert_eq!(undated("anthropic.claude-haiku-4-5-20251001-v1:0"), "anthropic.claude-haiku-4-5");
        assert_eq!(undated("claude-haiku-4-5@20251001"), "claude-haiku-4-5");
        assert_eq!(undated("devstral-2512"), "devstral-2512");
        assert_eq!(undated("größe-é-2024-08-0"), "größe-é-2024-08-0");
    }

    #[test]
    fn long_prompts_have_their_own_prices() {
        let haiku = ModelTable::builtin().find("anthropic", "claude-haiku-5-5");
        assert_eq!(haiku.prices(100_000).unwrap().input, 0.1);
        assert_eq!(haiku.prices(100_001).unwrap().input, 0.5);
        let usage = Usage { input: 1_000, output: 10, cache_read: 200_000, cache_write: 0 };
        assert!((haiku.cost(&usage).unwrap().cache_read - 0.01).abs() < 1e-9);
    }

    #[test]
    fn level_maps_to_the_nearest_effort_not_below_it() {
        let model = |efforts: &[Effort]| ModelSpec {
            efforts: efforts.to_vec(),
            ..ModelSpec::clone(&ModelTable::default().find("", ""))
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
    fn off_maps_to_none_only_where_supported() {
        let of = |provider: &str, id: &str| ModelTable::builtin().find(provider, id).effort(ThinkingLevel::Off);
        assert_eq!(of("openai-chat", "gpt-6-sol"), Some(Effort::None));
        assert_eq!(of("openai-chat", "gpt-5"), None);
        assert_eq!(of("anthropic", "claude-opus-5-5"), None);
    }
}
