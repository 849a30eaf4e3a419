//! The model table: what each model can do and what it costs.
//!
//! Data, not code: `models.toml` beside this file, with its sources and dates, and a second file of the user's in the
//! same form that adds to it and overrides it. A model that no file names gets cautious defaults and no prices, so that
//! a new model works on the day it appears.

use pinion_agent::{Cost, Prices, ThinkingLevel, Usage};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const BUILTIN: &str = include_str!("models.toml");

/// Every known model, by provider.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    /// Names that end in `*` stand for every model that begins so.
    models: BTreeMap<String, BTreeMap<String, Arc<Model>>>,
}

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
    prices: Vec<PriceTier>,
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
    /// The vendor refuses thinking that comes back after anything before it has changed.
    pub bound_thinking: bool,
    /// Tools over Chat Completions.
    pub chat_tools: ChatTools,
    /// Where the figures are from.
    pub source: String,
    /// When they were read there, as `2026-11-20`.
    pub date: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct PriceTier {
    /// Holds for prompts of more than this many tokens.
    above: u64,
    prices: Prices,
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
    /// Anthropic: a number of tokens.
    Budget,
    /// Anthropic: it decides how much; off when nothing is said.
    Adaptive,
    /// Anthropic: it decides how much; on when nothing is said, and can be turned off.
    Default,
    /// It always thinks; an effort says how much.
    Always,
    /// An effort says how much.
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

/// A model table could not be read.
#[derive(Debug, thiserror::Error)]
#[error("malformed model table")]
pub struct ModelTableError(#[from] toml::de::Error);

impl ModelTable {
    /// The table that comes with this crate. Read once, when it is first asked for.
    pub fn builtin() -> Arc<Self> {
        static TABLE: LazyLock<Arc<ModelTable>> =
            LazyLock::new(|| Arc::new(ModelTable::read(BUILTIN).unwrap_or_default()));
        TABLE.clone()
    }

    /// The table in `text`, which has the form of `models.toml`.
    ///
    /// # Errors
    /// The text is not TOML, or not of that form; the source says where.
    pub fn read(text: &str) -> Result<Self, ModelTableError> {
        let file: BTreeMap<String, RawProvider> = toml::from_str(text)?;
        let models = file.into_iter().map(|(provider, raw)| {
            let models = raw.models.iter().map(|model| (model.id.clone(), Arc::new(model.resolve(&provider, &raw))));
            let models = models.collect();
            (provider, models)
        });
        Ok(Self { models: models.collect() })
    }

    /// This table with `other`'s models added; where both name one, `other`'s holds.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut models = self.models.clone();
        for (provider, more) in &other.models {
            models.entry(provider.clone()).or_default().extend(more.clone());
        }
        Self { models }
    }

    /// The models that are named, by provider and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values().flat_map(BTreeMap::values).filter(|model| model.known)
    }

    /// What is known of a model: under its own name, under its name without a date, under a pattern, or nothing.
    pub fn find(&self, provider: &str, id: &str) -> Arc<Model> {
        let models = self.models.get(provider);
        let named = |id: &str| models.and_then(|models| models.get(id)).filter(|model| model.known);
        if let Some(model) = named(id).or_else(|| named(undated(id))) {
            return model.clone();
        }
        let patterns = models.into_iter().flatten().filter(|(pattern, model)| !model.known && matches(pattern, id));
        let fallback = RawModel::default();
        match patterns.max_by_key(|(pattern, _)| pattern.len()) {
            Some((_, model)) => Arc::new(Model { id: id.to_owned(), ..Model::clone(model) }),
            None => Arc::new(RawModel { id: format!("{id}*"), ..fallback }.resolve(provider, &RawProvider::default())),
        }
    }
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
    /// For [`ThinkingLevel::Off`] that is its least.
    pub fn effort(&self, level: ThinkingLevel) -> Option<Effort> {
        let wanted = match level {
            ThinkingLevel::Off => Effort::None,
            ThinkingLevel::Minimal => Effort::Minimal,
            ThinkingLevel::Low => Effort::Low,
            ThinkingLevel::Medium => Effort::Medium,
            ThinkingLevel::High => Effort::High,
            ThinkingLevel::Xhigh => Effort::Xhigh,
        };
        self.efforts.iter().find(|effort| **effort >= wanted).or(self.efforts.last()).copied()
    }
}

/// Do both names mean the same model? Vendors answer with a dated name when asked by an alias.
pub(crate) fn same_model(a: &str, b: &str) -> bool {
    a == b || undated(a) == undated(b)
}

/// `claude-haiku-4-5-20251001` and `gpt-4o-2024-08-06` without their dates.
fn undated(id: &str) -> &str {
    let parts: Vec<(usize, &str)> = id.match_indices(['-', '@']).collect();
    let is_date = |at: usize| {
        let date = &id[at + 1..];
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        digits == 8
            && (date.len() == 8 || (date.len() == 10 && date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-'))
    };
    parts.iter().find(|(at, _)| is_date(*at)).map_or(id, |(at, _)| &id[..*at])
}

fn matches(pattern: &str, id: &str) -> bool {
    pattern.strip_suffix('*').is_some_and(|prefix| id.starts_with(prefix))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawProvider {
    #[serde(default)]
    source: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    models: Vec<RawModel>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawModel {
    id: String,
    context_window: Option<u64>,
    max_input: Option<u64>,
    max_output: Option<u64>,
    prices: Option<RawPrices>,
    long_prompts: Option<RawLongPrompts>,
    images: Option<bool>,
    parallel_tools: Option<bool>,
    forced_tools: Option<bool>,
    temperature: Option<bool>,
    #[serde(default)]
    thinking: ThinkingStyle,
    #[serde(default)]
    efforts: Vec<Effort>,
    #[serde(default)]
    bound_thinking: bool,
    #[serde(default)]
    chat_tools: ChatTools,
    source: Option<String>,
    date: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPrices {
    input: f64,
    output: f64,
    /// As fresh input, when nothing is said.
    cache_read: Option<f64>,
    /// As fresh input, when nothing is said.
    cache_write: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawLongPrompts {
    above: u64,
    prices: RawPrices,
}

impl RawModel {
    fn resolve(&self, provider: &str, of: &RawProvider) -> Model {
        let context_window = self.context_window.unwrap_or(128_000);
        let tier = |above, prices: RawPrices| PriceTier { above, prices: prices.resolve() };
        let prices = self.prices.map(|prices| tier(0, prices));
        let long = self.long_prompts.map(|long| tier(long.above, long.prices));
        Model {
            provider: provider.to_owned(),
            id: self.id.trim_end_matches('*').to_owned(),
            known: !self.id.ends_with('*'),
            context_window,
            max_input: self.max_input.unwrap_or(context_window),
            max_output: self.max_output.unwrap_or(8_192),
            prices: prices.into_iter().chain(long).collect(),
            images: self.images.unwrap_or(true),
            parallel_tools: self.parallel_tools.unwrap_or(true),
            forced_tools: self.forced_tools.unwrap_or(true),
            temperature: self.temperature.unwrap_or(true),
            thinking: self.thinking,
            efforts: self.efforts.clone(),
            bound_thinking: self.bound_thinking,
            chat_tools: self.chat_tools,
            source: self.source.clone().unwrap_or_else(|| of.source.clone()),
            date: self.date.clone().unwrap_or_else(|| of.date.clone()),
        }
    }
}

impl RawPrices {
    fn resolve(self) -> Prices {
        Prices {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read.unwrap_or(self.input),
            cache_write: self.cache_write.unwrap_or(self.input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_comes_with_this_crate_is_sound() {
        let table = ModelTable::read(BUILTIN).unwrap();
        assert!(table.iter().count() > 40);
        for model in table.iter() {
            assert!(model.source.starts_with("https://"), "{} has no source", model.id);
            assert!(model.date.parse::<jiff::civil::Date>().is_ok(), "{} has no date", model.id);
            assert!(
                model.max_output <= model.context_window && model.max_input <= model.context_window,
                "{}",
                model.id
            );
            assert!(model.efforts.is_sorted(), "{}", model.id);
            assert!(model.prices.iter().all(|tier| tier.prices.input <= tier.prices.output), "{}", model.id);
        }
    }

    #[test]
    fn a_model_is_found_under_its_dated_name_too() {
        let table = ModelTable::builtin();
        assert_eq!(table.find("anthropic", "claude-haiku-4-5-20251001"), table.find("anthropic", "claude-haiku-4-5"));
        assert_eq!(table.find("openai-chat", "gpt-4o-2024-08-06"), table.find("openai-chat", "gpt-4o"));
        assert!(table.find("openai-chat", "gpt-4o").known);
        assert!(same_model("gpt-4o", "gpt-4o-2024-08-06") && !same_model("gpt-4o", "gpt-4o-mini"));
        assert_eq!(undated("devstral-2512"), "devstral-2512");
    }

    #[test]
    fn an_unknown_model_gets_cautious_defaults_and_no_price() {
        let table = ModelTable::builtin();
        let unknown = table.find("openai-chat", "mock");
        assert_eq!((unknown.id.as_str(), unknown.known, unknown.prices(1)), ("mock", false, None));
        assert_eq!((unknown.context_window, unknown.thinking), (128_000, ThinkingStyle::OnRequest));
        let newer = table.find("anthropic", "claude-opus-9");
        assert_eq!((newer.id.as_str(), newer.known, newer.thinking), ("claude-opus-9", false, ThinkingStyle::Always));
        assert_eq!(table.find("nobody", "x").provider, "nobody");
    }

    #[test]
    fn a_second_table_adds_and_overrides() {
        let user = "[local]\n[[local.models]]\nid = 'qwen'\ncontext-window = 32_768\n\
                    [anthropic]\n[[anthropic.models]]\nid = 'claude-opus-5-5'\nprices = { input = 1, output = 2 }\n";
        let table = ModelTable::builtin().with(&ModelTable::read(user).unwrap());
        assert_eq!(table.find("local", "qwen").context_window, 32_768);
        let prices = table.find("anthropic", "claude-opus-5-5").prices(0).unwrap();
        assert_eq!((prices.input, prices.cache_read), (1.0, 1.0));
        assert!(table.find("anthropic", "claude-haiku-4-5").prices(0).is_some());
    }

    #[test]
    fn a_malformed_table_says_where() {
        for text in ["[[", "[x]\nmodels = 3", "[x]\n[[x.models]]\nid = 'a'\nprise = 3\n"] {
            let error = ModelTable::read(text).unwrap_err();
            assert!(std::error::Error::source(&error).unwrap().to_string().contains("line"), "{error:?}");
        }
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
        assert_eq!(claude.effort(ThinkingLevel::Off), Some(Effort::Low));
        assert_eq!(claude.effort(ThinkingLevel::Minimal), Some(Effort::Low));
        assert_eq!(claude.effort(ThinkingLevel::Xhigh), Some(Effort::Max));
        let gpt = model(&[Effort::Minimal, Effort::Low, Effort::Medium, Effort::High]);
        assert_eq!(gpt.effort(ThinkingLevel::Off), Some(Effort::Minimal));
        assert_eq!(gpt.effort(ThinkingLevel::Xhigh), Some(Effort::High));
        assert_eq!(model(&[]).effort(ThinkingLevel::High), None);
    }
}
