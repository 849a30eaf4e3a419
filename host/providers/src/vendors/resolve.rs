//! Resolves the names that users give to vendors and models.

use super::custom::CustomProvider;
use super::error::RegistryError;
use super::info::ProviderInfo;
use super::table::PROVIDERS;
use crate::models::ModelTable;

/// The providers that names refer to: [`PROVIDERS`], and those that the user defines.
#[derive(Debug, Clone)]
pub struct Registry {
    infos: Vec<&'static ProviderInfo>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { infos: PROVIDERS.iter().collect() }
    }
}

/// Finds a provider of [`PROVIDERS`] by name.
///
/// # Errors
/// [`RegistryError::UnknownProvider`].
pub fn provider(name: &str) -> Result<&'static ProviderInfo, RegistryError> {
    Registry::default().provider(name)
}

/// Finds the provider and the model that the user means among [`PROVIDERS`], as [`Registry::resolve`] does.
///
/// # Errors
/// The same as for [`Registry::resolve`].
pub fn resolve(
    provider_name: Option<&str>,
    model: &str,
    models: &ModelTable,
) -> Result<(&'static ProviderInfo, String), RegistryError> {
    Registry::default().resolve(provider_name, model, models)
}

impl Registry {
    /// Adds a provider, which cannot replace one of [`PROVIDERS`].
    ///
    /// # Errors
    /// Its name is taken or unusable.
    pub fn add(&mut self, custom: CustomProvider) -> Result<(), RegistryError> {
        let is_taken =
            self.infos.iter().any(|info| info.name == custom.name || info.other_names.contains(&&*custom.name));
        let is_usable = !custom.name.is_empty() && !custom.name.contains(|c: char| c == '/' || c.is_whitespace());
        if is_taken || !is_usable {
            return Err(RegistryError::CustomName { name: custom.name });
        }
        self.infos.push(custom.define()?);
        Ok(())
    }

    /// Returns all providers, in the order that a key selects one.
    pub fn iter(&self) -> impl Iterator<Item = &'static ProviderInfo> {
        self.infos.iter().copied()
    }

    /// Finds a provider by name.
    ///
    /// # Errors
    /// [`RegistryError::UnknownProvider`].
    pub fn provider(&self, name: &str) -> Result<&'static ProviderInfo, RegistryError> {
        self.named(name).or_else(|| self.nicknamed(name)).ok_or_else(|| RegistryError::UnknownProvider {
            name: name.to_owned(),
            similar: similar(name, self.iter().map(|info| info.name)),
            known: self.iter().map(|info| info.name).collect(),
        })
    }

    fn named(&self, name: &str) -> Option<&'static ProviderInfo> {
        self.iter().find(|info| info.name == name)
    }

    fn nicknamed(&self, name: &str) -> Option<&'static ProviderInfo> {
        self.iter().find(|info| info.other_names.contains(&name))
    }

    /// Finds the provider and the model that the user means. The provider may be named separately, in the model's name
    /// (`groq/openai/gpt-oss-120b`), or not at all (`claude-opus-5-5`). The model may be a short name (`opus`), and the
    /// name of a provider alone means its default model.
    ///
    /// # Errors
    /// [`RegistryError::UnknownProvider`]; [`RegistryError::UnknownModel`] when no provider is named and the model's
    /// name belongs to no provider; [`RegistryError::NeedsModel`] when the provider has no default.
    pub fn resolve(
        &self,
        provider_name: Option<&str>,
        model: &str,
        models: &ModelTable,
    ) -> Result<(&'static ProviderInfo, String), RegistryError> {
        let full = |info: &'static ProviderInfo, model: &str| {
            (info, info.alias(model).map_or_else(|| model.to_owned(), str::to_owned))
        };
        let (prefix, rest) = model.split_once('/').unwrap_or(("", model));
        if let Some(name) = provider_name {
            let info = self.provider(name)?;
            let repeats_provider = (prefix == info.name || info.other_names.contains(&prefix)) && !info.routes;
            return Ok(full(info, if repeats_provider { rest } else { model }));
        }
        if let Some(info) = self.named(prefix) {
            return Ok(full(info, rest));
        }
        let known = models.iter().find(|known| known.id == model).and_then(|known| self.named(&known.provider));
        if let Some(info) = known {
            return Ok((info, model.to_owned()));
        }
        if let Some(info) = self.nicknamed(prefix) {
            return Ok(full(info, rest));
        }
        if let Some(info) = self.named(model).or_else(|| self.nicknamed(model)) {
            let default = info.default_model.ok_or(RegistryError::NeedsModel { provider: info.name })?;
            return Ok((info, default.to_owned()));
        }
        let has_alias = |info: &&ProviderInfo| info.alias(model).is_some();
        let has_prefix = |info: &&ProviderInfo| info.prefixes.iter().any(|prefix| model.starts_with(prefix));
        let info = self.iter().find(has_alias).or_else(|| self.iter().find(has_prefix));
        info.map(|info| full(info, model)).ok_or_else(|| self.unknown(model, models))
    }

    fn unknown(&self, model: &str, models: &ModelTable) -> RegistryError {
        let aliases = self.iter().flat_map(|info| info.aliases.iter().map(|(alias, _)| *alias));
        let mut near = similar(model, models.iter().map(|known| known.id.as_str()).chain(aliases));
        if let Some((prefix, rest)) = model.split_once('/') {
            let names = self.iter().flat_map(|info| info.other_names.iter().copied().chain([info.name]));
            let providers = similar(prefix, names);
            near.splice(..0, providers.iter().map(|provider| format!("{provider}/{rest}")));
        }
        let known = self.iter().map(|info| info.name).collect();
        RegistryError::UnknownModel { model: model.to_owned(), similar: near, known }
    }

    /// Returns the known models of a provider that an unknown one may be a misspelling of; an empty list for a known
    /// model.
    pub fn similar_models(info: &ProviderInfo, model: &str, models: &ModelTable) -> Vec<String> {
        if models.find(info.name, model).known {
            return Vec::new();
        }
        similar(model, models.iter().filter(|known| known.provider == info.name).map(|known| known.id.as_str()))
    }
}

/// Returns up to three of `names` that `name` may be a misspelling of, the nearest first.
fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let mut near: Vec<(usize, &str)> = names.map(|other| (distance(other), other)).collect();
    near.retain(|(distance, other)| *distance <= 1 + other.len() / 4);
    near.sort_unstable();
    near.dedup();
    near.iter().take(3).map(|(_, other)| (*other).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(provider: Option<&str>, model: &str) -> String {
        match resolve(provider, model, &ModelTable::builtin()) {
            Ok((info, model)) => format!("{} {model}", info.name),
            Err(error) => format!("{error}; {}", error.hint().unwrap_or_default()),
        }
    }

    #[test]
    fn model_name_determines_the_provider() {
        assert_eq!(resolved(None, "claude-opus-9"), "anthropic claude-opus-9");
        assert_eq!(resolved(None, "gpt-6-sol"), "openai-responses gpt-6-sol");
        assert_eq!(resolved(None, "o3"), "openai-responses o3");
        assert_eq!(resolved(None, "gpt-9"), "openai-responses gpt-9");
        assert_eq!(resolved(Some("openai-chat"), "gpt-6-sol"), "openai-chat gpt-6-sol");
        assert_eq!(resolved(None, "gemini-9-pro"), "gemini gemini-9-pro");
        assert_eq!(resolved(None, "grok-4.7"), "xai grok-4.7");
        assert_eq!(resolved(None, "llama-3.3-70b-versatile"), "groq llama-3.3-70b-versatile");
    }

    #[test]
    fn provider_may_precede_the_model() {
        assert_eq!(resolved(None, "groq/openai/gpt-oss-120b"), "groq openai/gpt-oss-120b");
        assert_eq!(resolved(None, "openrouter/anthropic/claude-x"), "openrouter anthropic/claude-x");
        assert_eq!(resolved(Some("anthropic"), "anthropic/claude-x"), "anthropic claude-x");
        assert_eq!(resolved(Some("openrouter"), "openrouter/auto"), "openrouter openrouter/auto");
        assert_eq!(resolved(Some("openai-chat"), "mock"), "openai-chat mock");
    }

    #[test]
    fn short_names_and_provider_names_alone_are_understood() {
        assert_eq!(resolved(None, "openai/gpt-5.5"), "openai-responses gpt-5.5");
        assert_eq!(resolved(Some("openai"), "openai/gpt-5.5"), "openai-responses gpt-5.5");
        assert_eq!(resolved(None, "openai/gpt-oss-120b"), "groq openai/gpt-oss-120b");
        assert_eq!(resolved(None, "sonnet"), "anthropic claude-sonnet-5-5");
        assert_eq!(resolved(None, "anthropic/opus"), "anthropic claude-opus-5-5");
        assert_eq!(resolved(Some("vertex"), "flash"), "vertex gemini-3.8-flash");
        assert_eq!(resolved(None, "gpt"), "openai-responses gpt-6.2-sol");
        assert_eq!(resolved(None, "gemini"), "gemini gemini-3.8-flash");
        assert_eq!(resolved(None, "anthropic"), "anthropic claude-sonnet-5-5");
        assert!(resolved(None, "azure").contains("`azure` has no default model"));
        assert!(resolved(None, "sonet").contains("did you mean `sonnet`"));
        assert!(resolved(None, "antropic/opus").contains("did you mean `anthropic/opus`"));
    }

    #[test]
    fn misspelled_model_of_a_known_provider_is_recognized() {
        let of = |model| Registry::similar_models(provider("anthropic").unwrap(), model, &ModelTable::builtin());
        assert_eq!(of("claude-sonet-5-5")[0], "claude-sonnet-5-5");
        assert!(of("claude-sonnet-5-5").is_empty() && of("something-else-entirely").is_empty());
    }

    #[test]
    fn unknown_names_are_reported_with_suggestions() {
        assert_eq!(resolved(Some("antropic"), "x"), "unknown provider `antropic`; did you mean `anthropic`?");
        assert!(resolved(Some("zzzzzzzzzzz"), "x").ends_with("`proxy`, `replay`"));
        assert!(resolved(None, "clade-opus-5-5").contains("did you mean `claude-opus-5-5`"));
        assert_eq!(
            resolved(None, "zzzzzzzzzzzzz"),
            "no provider is known for the model `zzzzzzzzzzzzz`; name it as `PROVIDER/MODEL`"
        );
        let named = resolved(None, "zzzzzzzzzzzzz/x");
        assert!(named.contains("no provider is named `zzzzzzzzzzzzz`; choose one of `anthropic`"), "{named}");
        assert!(resolved(None, "opnai/gpt-5.5").contains("did you mean `openai/gpt-5.5`"));
    }
}
