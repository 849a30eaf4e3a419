//! Which providers there are, and which one a model's name means.
//!
//! One entry a vendor, all of it data. A vendor that speaks Chat Completions is a few lines here: a name, a base URL, the
//! variable of its key, the beginnings of its models' names, and [`Quirks`] where it departs from OpenAI. `replay` is
//! known here, but built from a script: see [`Replay`](crate::Replay).

use crate::auth::{Auth, Authenticator};
use crate::conversation::IdRule;
use crate::endpoint::{Endpoint, Layout, Place, Tail};
use crate::http::{HttpSettings, Transport};
use crate::keys::KeySource;
use crate::model_table::ModelTable;
use crate::openai_chat::{Quirks, ThinkingBack, ThinkingParam};
use crate::openai_responses;
use crate::playback::Playback;
use crate::provider::{Caller, Format, HttpProvider};
use crate::recorder::Recorder;
use pinion_protocol::{Provider, RedactedProvider, Secrets};
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
    /// The environment variable that holds its key; none when it needs none. [`Keys`](crate::Keys) knows of others.
    pub key_variable: Option<&'static str>,
    /// Where it is, unless the user says otherwise. Empty for `replay`, and where only the user can know. May hold
    /// `{region}`.
    pub base_url: &'static str,
    /// Its region, where it has regions and the user names none.
    pub default_region: Option<&'static str>,
    /// Models whose names begin so are meant for it, when the user names no provider.
    pub prefixes: &'static [&'static str],
    /// Its models' names hold other vendors' names, so that a slash in one says nothing.
    routes: bool,
    auth: Auth,
    format: Option<Format>,
}

impl ProviderInfo {
    /// The format that is spoken at `base`. Azure's older URLs, and those that end so, are of Chat Completions.
    fn format_at(&self, base: Option<&str>) -> Option<Format> {
        let is_chat = |base: &str| base.contains("/deployments/") || base.contains("/chat/completions");
        match self.format {
            Some(Format::OpenAiResponses(_)) if self.name == "azure" && base.is_some_and(is_chat) => {
                Some(Format::OpenAiChat(AZURE_CHAT))
            }
            format => format,
        }
    }

    /// How its URLs are made; none for `replay`.
    pub(crate) fn layout(&self, base: Option<&str>) -> Option<Layout> {
        let layout = self.format_at(base)?.layout();
        Some(match self.name {
            "azure" => Layout { version: "openai/v1", ..layout },
            "vertex" => Layout { version: "v1", tail: Tail::Vertex, ..layout },
            _ => layout,
        })
    }
}

const NOTHING: ProviderInfo = ProviderInfo {
    name: "",
    label: "",
    key_variable: None,
    base_url: "",
    default_region: None,
    prefixes: &[],
    routes: false,
    auth: Auth::Bearer,
    format: None,
};

/// Every provider, in the order in which they are listed.
pub const PROVIDERS: &[ProviderInfo] = &[
    ProviderInfo {
        name: "anthropic",
        label: "Anthropic Messages",
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url: "https://api.anthropic.com/v1",
        prefixes: &["claude"],
        auth: Auth::Header("x-api-key"),
        format: Some(Format::Anthropic),
        ..NOTHING
    },
    ProviderInfo {
        name: "openai-responses",
        label: "OpenAI Responses",
        key_variable: Some("OPENAI_API_KEY"),
        base_url: "https://api.openai.com/v1",
        prefixes: &["gpt", "chatgpt", "codex", "o1", "o3", "o4"],
        format: Some(Format::OpenAiResponses(openai_responses::Quirks::OPENAI)),
        ..NOTHING
    },
    ProviderInfo {
        name: "openai-chat",
        label: "OpenAI Chat Completions, and what is compatible",
        key_variable: Some("OPENAI_API_KEY"),
        base_url: "https://api.openai.com/v1",
        format: Some(Format::OpenAiChat(Quirks::OPENAI)),
        ..NOTHING
    },
    // https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle
    ProviderInfo {
        name: "azure",
        label: "Azure OpenAI: Responses, or Chat Completions",
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        routes: true,
        auth: Auth::Azure,
        format: Some(Format::OpenAiResponses(openai_responses::Quirks::PLAIN)),
        ..NOTHING
    },
    ProviderInfo {
        name: "gemini",
        label: "Google Gemini",
        key_variable: Some("GEMINI_API_KEY"),
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        prefixes: &["gemini", "gemma"],
        auth: Auth::Header("x-goog-api-key"),
        format: Some(Format::Gemini),
        ..NOTHING
    },
    ProviderInfo {
        name: "vertex",
        label: "Google Vertex AI",
        key_variable: Some("GOOGLE_API_KEY"),
        base_url: "https://{region}-aiplatform.googleapis.com",
        default_region: Some("global"),
        routes: true,
        auth: Auth::Google,
        format: Some(Format::Gemini),
        ..NOTHING
    },
    ProviderInfo {
        name: "bedrock",
        label: "Amazon Bedrock, ConverseStream",
        key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
        base_url: "https://bedrock-runtime.{region}.amazonaws.com",
        routes: true,
        auth: Auth::Aws,
        format: Some(Format::Bedrock),
        ..NOTHING
    },
    // https://docs.ollama.com/api
    ProviderInfo {
        name: "ollama",
        label: "Ollama, on this machine or at ollama.com",
        key_variable: None,
        base_url: "http://127.0.0.1:11434",
        routes: true,
        format: Some(Format::Ollama),
        ..NOTHING
    },
    // https://docs.x.ai/developers/model-capabilities/text/best-practices: Chat Completions is deprecated there, and has
    // no place for what the model thought before.
    ProviderInfo {
        name: "xai",
        label: "xAI",
        key_variable: Some("XAI_API_KEY"),
        base_url: "https://api.x.ai/v1",
        prefixes: &["grok"],
        format: Some(Format::OpenAiResponses(openai_responses::Quirks {
            cache_key: true,
            summaries: false,
            images_in_results: false,
            ..openai_responses::Quirks::PLAIN
        })),
        ..NOTHING
    },
    // https://docs.mistral.ai/api: unknown fields are refused, ids of calls have nine letters.
    ProviderInfo {
        name: "mistral",
        label: "Mistral",
        key_variable: Some("MISTRAL_API_KEY"),
        base_url: "https://api.mistral.ai/v1",
        prefixes: &["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral"],
        format: Some(Format::OpenAiChat(Quirks {
            stream_options: false,
            cache_key: true,
            ids: IdRule::NineLetters,
            images_in_results: true,
            thinking_back: ThinkingBack::Chunk,
            ..Quirks::PLAIN
        })),
        ..NOTHING
    },
    // https://console.groq.com/docs/openai
    ProviderInfo {
        name: "groq",
        label: "Groq",
        key_variable: Some("GROQ_API_KEY"),
        base_url: "https://api.groq.com/openai/v1",
        routes: true,
        format: Some(Format::OpenAiChat(Quirks { max_tokens: "max_completion_tokens", ..Quirks::PLAIN })),
        ..NOTHING
    },
    // https://api-docs.deepseek.com/guides/thinking_mode: thinking is on unless turned off, and goes back with calls.
    ProviderInfo {
        name: "deepseek",
        label: "DeepSeek",
        key_variable: Some("DEEPSEEK_API_KEY"),
        base_url: "https://api.deepseek.com/v1",
        prefixes: &["deepseek"],
        format: Some(Format::OpenAiChat(Quirks {
            thinking: ThinkingParam::Switch,
            thinking_back: ThinkingBack::Field("reasoning_content"),
            ..Quirks::PLAIN
        })),
        ..NOTHING
    },
    // https://openrouter.ai/docs/use-cases/reasoning-tokens
    ProviderInfo {
        name: "openrouter",
        label: "OpenRouter",
        key_variable: Some("OPENROUTER_API_KEY"),
        base_url: "https://openrouter.ai/api/v1",
        routes: true,
        format: Some(Format::OpenAiChat(Quirks {
            thinking: ThinkingParam::Object,
            thinking_back: ThinkingBack::Field("reasoning"),
            ..Quirks::PLAIN
        })),
        ..NOTHING
    },
    ProviderInfo {
        name: "proxy",
        label: "A Pinion proxy, which asks other providers",
        key_variable: Some("PINION_PROXY_TOKEN"),
        routes: true,
        format: Some(Format::Proxy),
        ..NOTHING
    },
    ProviderInfo { name: "replay", label: "A scripted model, from a file", ..NOTHING },
];

/// Chat Completions at Azure, by deployment or at its newer URL.
const AZURE_CHAT: Quirks = Quirks { max_tokens: "max_completion_tokens", ..Quirks::PLAIN };

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

/// What a provider needs besides, and most do not.
#[derive(Debug, Clone, Default)]
pub struct ProviderContext {
    /// The region or location, where a provider has several: `bedrock`, `vertex`.
    pub region: Option<String>,
    /// The project that pays: `vertex`. Without one it is asked in express mode, which takes an API key.
    pub project: Option<String>,
    /// Where the key comes from when [`ProviderConfig::api_key`] holds none. Asked before every request.
    pub keys: Option<Arc<dyn KeySource>>,
    /// Certificate authorities besides the platform's, as PEM: for a gateway of the user's own.
    pub certificates: Vec<u8>,
    /// Writes the exchanges down.
    pub recorder: Option<Arc<Recorder>>,
    /// Answers from what was written down, instead of the network. No key is needed then.
    pub playback: Option<Arc<Playback>>,
    /// Secrets that replies must not repeat. Every credential that the provider uses is added. Share them among providers
    /// and tools, so that none repeats what another one was given.
    pub secrets: Secrets,
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
    /// Only the user knows where the provider is.
    #[error("the provider `{provider}` needs a base URL")]
    NeedsBaseUrl {
        /// The provider.
        provider: &'static str,
    },
    /// The provider has regions, and none was named.
    #[error("the provider `{provider}` needs a region")]
    NeedsRegion {
        /// The provider.
        provider: &'static str,
    },
    /// The region makes no sense.
    #[error("`{region}` cannot be the region of `{provider}`")]
    Region {
        /// The provider.
        provider: &'static str,
        /// The region.
        region: String,
    },
    /// A header's name makes no sense.
    #[error("`{name}` cannot be the name of a header")]
    Header {
        /// The name.
        name: String,
    },
    /// The certificate authorities cannot be read.
    #[error("the certificates for `{provider}` are not PEM: {reason}")]
    Certificates {
        /// The provider.
        provider: &'static str,
        /// What is wrong with them.
        reason: String,
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
    build_with(config, ProviderContext::default(), models)
}

/// [`build`], with all that a provider may need.
///
/// # Errors
/// There is no such provider, or its configuration makes no sense.
pub fn build_with(
    config: ProviderConfig,
    context: ProviderContext,
    models: Arc<ModelTable>,
) -> Result<Arc<dyn Provider>, RegistryError> {
    let info = provider(&config.name)?;
    let base = config.base_url.as_deref();
    let (Some(format), Some(layout)) = (info.format_at(base), info.layout(base)) else {
        return Err(RegistryError::NeedsScript);
    };
    // What is played back goes nowhere.
    let region = context.region.as_deref().or(context.playback.as_ref().map(|_| "nowhere"));
    let place = Place { region, project: context.project.as_deref() };
    let endpoint = Endpoint::new(info, layout, base, place)?;
    let headers = config.headers.into_iter().map(|(name, value)| match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Ok((name, value)),
        Err(_) => Err(RegistryError::Header { name }),
    });
    let secrets = context.secrets;
    let headers: Vec<(HeaderName, SecretString)> = headers.collect::<Result<_, _>>()?;
    headers.iter().for_each(|(name, value)| secrets.add_header(name.as_str(), value));
    let known = config.api_key.iter().chain(config.http.proxy.iter().map(|proxy| &proxy.url));
    known.for_each(|value| secrets.add(value));
    let transport = Transport::new(config.http, &context.certificates)
        .map_err(|reason| RegistryError::Certificates { provider: info.name, reason })?;
    let missing = |variable| format!("no key for `{}`: set the environment variable `{variable}`", info.name);
    let is_elsewhere = base.is_some() && info.name != "azure";
    let caller = Caller {
        name: info.name,
        base_url: base.map(|base| base.split(['?', '#']).next().unwrap_or_default().to_owned()),
        authenticator: Authenticator::new(info.auth, context.region, transport.clone()),
        key: config.api_key,
        keys: context.keys,
        without_key: info.key_variable.filter(|_| !is_elsewhere).map(missing),
        headers,
        transport,
        recorder: context.recorder,
        playback: context.playback,
        secrets: secrets.clone(),
    };
    let format = if is_elsewhere { format.elsewhere() } else { format };
    let provider = HttpProvider { name: info.name, format, endpoint, models, caller: Arc::new(caller) };
    Ok(Arc::new(RedactedProvider::new(Arc::new(provider), secrets)))
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
        assert_eq!(resolved(None, "gpt-6-sol"), "openai-responses gpt-6-sol");
        assert_eq!(resolved(None, "o3"), "openai-responses o3");
        assert_eq!(resolved(None, "gpt-9"), "openai-responses gpt-9");
        assert_eq!(resolved(Some("openai-chat"), "gpt-6-sol"), "openai-chat gpt-6-sol");
        assert_eq!(resolved(None, "gemini-9-pro"), "gemini gemini-9-pro");
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
        assert!(resolved(Some("zzzzzzzzzzz"), "x").ends_with("`proxy`, `replay`"));
        assert!(resolved(None, "clade-opus-5-5").contains("did you mean `claude-opus-5-5`"));
        assert_eq!(
            resolved(None, "zzzzzzzzzzzzz"),
            "no provider is known for the model `zzzzzzzzzzzzz`; name one as `PROVIDER/MODEL`"
        );
    }

    #[test]
    fn every_provider_but_replay_can_be_built() {
        for info in PROVIDERS {
            let base_url = info.base_url.is_empty().then(|| "http://127.0.0.1:1".to_owned());
            let config = ProviderConfig { name: info.name.to_owned(), base_url, ..ProviderConfig::default() };
            let context = ProviderContext { region: Some("us-east-1".to_owned()), ..ProviderContext::default() };
            match build_with(config, context, ModelTable::builtin()) {
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
