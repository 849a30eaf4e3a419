//! The vendors, one row each.
//!
//! A vendor that speaks Chat Completions takes a few lines: a name, a base URL, the variable of its key, the prefixes of
//! its model names, and [`ChatQuirks`] where it departs from OpenAI. `replay` is listed here but built from a script: see
//! [`Replay`](crate::Replay).

use super::info::ProviderInfo;
use super::layout::Tail;
use crate::auth::Auth;
use crate::formats::openai_chat::{ChatQuirks, ThinkingBack, ThinkingParam};
use crate::formats::{IdRule, WireFormat, anthropic, openai_responses};

/// The short names of Google's models.
const GEMINI_ALIASES: &[(&str, &str)] =
    &[("flash", "gemini-3.8-flash"), ("pro", "gemini-3.1-pro-preview"), ("flash-lite", "gemini-3.1-flash-lite")];

/// All providers, in display order, which is also the order that a key selects one.
pub const PROVIDERS: &[ProviderInfo] = &[
    ProviderInfo {
        name: "anthropic",
        label: "Anthropic Messages",
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url: "https://api.anthropic.com/v1",
        prefixes: &["claude"],
        default_model: Some("claude-sonnet-5-5"),
        aliases: &[
            ("sonnet", "claude-sonnet-5-5"),
            ("opus", "claude-opus-5-5"),
            ("haiku", "claude-haiku-5-5"),
            ("fable", "claude-fable-5-2"),
        ],
        auth: Auth::Header("x-api-key"),
        format: Some(WireFormat::Anthropic(anthropic::AnthropicQuirks::ANTHROPIC)),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "openai-responses",
        label: "OpenAI Responses",
        key_variable: Some("OPENAI_API_KEY"),
        base_url: "https://api.openai.com/v1",
        prefixes: &["gpt", "chatgpt", "codex", "o1", "o3", "o4"],
        other_names: &["openai"],
        default_model: Some("gpt-6.2-sol"),
        aliases: &[
            ("gpt", "gpt-6.2-sol"),
            ("sol", "gpt-6.2-sol"),
            ("astra", "gpt-6.2-astra"),
            ("luna", "gpt-6-luna"),
            ("gpt-mini", "gpt-6-luna"),
        ],
        format: Some(WireFormat::OpenAiResponses(openai_responses::ResponsesQuirks::OPENAI)),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "openai-chat",
        label: "OpenAI Chat Completions and compatible servers",
        key_variable: Some("OPENAI_API_KEY"),
        base_url: "https://api.openai.com/v1",
        // The newest that thinks and calls tools over this format.
        default_model: Some("gpt-5.2"),
        serves_any_model: true,
        format: Some(WireFormat::OpenAiChat(ChatQuirks::OPENAI)),
        ..ProviderInfo::EMPTY
    },
    // https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle
    ProviderInfo {
        name: "azure",
        label: "Azure OpenAI: Responses, or Chat Completions",
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        base_url_variables: &["AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"],
        has_tenant_urls: true,
        routes: true,
        auth: Auth::Azure,
        format: Some(WireFormat::OpenAiResponses(openai_responses::ResponsesQuirks::PLAIN)),
        // Deployments of DeepSeek and Kimi think.
        chat: Some(ChatQuirks {
            max_tokens: "max_completion_tokens",
            thinking_back: ThinkingBack::AsItCame("reasoning_content"),
            ..ChatQuirks::PLAIN
        }),
        version: Some("openai/v1"),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "gemini",
        label: "Google Gemini",
        key_variable: Some("GEMINI_API_KEY"),
        other_key_variables: &["GOOGLE_API_KEY"],
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        prefixes: &["gemini", "gemma"],
        other_names: &["google"],
        default_model: Some("gemini-3.8-flash"),
        aliases: GEMINI_ALIASES,
        auth: Auth::Header("x-goog-api-key"),
        format: Some(WireFormat::Gemini),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "vertex",
        label: "Google Vertex AI",
        key_variable: Some("GOOGLE_API_KEY"),
        base_url: "https://{region}-aiplatform.googleapis.com",
        default_region: Some("global"),
        region_variables: &["GOOGLE_CLOUD_LOCATION"],
        project_variable: Some("GOOGLE_CLOUD_PROJECT"),
        default_model: Some("gemini-3.8-flash"),
        aliases: GEMINI_ALIASES,
        // https://docs.cloud.google.com/vertex-ai/generative-ai/docs/learn/locations
        regional_urls: &[
            ("global", "https://aiplatform.googleapis.com"),
            ("us", "https://aiplatform.us.rep.googleapis.com"),
            ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ],
        routes: true,
        auth: Auth::Google,
        format: Some(WireFormat::Gemini),
        version: Some("v1"),
        tail: Some(Tail::Vertex),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "bedrock",
        label: "Amazon Bedrock, ConverseStream",
        key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
        base_url: "https://bedrock-runtime.{region}.amazonaws.com",
        base_url_variables: &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"],
        region_variables: &["AWS_REGION", "AWS_DEFAULT_REGION"],
        default_model: Some("global.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        routes: true,
        auth: Auth::Aws,
        format: Some(WireFormat::Bedrock),
        ..ProviderInfo::EMPTY
    },
    // https://docs.ollama.com/api
    ProviderInfo {
        name: "ollama",
        label: "Ollama, local or at ollama.com",
        other_key_variables: &["OLLAMA_API_KEY"],
        base_url: "http://127.0.0.1:11434",
        base_url_variables: &["OLLAMA_HOST"],
        read_base_url: ollama_url,
        routes: true,
        format: Some(WireFormat::Ollama),
        ..ProviderInfo::EMPTY
    },
    // https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    ProviderInfo {
        name: "llama-cpp",
        label: "llama.cpp, on this machine",
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variables: &["LLAMA_CPP_BASE_URL"],
        routes: true,
        format: Some(WireFormat::OpenAiChat(ChatQuirks::PLAIN.elsewhere())),
        ..ProviderInfo::EMPTY
    },
    // https://lmstudio.ai/docs/developer/openai-compat
    ProviderInfo {
        name: "lm-studio",
        label: "LM Studio, on this machine",
        base_url: "http://127.0.0.1:1234/v1",
        base_url_variables: &["LM_STUDIO_BASE_URL"],
        routes: true,
        format: Some(WireFormat::OpenAiChat(ChatQuirks::PLAIN.elsewhere())),
        ..ProviderInfo::EMPTY
    },
    // https://docs.x.ai/developers/model-capabilities/text/best-practices: Chat Completions is deprecated and does not
    // take thinking back.
    ProviderInfo {
        name: "xai",
        label: "xAI",
        key_variable: Some("XAI_API_KEY"),
        base_url: "https://api.x.ai/v1",
        prefixes: &["grok"],
        default_model: Some("grok-4.7"),
        aliases: &[("grok", "grok-4.7")],
        format: Some(WireFormat::OpenAiResponses(openai_responses::ResponsesQuirks {
            cache_key: true,
            summaries: false,
            images_in_results: false,
            ..openai_responses::ResponsesQuirks::PLAIN
        })),
        ..ProviderInfo::EMPTY
    },
    // https://docs.mistral.ai/api: rejects unknown fields; tool call IDs have nine characters.
    ProviderInfo {
        name: "mistral",
        label: "Mistral",
        key_variable: Some("MISTRAL_API_KEY"),
        base_url: "https://api.mistral.ai/v1",
        prefixes: &["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral"],
        default_model: Some("mistral-large-4"),
        aliases: &[
            ("devstral", "devstral-latest"),
            ("codestral", "codestral-latest"),
            ("magistral", "magistral-medium-latest"),
        ],
        format: Some(WireFormat::OpenAiChat(ChatQuirks {
            stream_options: false,
            cache_key: true,
            ids: IdRule::NineLetters,
            images_in_results: true,
            replies_after_results: true,
            thinking_back: ThinkingBack::Chunk,
            ..ChatQuirks::PLAIN
        })),
        ..ProviderInfo::EMPTY
    },
    // https://console.groq.com/docs/openai, https://console.groq.com/docs/reasoning
    ProviderInfo {
        name: "groq",
        label: "Groq",
        key_variable: Some("GROQ_API_KEY"),
        base_url: "https://api.groq.com/openai/v1",
        default_model: Some("openai/gpt-oss-120b"),
        routes: true,
        format: Some(WireFormat::OpenAiChat(ChatQuirks {
            max_tokens: "max_completion_tokens",
            thinking_back: ThinkingBack::AsItCame("reasoning"),
            ..ChatQuirks::PLAIN
        })),
        ..ProviderInfo::EMPTY
    },
    // https://api-docs.deepseek.com/guides/thinking_mode: thinking is on by default, and goes back with every
    // message.
    ProviderInfo {
        name: "deepseek",
        label: "DeepSeek",
        key_variable: Some("DEEPSEEK_API_KEY"),
        base_url: "https://api.deepseek.com/v1",
        prefixes: &["deepseek"],
        default_model: Some("deepseek-v4-pro"),
        format: Some(WireFormat::OpenAiChat(ChatQuirks {
            thinking: ThinkingParam::Switch,
            thinking_back: ThinkingBack::Field("reasoning_content"),
            ..ChatQuirks::PLAIN
        })),
        ..ProviderInfo::EMPTY
    },
    // https://openrouter.ai/docs/use-cases/reasoning-tokens, https://openrouter.ai/docs/features/prompt-caching
    ProviderInfo {
        name: "openrouter",
        label: "OpenRouter",
        key_variable: Some("OPENROUTER_API_KEY"),
        login_page: Some("https://openrouter.ai/auth"),
        base_url: "https://openrouter.ai/api/v1",
        // A model that the router selects.
        default_model: Some("openrouter/auto"),
        routes: true,
        format: Some(WireFormat::OpenAiChat(ChatQuirks {
            thinking: ThinkingParam::Object,
            thinking_back: ThinkingBack::AsItCame("reasoning"),
            breakpoints: true,
            ..ChatQuirks::PLAIN
        })),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo {
        name: "proxy",
        label: "Pinion proxy to other providers",
        key_variable: Some("PINION_PROXY_TOKEN"),
        base_url_variables: &["PINION_PROXY_URL"],
        routes: true,
        format: Some(WireFormat::Proxy),
        ..ProviderInfo::EMPTY
    },
    ProviderInfo { name: "replay", label: "Scripted model from a file", ..ProviderInfo::EMPTY },
];

/// Reads `OLLAMA_HOST` as Ollama does. Its server shares the variable, so the scheme and the port may be missing, and the
/// address may stand for all interfaces.
fn ollama_url(host: &str) -> String {
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let url = url.replace("://0.0.0.0", "://127.0.0.1");
    let has_port = url.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port || host.contains("://") { url } else { format!("{}:11434", url.trim_end_matches('/')) }
}

/// A fictional vendor, whose row the tests use as the exercise of `docs/vendors.md`.
#[cfg(test)]
pub(crate) static ACME: ProviderInfo = ProviderInfo {
    name: "acme",
    label: "Acme",
    key_variable: Some("ACME_KEY"),
    base_url: "https://{region}.acme.example/v1",
    base_url_variables: &["ACME_URL"],
    default_region: Some("eu"),
    prefixes: &["acme-"],
    format: Some(WireFormat::OpenAiChat(ChatQuirks::PLAIN)),
    ..ProviderInfo::EMPTY
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelTable;
    use jiff::Timestamp;
    use pinion_protocol::{
        AssistantMessage, Content, Message, Request, RequestOptions, StopReason, Thinking, ToolCall, ToolChoice, Usage,
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn vendor_named_at_a_gateway_has_its_default_model() {
        let named = |name: &str, base: Option<&str>| {
            PROVIDERS.iter().find(|info| info.name == name).and_then(|info| info.named_default_model(base))
        };
        let gateway = Some("https://gateway.example/anthropic");
        assert_eq!(named("anthropic", gateway), named("anthropic", None));
        assert!(named("anthropic", gateway).is_some() && named("gemini", gateway).is_some());
        assert_eq!((named("openai-chat", gateway), named("azure", None)), (None, None));
    }

    #[test]
    fn default_models_and_aliases_are_known() {
        let models = crate::models::ModelTable::builtin();
        for info in PROVIDERS.iter().filter(|info| info.name != "openrouter") {
            let aliases = info.aliases.iter().map(|(_, model)| *model);
            for model in info.default_model.into_iter().chain(aliases) {
                assert!(models.find(info.name, model).known, "{}/{model}", info.name);
            }
        }
    }

    /// Returns the assistant's message of a request to the vendor itself, after its own call with this ID.
    fn own_message(provider: &str, base_url: Option<&str>, field: &str, id: &str) -> Value {
        let info = crate::provider(provider).unwrap();
        let signature = Some(json!({ "field": field }).to_string());
        let thinking = Content::Thinking(Thinking { text: "hm".to_owned(), signature, redacted: false });
        let reply = AssistantMessage {
            content: vec![thinking, Content::ToolCall(ToolCall::new(id, "list", json!({})))],
            stop_reason: StopReason::ToolUse,
            provider: provider.to_owned(),
            model: "m".to_owned(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp: Timestamp::UNIX_EPOCH,
        };
        let messages = vec![Arc::new(Message::user("hi")), Arc::new(Message::Assistant(reply))];
        let request = Request {
            model: "m".to_owned(),
            system: "".into(),
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            options: RequestOptions::default(),
        };
        let model = ModelTable::builtin().find(provider, "m");
        let body = info.format_at(base_url).unwrap().body(&request, &model, provider).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["messages"][1].clone()
    }

    #[test]
    fn thinking_goes_back_to_the_vendors_that_take_it() {
        let deployment = Some("https://me.openai.azure.com/openai/deployments/r1/chat/completions");
        for (provider, base_url, field, goes_back) in [
            ("groq", None, "reasoning", true),
            ("azure", deployment, "reasoning_content", true),
            ("openrouter", None, "reasoning", true),
            ("deepseek", None, "reasoning_content", true),
            ("openai-chat", None, "reasoning_content", false),
            ("openai-chat", Some("http://box/v1"), "reasoning_content", true),
        ] {
            let message = own_message(provider, base_url, field, "call_1");
            assert_eq!(message.get(field).is_some(), goes_back, "{provider}");
        }
    }

    #[test]
    fn vendors_get_their_own_ids_of_any_length() {
        let long = format!("tool_{}", "x".repeat(300));
        let id =
            |provider, base_url| own_message(provider, base_url, "reasoning", &long)["tool_calls"][0]["id"].clone();
        for provider in ["openrouter", "groq", "deepseek"] {
            assert_eq!(id(provider, None), long, "{provider}");
        }
        assert_eq!(id("openai-chat", Some("http://box/v1")), long);
        assert_ne!(id("openai-chat", None), long);
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        assert_eq!(ollama_url("0.0.0.0"), "http://127.0.0.1:11434");
        assert_eq!(ollama_url("box:8080"), "http://box:8080");
        assert_eq!(ollama_url("https://ollama.example"), "https://ollama.example");
    }
}
