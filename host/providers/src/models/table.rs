//! The model table, built in and extended by the user.
//!
//! The built-in data is in `builtin/`, with sources and dates; a user's file in the same form overrides it field by
//! field. A model that no file lists gets conservative defaults and no prices, so that a new model works on the day it
//! appears.
//!
//! Several vendors may sell the same model: a provider can declare its models to be `like` another's, and a model (such
//! as a user's Azure deployment) to be `like` another of the same provider.

use super::model::{Caching, ChatTools, Effort, ModelSpec, PriceTier, ThinkingStyle, undated};
use pinion_protocol::Prices;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

/// The files in `builtin/`, merged by `build.rs`.
const BUILTIN: &str = include_str!(concat!(env!("OUT_DIR"), "/models.json"));

/// The limit on chained references between models, which stops cycles.
const MAX_REFERENCES: usize = 4;

/// All known models, by provider.
///
/// A run needs one or two providers of the built-in table, so each is parsed when it is first asked for.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    providers: BTreeMap<String, TableEntry>,
}

/// One provider of a table.
#[derive(Debug, Clone)]
struct TableEntry {
    own: Arc<LazyModels>,
    /// The named models, with their references to other models of the table resolved.
    resolved: OnceLock<BTreeMap<String, Arc<ModelSpec>>>,
}

impl TableEntry {
    fn new(own: Arc<LazyModels>) -> Self {
        Self { own, resolved: OnceLock::new() }
    }
}

impl From<ProviderModels> for TableEntry {
    fn from(models: ProviderModels) -> Self {
        Self::new(Arc::new(LazyModels { text: "", parsed: OnceLock::from(models) }))
    }
}

/// The entries of one provider, parsed from JSON when they are first used.
#[derive(Debug)]
struct LazyModels {
    text: &'static str,
    parsed: OnceLock<ProviderModels>,
}

impl LazyModels {
    fn get(&self) -> &ProviderModels {
        self.parsed.get_or_init(|| serde_json::from_str::<RawProvider>(self.text).map(Into::into).unwrap_or_default())
    }
}

/// A model table could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("malformed model table")]
pub struct ModelTableError(#[from] toml::de::Error);

impl ModelTableError {
    /// Returns the problem without its line, for a table that is not a separate file.
    pub fn problem(&self) -> &str {
        self.0.message()
    }
}

impl ModelTable {
    /// The built-in table.
    pub fn builtin() -> Arc<Self> {
        static TABLE: LazyLock<Arc<ModelTable>> = LazyLock::new(|| {
            let providers: BTreeMap<String, &'static RawValue> = serde_json::from_str(BUILTIN).unwrap_or_default();
            let entry = |text: &'static RawValue| {
                TableEntry::new(Arc::new(LazyModels { text: text.get(), parsed: OnceLock::new() }))
            };
            Arc::new(ModelTable { providers: providers.into_iter().map(|(name, text)| (name, entry(text))).collect() })
        });
        TABLE.clone()
    }

    /// Parses a table in the form of `builtin/README.md`.
    ///
    /// # Errors
    /// The text is not TOML, or not a table; the source names the line.
    pub fn read(text: &str) -> Result<Self, ModelTableError> {
        let file: BTreeMap<String, RawProvider> = toml::from_str(text)?;
        let entry = |(name, raw)| (name, TableEntry::from(ProviderModels::from(raw)));
        Ok(Self { providers: file.into_iter().map(entry).collect() })
    }

    /// Overlays `other` on this table, field by field.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let below = |(name, entry): (&String, &TableEntry)| (name.clone(), TableEntry::new(entry.own.clone()));
        let mut providers: BTreeMap<_, _> = self.providers.iter().map(below).collect();
        for (name, more) in &other.providers {
            let mut models = self.providers.get(name).map(|entry| entry.own.get().clone()).unwrap_or_default();
            models.add(more.own.get());
            providers.insert(name.clone(), TableEntry::from(models));
        }
        Self { providers }
    }

    /// The listed models, by provider and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ModelSpec>> {
        self.providers.keys().filter_map(|provider| self.named(provider)).flat_map(BTreeMap::values)
    }

    /// Finds a model by its name, by its name without a date, as another provider's model, or by a pattern; otherwise
    /// returns defaults.
    pub fn find(&self, provider: &str, id: &str) -> Arc<ModelSpec> {
        if let Some(model) = self.named(provider).and_then(|models| models.get(id).or(models.get(undated(id)))) {
            return model.clone();
        }
        let raw = self
            .raw(provider, id, MatchingEntries::Names, 0)
            .or_else(|| self.raw(provider, id, MatchingEntries::NamesAndPatterns, 0));
        let raw = raw.unwrap_or_else(|| RawModel { id: "*".to_owned(), ..RawModel::default() });
        Arc::new(ModelSpec { id: id.to_owned(), ..raw.resolve(provider) })
    }

    /// Returns the models of a provider that have a name, unlike patterns.
    fn named(&self, provider: &str) -> Option<&BTreeMap<String, Arc<ModelSpec>>> {
        let entry = self.providers.get(provider)?;
        Some(entry.resolved.get_or_init(|| {
            let names = entry.own.get().models.keys().filter(|id| !id.ends_with('*'));
            let models = names.filter_map(|id| Some((id.clone(), self.raw(provider, id, MatchingEntries::Names, 0)?)));
            models.map(|(id, raw)| (id.clone(), Arc::new(ModelSpec { id, ..raw.resolve(provider) }))).collect()
        }))
    }

    /// Returns the data about a model with its references resolved. The `id` ends in `*` when only a pattern matches.
    fn raw(&self, provider: &str, id: &str, entries: MatchingEntries, references: usize) -> Option<RawModel> {
        let own = self.providers.get(provider).filter(|_| references < MAX_REFERENCES)?.own.get();
        if let Some(model) = own.named(id) {
            let like = model.like.as_ref().filter(|like| **like != model.id);
            let base = like.and_then(|like| self.raw(provider, like, entries, references + 1));
            return Some(base.unwrap_or_default().overlaid(model));
        }
        let elsewhere = own.like.as_ref().and_then(|other| self.raw(other, own.strip(id), entries, references + 1));
        let elsewhere = elsewhere.map(|model| RawModel { caching: own.caching.or(model.caching), ..model });
        match entries {
            MatchingEntries::Names => elsewhere,
            // The longest pattern is the most specific.
            MatchingEntries::NamesAndPatterns => {
                own.pattern(id).into_iter().chain(elsewhere).rev().max_by_key(|model| model.id.len())
            }
        }
    }
}

/// The entries that may match a name.
#[derive(Clone, Copy)]
enum MatchingEntries {
    Names,
    NamesAndPatterns,
}

/// The entries of one provider.
#[derive(Debug, Clone, Default)]
struct ProviderModels {
    like: Option<String>,
    strip_prefixes: Vec<String>,
    strip_suffixes: Vec<String>,
    caching: Option<Caching>,
    /// Models by name; a name that ends in `*` matches every model with that prefix.
    models: BTreeMap<String, RawModel>,
}

impl From<RawProvider> for ProviderModels {
    fn from(raw: RawProvider) -> Self {
        let own = |model: RawModel| {
            let source = model.source.clone().or_else(|| raw.source.clone());
            let date = model.date.clone().or_else(|| raw.date.clone());
            (model.id.clone(), RawModel { source, date, caching: model.caching.or(raw.caching), ..model })
        };
        let models = raw.models.iter().cloned().map(own).collect();
        Self {
            like: raw.like,
            strip_prefixes: raw.strip_prefixes,
            strip_suffixes: raw.strip_suffixes,
            caching: raw.caching,
            models,
        }
    }
}

impl ProviderModels {
    fn add(&mut self, more: &Self) {
        self.like = more.like.clone().or(self.like.take());
        self.caching = more.caching.or(self.caching);
        self.strip_prefixes.extend(more.strip_prefixes.clone());
        self.strip_suffixes.extend(more.strip_suffixes.clone());
        for (id, model) in &more.models {
            let below = self.models.remove(id).unwrap_or_default();
            self.models.insert(id.clone(), below.overlaid(model));
        }
    }

    /// Finds a model by its name, its name without a date, or its name without one prefix, such as a region.
    fn named(&self, id: &str) -> Option<&RawModel> {
        let without = |prefix: &String| self.models.get(id.strip_prefix(prefix.as_str())?);
        let dated = self.models.get(id).or_else(|| self.models.get(undated(id)));
        dated.or_else(|| self.strip_prefixes.iter().find_map(without))
    }

    /// Converts a name to the other provider's name: without every prefix, in order, and without one suffix.
    fn strip<'a>(&self, id: &'a str) -> &'a str {
        let bare = self.strip_prefixes.iter().fold(id, |id, prefix| id.strip_prefix(prefix.as_str()).unwrap_or(id));
        self.strip_suffixes.iter().find_map(|suffix| bare.strip_suffix(suffix.as_str())).unwrap_or(bare)
    }

    /// Finds the longest matching pattern.
    fn pattern(&self, id: &str) -> Option<RawModel> {
        let fits = |pattern: &&String| pattern.strip_suffix('*').is_some_and(|prefix| id.starts_with(prefix));
        self.models.keys().filter(fits).max_by_key(|pattern| pattern.len()).map(|pattern| self.models[pattern].clone())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct RawProvider {
    source: Option<String>,
    date: Option<String>,
    like: Option<String>,
    strip_prefixes: Vec<String>,
    strip_suffixes: Vec<String>,
    caching: Option<Caching>,
    models: Vec<RawModel>,
}

/// The data about a model in a file; `None` where the file omits a field.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawModel {
    id: String,
    like: Option<String>,
    context_window: Option<u64>,
    max_input: Option<u64>,
    max_output: Option<u64>,
    prices: Option<RawPrices>,
    long_prompts: Option<RawLongPrompts>,
    images: Option<bool>,
    parallel_tools: Option<bool>,
    forced_tools: Option<bool>,
    temperature: Option<bool>,
    thinking: Option<ThinkingStyle>,
    efforts: Option<Vec<Effort>>,
    thinking_budgets: Option<RawBudgets>,
    bound_thinking: Option<bool>,
    signed_calls: Option<bool>,
    caching: Option<Caching>,
    chat_tools: Option<ChatTools>,
    source: Option<String>,
    date: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBudgets {
    min: u64,
    max: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPrices {
    input: f64,
    output: f64,
    /// Defaults to the price of fresh input.
    cache_read: Option<f64>,
    /// Defaults to the price of fresh input.
    cache_write: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawLongPrompts {
    above: u64,
    prices: RawPrices,
}

impl RawModel {
    /// Overlays `above` on this data. New prices replace those for all prompt sizes.
    fn overlaid(self, above: &Self) -> Self {
        let above = above.clone();
        Self {
            id: above.id,
            like: above.like.or(self.like),
            context_window: above.context_window.or(self.context_window),
            max_input: above.max_input.or(self.max_input.filter(|_| above.context_window.is_none())),
            max_output: above.max_output.or(self.max_output),
            long_prompts: above.long_prompts.or(self.long_prompts.filter(|_| above.prices.is_none())),
            prices: above.prices.or(self.prices),
            images: above.images.or(self.images),
            parallel_tools: above.parallel_tools.or(self.parallel_tools),
            forced_tools: above.forced_tools.or(self.forced_tools),
            temperature: above.temperature.or(self.temperature),
            thinking: above.thinking.or(self.thinking),
            efforts: above.efforts.or(self.efforts),
            thinking_budgets: above.thinking_budgets.or(self.thinking_budgets),
            bound_thinking: above.bound_thinking.or(self.bound_thinking),
            signed_calls: above.signed_calls.or(self.signed_calls),
            caching: above.caching.or(self.caching),
            chat_tools: above.chat_tools.or(self.chat_tools),
            source: above.source.or(self.source),
            date: above.date.or(self.date),
        }
    }

    fn resolve(&self, provider: &str) -> ModelSpec {
        let context_window = self.context_window.unwrap_or(128_000);
        let thinking = self.thinking.unwrap_or_default();
        let usual: &[Effort] = match thinking {
            ThinkingStyle::OnRequest => &[Effort::Low, Effort::Medium, Effort::High],
            _ => &[],
        };
        let tier = |above, prices: RawPrices| PriceTier { above, prices: prices.resolve() };
        let prices = self.prices.map(|prices| tier(0, prices));
        let long = self.long_prompts.map(|long| tier(long.above, long.prices));
        ModelSpec {
            provider: provider.to_owned(),
            id: self.id.clone(),
            known: !self.id.ends_with('*'),
            knows_window: self.context_window.is_some(),
            context_window,
            max_input: self.max_input.unwrap_or(context_window),
            max_output: self.max_output.unwrap_or(8_192),
            prices: prices.into_iter().chain(long).collect(),
            images: self.images.unwrap_or(true),
            parallel_tools: self.parallel_tools.unwrap_or(true),
            forced_tools: self.forced_tools.unwrap_or(true),
            temperature: self.temperature.unwrap_or(true),
            thinking,
            efforts: self.efforts.clone().unwrap_or_else(|| usual.to_vec()),
            thinking_budgets: self.thinking_budgets.map(|budgets| (budgets.min, budgets.max.max(budgets.min))),
            bound_thinking: self.bound_thinking.unwrap_or_default(),
            signed_calls: self.signed_calls.unwrap_or_default(),
            caching: self.caching.unwrap_or_default(),
            chat_tools: self.chat_tools.unwrap_or_default(),
            source: self.source.clone().unwrap_or_default(),
            date: self.date.clone().unwrap_or_default(),
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
    fn builtin_table_is_valid() {
        // A provider that cannot be parsed would be empty.
        serde_json::from_str::<BTreeMap<String, RawProvider>>(BUILTIN).unwrap();
        let table = ModelTable::builtin();
        assert!(table.iter().count() > 50);
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
            let needs_budgets = model.thinking == ThinkingStyle::Budget && model.provider == "gemini";
            assert!(!needs_budgets || model.thinking_budgets.is_some(), "{}", model.id);
        }
    }

    #[test]
    fn dated_name_finds_the_model() {
        let table = ModelTable::builtin();
        assert_eq!(table.find("anthropic", "claude-haiku-4-5-20251001"), table.find("anthropic", "claude-haiku-4-5"));
        assert_eq!(table.find("openai-responses", "gpt-4o-2024-08-06"), table.find("openai-responses", "gpt-4o"));
        assert!(table.find("openai-chat", "gpt-4o-2024-08-06").known && table.find("azure", "gpt-4o").known);
        let bedrock = table.find("bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0");
        assert!(bedrock.known && bedrock.caching == Caching::Breakpoints && bedrock.thinking == ThinkingStyle::Budget);
        let newer = table.find("bedrock", "global.anthropic.claude-opus-9");
        assert_eq!((newer.known, newer.thinking), (false, ThinkingStyle::Always));
        assert_eq!(table.find("bedrock", "meta.llama4").caching, Caching::None);
        assert!(table.find("bedrock", "us.amazon.nova-2-lite-v1:0").known);
        assert!(table.find("vertex", "gemini-3.8-flash").signed_calls);
    }

    #[test]
    fn unknown_model_gets_conservative_defaults_and_no_price() {
        let table = ModelTable::builtin();
        let unknown = table.find("openai-chat", "mock");
        assert_eq!((unknown.id.as_str(), unknown.known, unknown.prices(1)), ("mock", false, None));
        assert_eq!((unknown.context_window, unknown.thinking), (128_000, ThinkingStyle::OnRequest));
        for (provider, model) in [("box", "q"), ("groq", "new"), ("openai-chat", "mock"), ("azure", "deployment")] {
            let efforts = &table.find(provider, model).efforts;
            assert_eq!(efforts[..], [Effort::Low, Effort::Medium, Effort::High], "{provider}/{model}");
        }
        assert!(table.find("ollama", "qwen3").efforts.is_empty() && table.find("groq", "qwen/x").efforts.is_empty());
        let newer = table.find("anthropic", "claude-opus-9");
        assert_eq!((newer.id.as_str(), newer.known, newer.thinking), ("claude-opus-9", false, ThinkingStyle::Always));
        assert_eq!(table.find("nobody", "x").provider, "nobody");
    }

    #[test]
    fn second_table_overrides_field_by_field() {
        let user = "[local]\n[[local.models]]\nid = 'qwen'\ncontext-window = 32_768\n\
                    [anthropic]\n[[anthropic.models]]\nid = 'claude-opus-5-5'\nprices = { input = 1, output = 2 }\n";
        let table = ModelTable::builtin().with(&ModelTable::read(user).unwrap());
        assert_eq!(table.find("local", "qwen").context_window, 32_768);
        let opus = table.find("anthropic", "claude-opus-5-5");
        let prices = opus.prices(0).unwrap();
        assert_eq!((prices.input, prices.cache_read), (1.0, 1.0));
        assert_eq!((opus.context_window, opus.thinking), (1_000_000, ThinkingStyle::Always));
        assert!(table.find("anthropic", "claude-haiku-4-5").prices(0).is_some());
    }

    #[test]
    fn providers_and_models_can_be_like_others() {
        let text = "[a]\n[[a.models]]\nid = 'one'\ncontext-window = 7_000\n[[a.models]]\nid = 'big-*'\nmax-output = 9\n\
                    [b]\nlike = 'a'\nstrip-prefixes = ['us.', 'x.']\nstrip-suffixes = ['-v1']\n\
                    [[b.models]]\nid = 'mine'\nlike = 'us.x.one-v1'\nimages = false\n\
                    [c]\nlike = 'c'\n[[c.models]]\nid = 'p'\nlike = 'q'\n[[c.models]]\nid = 'q'\nlike = 'p'\n";
        let table = ModelTable::read(text).unwrap();
        let one = table.find("b", "us.x.one-v1");
        assert_eq!((one.id.as_str(), one.provider.as_str(), one.known), ("us.x.one-v1", "b", true));
        assert_eq!(one.context_window, 7_000);
        let mine = table.find("b", "mine");
        assert_eq!((mine.id.as_str(), mine.context_window, mine.images), ("mine", 7_000, false));
        let big = table.find("b", "x.big-2");
        assert_eq!((big.id.as_str(), big.max_output, big.known), ("x.big-2", 9, false));
        assert!(table.find("c", "p").known && !table.find("c", "r").known);
    }

    #[test]
    fn malformed_table_is_reported_with_its_line() {
        for text in ["[[", "[x]\nmodels = 3", "[x]\n[[x.models]]\nid = 'a'\nprise = 3\n"] {
            let error = ModelTable::read(text).unwrap_err();
            assert!(std::error::Error::source(&error).unwrap().to_string().contains("line"), "{error:?}");
        }
    }

    #[test]
    fn request_limit_follows_patterns_and_the_limit_on_input() {
        let table = ModelTable::builtin();
        let limit = |provider, id| table.find(provider, id).request_limit();
        assert_eq!(limit("anthropic", "claude-of-tomorrow-9"), Some(200_000));
        assert_eq!(limit("openai-responses", "gpt-99"), Some(272_000));
        assert_eq!(limit("openai-chat", "my-own-model"), None);
        assert_eq!(limit("ollama", "qwen3"), None);
        let own = ModelTable::read("[[ollama.models]]\nid = \"*\"\ncontext-window = 32_000\n").unwrap();
        assert_eq!(table.with(&own).find("ollama", "qwen3").request_limit(), Some(32_000));
    }
}
