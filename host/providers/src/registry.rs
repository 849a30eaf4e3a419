//! Which providers there are, and which one a model's name means.
//!
//! One entry a vendor, all of it data. A vendor that speaks Chat Completions is a few lines here: a name, a base URL, the
//! variable of its key, the beginnings of its models' names, and [`Quirks`] where it departs from OpenAI. `replay` is
//! known here, but built from a script: see [`Replay`](crate::Replay).

use crate::conversation::IdRule;
use crate::http::{HttpSettings, Transport};
use crate::model_table::ModelTable;
use crate::openai_chat::{Quirks, ThinkingParam};
use crate::provider::{Format, HttpProvider};
use pinion_agent::Provider;
use reqwest::Url;
use reqwest::header::HeaderName;
use secrecy::SecretString;
use std::sync::Arc;

/// What is known of a provider before any of it is built.
#[derive(Debug)]
pub struct ProviderInfo {
    /// The name by which users know it.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    /// The environment variable that holds its key; none when it needs none. The binary reads it.
    pub key_variable: Option<&'static str>,
    /// Where it is, unless the user says otherwise. Empty for `replay`.
    pub base_url: &'static str,
    /// Models whose names begin so are meant for it, when the user names no provider.
    pub prefixes: &'static [&'static str],
    /// Its models' names hold other vendors' names, so that a slash in one says nothing.
    routes: bool,
    format: Option<Format>,
}

/// Every provider, in the order in which they are listed.
pub const PROVIDERS: &[ProviderInfo] = &[
    ProviderInfo {
        name: "anthropic",
        label: "Anthropic Messages",
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url: "https://api.anthropic.com/v1",
        prefixes: &["claude"],
        routes: false,
        format: Some(Format::Anthropic),
    },
    ProviderInfo {
        name: "openai-chat",
        label: "OpenAI Chat Completions, and what is compatible",
        key_variable: Some("OPENAI_API_KEY"),
        base_url: "https://api.openai.com/v1",
        prefixes: &["gpt", "chatgpt", "o1", "o3", "o4"],
        routes: false,
        format: Some(Format::OpenAiChat(Quirks::OPENAI)),
    },
    // https://docs.x.ai/developers/grok-4-7: a session's requests meet one cache by this header.
    ProviderInfo {
        name: "xai",
        label: "xAI",
        key_variable: Some("XAI_API_KEY"),
        base_url: "https://api.x.ai/v1",
        prefixes: &["grok"],
        routes: false,
        format: Some(Format::OpenAiChat(Quirks { session_header: Some("x-grok-conv-id"), ..COMPATIBLE })),
    },
    // https://docs.mistral.ai/api: unknown fields are refused, ids of calls have nine letters.
    ProviderInfo {
        name: "mistral",
        label: "Mistral",
        key_variable: Some("MISTRAL_API_KEY"),
        base_url: "https://api.mistral.ai/v1",
        prefixes: &["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral"],
        routes: false,
        format: Some(Format::OpenAiChat(Quirks {
            stream_options: false,
            ids: IdRule::NineLetters,
            images_in_results: true,
            ..Quirks::PLAIN
        })),
    },
    // https://console.groq.com/docs/openai
    ProviderInfo {
        name: "groq",
        label: "Groq",
        key_variable: Some("GROQ_API_KEY"),
        base_url: "https://api.groq.com/openai/v1",
        prefixes: &[],
        routes: true,
        format: Some(Format::OpenAiChat(COMPATIBLE)),
    },
    // https://api-docs.deepseek.com/guides/thinking_mode: thinking is on unless turned off, and goes back with calls.
    ProviderInfo {
        name: "deepseek",
        label: "DeepSeek",
        key_variable: Some("DEEPSEEK_API_KEY"),
        base_url: "https://api.deepseek.com/v1",
        prefixes: &["deepseek"],
        routes: false,
        format: Some(Format::OpenAiChat(Quirks {
            thinking: ThinkingParam::Switch,
            thinking_back: Some("reasoning_content"),
            ..Quirks::PLAIN
        })),
    },
    // https://openrouter.ai/docs/use-cases/reasoning-tokens
    ProviderInfo {
        name: "openrouter",
        label: "OpenRouter",
        key_variable: Some("OPENROUTER_API_KEY"),
        base_url: "https://openrouter.ai/api/v1",
        prefixes: &[],
        routes: true,
        format: Some(Format::OpenAiChat(Quirks {
            thinking: ThinkingParam::Object,
            thinking_back: Some("reasoning"),
            ..Quirks::PLAIN
        })),
    },
    // https://docs.ollama.com/api/openai-compatibility
    ProviderInfo {
        name: "ollama",
        label: "Ollama on this machine, as far as it is compatible with OpenAI",
        key_variable: None,
        base_url: "http://127.0.0.1:11434/v1",
        prefixes: &[],
        routes: true,
        format: Some(Format::OpenAiChat(Quirks::PLAIN)),
    },
    ProviderInfo {
        name: "replay",
        label: "A scripted model, from a file",
        key_variable: None,
        base_url: "",
        prefixes: &[],
        routes: false,
        format: None,
    },
];

const COMPATIBLE: Quirks = Quirks { max_tokens: "max_completion_tokens", ..Quirks::PLAIN };

/// What the user says of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    /// Its name in [`PROVIDERS`].
    pub name: String,
    /// Where it is, instead of its usual place. With or without `/v1`: a URL without a path gets one. May have a query.
    pub base_url: Option<String>,
    /// Its key. Servers at a base URL of the user's may do without.
    pub api_key: Option<SecretString>,
    /// Headers for every request, besides or instead of its own. Their values are kept as secret as the key.
    pub headers: Vec<(String, SecretString)>,
    /// Time limits and proxy.
    pub http: HttpSettings,
}

/// A provider or model could not be found, or not be built.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is no such provider.
    #[error("no provider `{name}`; {hint}")]
    UnknownProvider {
        /// The name asked for.
        name: String,
        /// The nearest names that there are.
        hint: String,
    },
    /// The model's name does not tell its provider.
    #[error("no provider is known for the model `{model}`; {hint}")]
    UnknownModel {
        /// The name asked for.
        model: String,
        /// What to do.
        hint: String,
    },
    /// The base URL makes no sense.
    #[error("`{url}` cannot be the base URL of `{provider}`: {reason}")]
    BaseUrl {
        /// The provider.
        provider: &'static str,
        /// The URL, without a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header's name makes no sense.
    #[error("`{name}` cannot be the name of a header")]
    Header {
        /// The name.
        name: String,
    },
    /// The provider is built from a script, not from a configuration.
    #[error("the provider `replay` needs a script")]
    NeedsScript,
}

/// The provider of this name.
///
/// # Errors
/// [`RegistryError::UnknownProvider`].
pub fn provider(name: &str) -> Result<&'static ProviderInfo, RegistryError> {
    PROVIDERS.iter().find(|info| info.name == name).ok_or_else(|| RegistryError::UnknownProvider {
        name: name.to_owned(),
        hint: suggest(name, PROVIDERS.iter().map(|info| info.name)).unwrap_or_else(|| {
            let all: Vec<&str> = PROVIDERS.iter().map(|info| info.name).collect();
            format!("there are `{}`", all.join("`, `"))
        }),
    })
}

/// What the user means by a model, with or without a provider: `claude-opus-5-5`, `groq/openai/gpt-oss-120b`.
///
/// # Errors
/// There is no such provider, or none is named and the model's name does not tell.
pub fn resolve(
    provider_name: Option<&str>,
    model: &str,
    models: &ModelTable,
) -> Result<(&'static ProviderInfo, String), RegistryError> {
    let (prefix, rest) = model.split_once('/').unwrap_or(("", model));
    if let Some(name) = provider_name {
        let info = provider(name)?;
        let own = prefix == info.name && !info.routes;
        return Ok((info, if own { rest } else { model }.to_owned()));
    }
    if let Some(info) = PROVIDERS.iter().find(|info| info.name == prefix) {
        return Ok((info, rest.to_owned()));
    }
    if let Some(known) = models.iter().find(|known| known.id == model)
        && let Some(info) = PROVIDERS.iter().find(|info| info.name == known.provider)
    {
        return Ok((info, model.to_owned()));
    }
    let begins = |info: &&ProviderInfo| info.prefixes.iter().any(|prefix| model.starts_with(prefix));
    PROVIDERS.iter().find(begins).map(|info| (info, model.to_owned())).ok_or_else(|| RegistryError::UnknownModel {
        model: model.to_owned(),
        hint: suggest(model, models.iter().map(|known| known.id.as_str()))
            .unwrap_or_else(|| "name one as `PROVIDER/MODEL`".to_owned()),
    })
}

/// Builds a provider. Cheap: nothing is read and nobody is called before the first request.
///
/// # Errors
/// There is no such provider, or its configuration makes no sense.
pub fn build(config: ProviderConfig, models: Arc<ModelTable>) -> Result<Arc<dyn Provider>, RegistryError> {
    let info = provider(&config.name)?;
    let Some(format) = info.format.map(|format| elsewhere(format, config.base_url.is_some())) else {
        return Err(RegistryError::NeedsScript);
    };
    let url = endpoint(info, config.base_url.as_deref(), format)?;
    let headers = config.headers.into_iter().map(|(name, value)| match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Ok((name, value)),
        Err(_) => Err(RegistryError::Header { name }),
    });
    let missing = |variable| format!("no key for `{}`: set the environment variable `{variable}`", info.name);
    Ok(Arc::new(HttpProvider {
        name: info.name,
        format,
        url,
        key: config.api_key,
        without_key: info.key_variable.filter(|_| config.base_url.is_none()).map(missing),
        headers: headers.collect::<Result<_, _>>()?,
        models,
        transport: Arc::new(Transport::new(config.http)),
    }))
}

/// The same format at another place than the vendor's own, where nothing may be asked for that only the vendor knows.
fn elsewhere(format: Format, is_elsewhere: bool) -> Format {
    match format {
        Format::OpenAiChat(quirks) if is_elsewhere => {
            Format::OpenAiChat(Quirks { store: false, cache_key: false, ..quirks })
        }
        format => format,
    }
}

fn endpoint(info: &'static ProviderInfo, base: Option<&str>, format: Format) -> Result<Url, RegistryError> {
    let base = base.unwrap_or(info.base_url);
    let error = |url: &str, reason: &str| RegistryError::BaseUrl {
        provider: info.name,
        url: url.to_owned(),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base.trim()).map_err(|problem| error("the given text", &problem.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error(url.host_str().unwrap_or_default(), "it holds a password, which belongs into a header"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(error(base, "it must begin with `http://` or `https://`"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let needs_version = path.is_empty() || (matches!(format, Format::Anthropic) && !path.ends_with("/v1"));
    let version = if needs_version { "/v1" } else { "" };
    if path.ends_with(format.path()) {
        url.set_path(&path);
    } else {
        url.set_path(&format!("{path}{version}/{}", format.path()));
    }
    Ok(url)
}

/// "did you mean …": the names that are nearly `name`.
fn suggest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let mut near: Vec<(usize, &str)> = names.map(|other| (distance(other), other)).collect();
    near.retain(|(distance, other)| *distance <= 1 + other.len() / 4);
    near.sort_unstable();
    near.dedup();
    let near: Vec<&str> = near.iter().take(3).map(|(_, other)| *other).collect();
    (!near.is_empty()).then(|| format!("did you mean `{}`?", near.join("` or `")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(provider: Option<&str>, model: &str) -> String {
        match resolve(provider, model, &ModelTable::builtin()) {
            Ok((info, model)) => format!("{} {model}", info.name),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_models_name_tells_its_provider() {
        assert_eq!(resolved(None, "claude-opus-9"), "anthropic claude-opus-9");
        assert_eq!(resolved(None, "gpt-6-sol"), "openai-chat gpt-6-sol");
        assert_eq!(resolved(None, "o3"), "openai-chat o3");
        assert_eq!(resolved(None, "grok-4.7"), "xai grok-4.7");
        assert_eq!(resolved(None, "llama-3.3-70b-versatile"), "groq llama-3.3-70b-versatile");
    }

    #[test]
    fn a_provider_may_be_named_before_the_model() {
        assert_eq!(resolved(None, "groq/openai/gpt-oss-120b"), "groq openai/gpt-oss-120b");
        assert_eq!(resolved(None, "openrouter/anthropic/claude-x"), "openrouter anthropic/claude-x");
        assert_eq!(resolved(Some("anthropic"), "anthropic/claude-x"), "anthropic claude-x");
        assert_eq!(resolved(Some("openrouter"), "openrouter/auto"), "openrouter openrouter/auto");
        assert_eq!(resolved(Some("openai-chat"), "mock"), "openai-chat mock");
    }

    #[test]
    fn what_is_not_known_is_said_with_suggestions() {
        assert_eq!(resolved(Some("antropic"), "x"), "no provider `antropic`; did you mean `anthropic`?");
        assert!(resolved(Some("zzzzzzzzzzz"), "x").ends_with("`ollama`, `replay`"));
        assert!(resolved(None, "clade-opus-5-5").contains("did you mean `claude-opus-5-5`"));
        assert_eq!(
            resolved(None, "zzzzzzzzzzzzz"),
            "no provider is known for the model `zzzzzzzzzzzzz`; name one as `PROVIDER/MODEL`"
        );
    }

    #[test]
    fn a_base_url_leads_to_the_endpoint_however_it_is_written() {
        let at = |name: &str, base: &str| {
            let info = provider(name).unwrap();
            endpoint(info, Some(base), info.format.unwrap())
                .map(|url| url.to_string())
                .unwrap_or_else(|e| e.to_string())
        };
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://h:1/v1/messages "] {
            assert_eq!(at("anthropic", base), "http://h:1/v1/messages");
        }
        assert_eq!(at("anthropic", "https://h/anthropic"), "https://h/anthropic/v1/messages");
        for base in ["http://h:1", "http://h:1/v1", "http://h:1/v1/chat/completions"] {
            assert_eq!(at("openai-chat", base), "http://h:1/v1/chat/completions");
        }
        assert_eq!(at("openai-chat", "https://h/api/v4"), "https://h/api/v4/chat/completions");
        assert_eq!(at("openai-chat", "https://h/x?api-version=1"), "https://h/x/chat/completions?api-version=1");
    }

    #[test]
    fn a_base_url_that_makes_no_sense_is_refused_without_showing_a_password() {
        let message = |base: &str| {
            let info = provider("openai-chat").unwrap();
            endpoint(info, Some(base), info.format.unwrap()).unwrap_err().to_string()
        };
        assert!(message("ftp://h").contains("must begin with"));
        assert!(message("nonsense").contains("relative URL"));
        let secret = message("https://me:hunter22@h/v1");
        assert!(secret.contains("password") && !secret.contains("hunter22"));
    }

    #[test]
    fn every_provider_but_replay_can_be_built() {
        for info in PROVIDERS {
            let config = ProviderConfig { name: info.name.to_owned(), ..ProviderConfig::default() };
            match build(config, ModelTable::builtin()) {
                Ok(provider) => assert_eq!(provider.name(), info.name),
                Err(error) => assert_eq!((info.name, error.to_string().contains("script")), ("replay", true)),
            }
        }
    }

    #[test]
    fn no_debug_print_shows_a_key() {
        let config = ProviderConfig {
            name: "openai-chat".to_owned(),
            api_key: Some(SecretString::from("sk-secret-1")),
            headers: vec![("x-extra".to_owned(), SecretString::from("sk-secret-2"))],
            ..ProviderConfig::default()
        };
        assert!(!format!("{config:?}").contains("sk-secret"));
    }
}
