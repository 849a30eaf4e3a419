//! Providers that the user defines: servers that speak one of the wire formats, with their own departures from it.

use super::error::RegistryError;
use super::info::ProviderInfo;
use crate::auth::Auth;
use crate::formats::openai_chat::{ChatQuirks, ThinkingBack, ThinkingParam};
use crate::formats::{WireFormat, anthropic, openai_responses};
use serde::Deserialize;

/// A provider that the user defines.
#[derive(Debug, Clone)]
pub struct CustomProvider {
    /// Its name in configs and on the command line.
    pub name: String,
    /// The wire format of its server.
    pub format: CustomFormat,
    /// The base URL of its server.
    pub base_url: String,
    /// The environment variable that holds its key; `None` when it works without one.
    pub key_variable: Option<String>,
    /// The model to use unless one is named.
    pub default_model: Option<String>,
    /// Departures from the format.
    pub quirks: CustomQuirks,
}

/// The wire formats that a server of the user's may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are the names of the providers that define them")]
pub enum CustomFormat {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
    Gemini,
    Ollama,
}

/// Departures from a wire format; `None` for a request that every compatible server understands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CustomQuirks {
    /// Chat: the name of the output limit, such as `max_completion_tokens`.
    pub max_tokens: Option<String>,
    /// Chat: takes the system prompt in the role `developer`.
    pub developer_role: Option<bool>,
    /// Chat: accepts `stream_options`.
    pub stream_options: Option<bool>,
    /// Chat: accepts `store`.
    pub store: Option<bool>,
    /// Chat and Responses: accepts `prompt_cache_key`.
    pub cache_key: Option<bool>,
    /// Chat: the parameter that requests thinking.
    pub thinking: Option<CustomThinking>,
    /// Chat: the field of a message that takes thinking back, such as `reasoning_content`.
    pub thinking_back: Option<String>,
    /// Responses: accepts `reasoning.summary`.
    pub summaries: Option<bool>,
    /// Chat and Responses: accepts images in tool results.
    pub images_in_results: Option<bool>,
}

/// The parameter that requests thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CustomThinking {
    /// `"reasoning_effort": "high"`.
    Effort,
    /// `"reasoning": {"effort": "high"}`.
    Object,
    /// `"thinking": {"type": "enabled"}` with a `reasoning_effort`.
    Switch,
}

impl CustomProvider {
    /// Creates the row of the provider. It is never freed: a program defines its providers once, and everything else
    /// refers to its row as to rows of the table.
    ///
    /// # Errors
    /// [`RegistryError::Quirk`].
    pub(super) fn define(self) -> Result<&'static ProviderInfo, RegistryError> {
        let format = self.format()?;
        let auth = match self.format {
            CustomFormat::Anthropic => Auth::Header("x-api-key"),
            CustomFormat::Gemini => Auth::Header("x-goog-api-key"),
            CustomFormat::OpenaiChat | CustomFormat::OpenaiResponses | CustomFormat::Ollama => Auth::Bearer,
        };
        let name: &'static str = self.name.leak();
        Ok(Box::leak(Box::new(ProviderInfo {
            name,
            label: name,
            key_variable: self.key_variable.map(|name| &*name.leak()),
            base_url: self.base_url.leak(),
            default_model: self.default_model.map(|name| &*name.leak()),
            // The URL is the provider's own, so that the quirks apply there and its key is required.
            has_tenant_urls: true,
            routes: true,
            auth,
            format: Some(format),
            ..ProviderInfo::EMPTY
        })))
    }

    fn format(&self) -> Result<WireFormat, RegistryError> {
        let CustomQuirks { max_tokens, stream_options, store, cache_key, thinking, .. } = &self.quirks;
        let CustomQuirks { developer_role, thinking_back, summaries, images_in_results, .. } = &self.quirks;
        let chat = [
            ("max-tokens", max_tokens.is_some()),
            ("developer-role", developer_role.is_some()),
            ("stream-options", stream_options.is_some()),
            ("store", store.is_some()),
            ("thinking", thinking.is_some()),
            ("thinking-back", thinking_back.is_some()),
        ];
        let both = [("cache-key", cache_key.is_some()), ("images-in-results", images_in_results.is_some())];
        let responses = [("summaries", summaries.is_some())];
        let none = |keys: &[(&'static str, bool)]| match keys.iter().find(|(_, is_set)| *is_set) {
            Some((quirk, _)) => Err(RegistryError::Quirk { provider: self.name.clone(), quirk }),
            None => Ok(()),
        };
        match self.format {
            CustomFormat::OpenaiChat => none(&responses).map(|()| WireFormat::OpenAiChat(self.chat())),
            CustomFormat::OpenaiResponses => none(&chat).map(|()| WireFormat::OpenAiResponses(self.responses())),
            other => {
                none(&chat).and(none(&both)).and(none(&responses))?;
                Ok(match other {
                    CustomFormat::Gemini => WireFormat::Gemini,
                    CustomFormat::Ollama => WireFormat::Ollama,
                    _ => WireFormat::Anthropic(anthropic::AnthropicQuirks::ELSEWHERE),
                })
            }
        }
    }

    fn chat(&self) -> ChatQuirks {
        let (usual, said) = (ChatQuirks::PLAIN.elsewhere(), &self.quirks);
        ChatQuirks {
            max_tokens: said.max_tokens.clone().map_or(usual.max_tokens, |name| name.leak()),
            developer_role: said.developer_role.unwrap_or(usual.developer_role),
            stream_options: said.stream_options.unwrap_or(usual.stream_options),
            store: said.store.unwrap_or(usual.store),
            cache_key: said.cache_key.unwrap_or(usual.cache_key),
            thinking: match said.thinking {
                None => usual.thinking,
                Some(CustomThinking::Effort) => ThinkingParam::Effort,
                Some(CustomThinking::Object) => ThinkingParam::Object,
                Some(CustomThinking::Switch) => ThinkingParam::Switch,
            },
            thinking_back: match &said.thinking_back {
                Some(field) => ThinkingBack::Field(field.clone().leak()),
                None => usual.thinking_back,
            },
            images_in_results: said.images_in_results.unwrap_or(usual.images_in_results),
            ..usual
        }
    }

    fn responses(&self) -> openai_responses::ResponsesQuirks {
        let (usual, said) = (openai_responses::ResponsesQuirks::PLAIN.elsewhere(), &self.quirks);
        openai_responses::ResponsesQuirks {
            cache_key: said.cache_key.unwrap_or(usual.cache_key),
            summaries: said.summaries.unwrap_or(usual.summaries),
            images_in_results: said.images_in_results.unwrap_or(usual.images_in_results),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelTable;
    use crate::vendors::{Endpoint, Registry, UrlVariables};
    use pinion_protocol::{Message, Request, RequestOptions, ThinkingLevel, ToolChoice};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn custom(name: &str, format: CustomFormat, quirks: CustomQuirks) -> CustomProvider {
        CustomProvider {
            name: name.to_owned(),
            format,
            base_url: "http://box:8000/v1".to_owned(),
            key_variable: Some("BOX_KEY".to_owned()),
            default_model: Some("qwen".to_owned()),
            quirks,
        }
    }

    #[test]
    fn several_servers_have_names_quirks_and_models_of_their_own() {
        let mut registry = Registry::default();
        let quirks = CustomQuirks { max_tokens: Some("max_completion_tokens".to_owned()), ..CustomQuirks::default() };
        registry.add(custom("box", CustomFormat::OpenaiChat, quirks)).unwrap();
        registry.add(custom("other", CustomFormat::Anthropic, CustomQuirks::default())).unwrap();
        let models = ModelTable::builtin();
        let (info, model) = registry.resolve(None, "box/org/model", &models).unwrap();
        assert_eq!((info.name, model.as_str()), ("box", "org/model"));
        assert!(
            matches!(info.format, Some(WireFormat::OpenAiChat(quirks)) if quirks.max_tokens == "max_completion_tokens")
        );
        assert!(info.needs_key(Some(info.base_url)) && info.key_variables().eq(["BOX_KEY"]));
        let (info, model) = registry.resolve(None, "other", &models).unwrap();
        assert_eq!((info.name, model.as_str()), ("other", "qwen"));
        let endpoint = Endpoint::new(info, None, UrlVariables::default()).unwrap();
        assert_eq!(endpoint.url("m").as_str(), "http://box:8000/v1/messages");
    }

    /// The body for a model that no table lists.
    fn asked(format: CustomFormat, thinking: Option<CustomThinking>, level: ThinkingLevel) -> Value {
        asked_with(format, CustomQuirks { thinking, ..CustomQuirks::default() }, level)
    }

    fn asked_with(format: CustomFormat, quirks: CustomQuirks, level: ThinkingLevel) -> Value {
        let info = custom("box", format, quirks).define().unwrap();
        let options = RequestOptions { thinking: level, ..RequestOptions::default() };
        let messages = vec![Arc::new(Message::user("hi"))];
        let request = Request {
            model: "undeclared".to_owned(),
            system: "Be brief.".into(),
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            options,
        };
        let model = ModelTable::builtin().find(info.name, &request.model);
        let body = info.format_at(None).unwrap().body(&request, &model, info.name).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn undeclared_model_thinks_at_the_users_request() {
        use CustomFormat::{Anthropic, Gemini, OpenaiChat, OpenaiResponses};
        let high = |format, thinking| asked(format, thinking, ThinkingLevel::High);
        assert_eq!(high(OpenaiChat, None)["reasoning_effort"], "high");
        assert_eq!(high(OpenaiChat, Some(CustomThinking::Effort))["reasoning_effort"], "high");
        assert_eq!(high(OpenaiChat, Some(CustomThinking::Object))["reasoning"], json!({ "effort": "high" }));
        let switch = high(OpenaiChat, Some(CustomThinking::Switch));
        assert_eq!((&switch["thinking"], &switch["reasoning_effort"]), (&json!({ "type": "enabled" }), &json!("high")));
        assert_eq!(high(OpenaiResponses, None)["reasoning"]["effort"], "high");
        assert_eq!(high(Gemini, None)["generationConfig"]["thinkingConfig"]["thinkingLevel"], "HIGH");
        assert_eq!(high(Anthropic, None)["thinking"]["type"], "enabled");
        for format in [OpenaiChat, OpenaiResponses, Gemini, Anthropic] {
            let off = asked(format, None, ThinkingLevel::Off).to_string();
            assert!(!off.contains("reasoning") && !off.contains("thinking"), "{off}");
        }
        let off = asked(OpenaiChat, Some(CustomThinking::Switch), ThinkingLevel::Off);
        assert_eq!(off["thinking"], json!({ "type": "disabled" }));
    }

    #[test]
    fn system_prompt_has_the_role_that_the_user_names() {
        for (developer_role, role) in [(None, "system"), (Some(true), "developer"), (Some(false), "system")] {
            let quirks = CustomQuirks { developer_role, ..CustomQuirks::default() };
            let body = asked_with(CustomFormat::OpenaiChat, quirks, ThinkingLevel::Off);
            assert_eq!(body["messages"][0], json!({ "role": role, "content": "Be brief." }));
        }
    }

    #[test]
    fn taken_names_and_foreign_quirks_are_refused() {
        let mut registry = Registry::default();
        for name in ["anthropic", "openai", "a/b", "a b", ""] {
            let error = registry.add(custom(name, CustomFormat::OpenaiChat, CustomQuirks::default())).unwrap_err();
            assert!(matches!(error, RegistryError::CustomName { .. }), "{error}");
        }
        let quirks = CustomQuirks { store: Some(true), ..CustomQuirks::default() };
        let error = registry.add(custom("x", CustomFormat::Gemini, quirks)).unwrap_err();
        assert_eq!(error.to_string(), "`store` does not apply to the format of the provider `x`");
    }
}
