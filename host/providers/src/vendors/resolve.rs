//! Resolves the names that users give to vendors and models.

use super::error::RegistryError;
use super::info::ProviderInfo;
use super::table::PROVIDERS;
use crate::models::ModelTable;

/// Finds a provider by name.
///
/// # Errors
/// [`RegistryError::UnknownProvider`].
pub fn provider(name: &str) -> Result<&'static ProviderInfo, RegistryError> {
    PROVIDERS.iter().find(|info| info.name == name).ok_or_else(|| RegistryError::UnknownProvider {
        name: name.to_owned(),
        similar: similar(name, PROVIDERS.iter().map(|info| info.name)),
    })
}

/// Finds the provider and the model that the user means. The provider may be named separately, in the model's name
/// (`groq/openai/gpt-oss-120b`), or not at all (`claude-opus-5-5`).
///
/// # Errors
/// [`RegistryError::UnknownProvider`], or [`RegistryError::UnknownModel`] when no provider is named and the model's name
/// belongs to none.
pub fn resolve(
    provider_name: Option<&str>,
    model: &str,
    models: &ModelTable,
) -> Result<(&'static ProviderInfo, String), RegistryError> {
    let (prefix, rest) = model.split_once('/').unwrap_or(("", model));
    if let Some(name) = provider_name {
        let info = provider(name)?;
        let repeats_provider = prefix == info.name && !info.routes;
        return Ok((info, if repeats_provider { rest } else { model }.to_owned()));
    }
    if let Some(info) = PROVIDERS.iter().find(|info| info.name == prefix) {
        return Ok((info, rest.to_owned()));
    }
    if let Some(known) = models.iter().find(|known| known.id == model)
        && let Some(info) = PROVIDERS.iter().find(|info| info.name == known.provider)
    {
        return Ok((info, model.to_owned()));
    }
    let has_prefix = |info: &&ProviderInfo| info.prefixes.iter().any(|prefix| model.starts_with(prefix));
    PROVIDERS.iter().find(has_prefix).map(|info| (info, model.to_owned())).ok_or_else(|| RegistryError::UnknownModel {
        model: model.to_owned(),
        similar: similar(model, models.iter().map(|known| known.id.as_str())),
    })
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
    fn unknown_names_are_reported_with_suggestions() {
        assert_eq!(resolved(Some("antropic"), "x"), "unknown provider `antropic`; did you mean `anthropic`?");
        assert!(resolved(Some("zzzzzzzzzzz"), "x").ends_with("`proxy`, `replay`"));
        assert!(resolved(None, "clade-opus-5-5").contains("did you mean `claude-opus-5-5`"));
        assert_eq!(
            resolved(None, "zzzzzzzzzzzzz"),
            "no provider is known for the model `zzzzzzzzzzzzz`; name it as `PROVIDER/MODEL`"
        );
    }
}
