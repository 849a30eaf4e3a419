//! The context window of a model, as its server tells it: vLLM, llama.cpp, LM Studio and OpenRouter report it in the
//! list of their models, or in a resource next to it.

use crate::formats::WireFormat;
use crate::provider::{ProviderConfig, ProviderContext};
use crate::transport::HttpTransport;
use crate::vendors::{Endpoint, ProviderInfo, RegistryError, UrlVariables};
use pinion_protocol::ProviderError;
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// The time that the server has for each answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a list. OpenRouter's list has one MiB.
const MAX_LIST_BYTES: usize = 16 << 20;
/// The windows that a server can mean.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// Members of an entry that name its window, those for the loaded model first.
const MEMBERS: [&str; 5] =
    ["/loaded_context_length", "/max_model_len", "/context_length", "/context_window", "/max_context_length"];
/// The vendor whose list has windows and needs no key.
const OPEN_LIST: &str = "openrouter";

/// A server that may say how large the context window of one of its models is.
#[derive(Debug)]
pub struct ServedWindow {
    list: Url,
    model: String,
    transport: HttpTransport,
}

impl ServedWindow {
    /// The server of a configuration; only the base URL, the proxy and the certificates count. `None` for a vendor's
    /// own server that lists models only with a key. Sends nothing.
    ///
    /// # Errors
    /// The base URL, the proxy or the certificates are invalid.
    pub fn from_config(
        info: &'static ProviderInfo,
        config: ProviderConfig,
        model: &str,
        context: &ProviderContext,
    ) -> Result<Option<Self>, RegistryError> {
        let base = config.base_url.as_deref();
        let is_open = base.is_some() || !info.needs_key(None) || info.name == OPEN_LIST;
        if !is_open || !matches!(info.format_at(base), Some(WireFormat::OpenAiChat(_) | WireFormat::OpenAiResponses(_)))
        {
            return Ok(None);
        }
        let list = Endpoint::new(info, base, UrlVariables::default())?.beside("models");
        config.http.proxy.check(&list)?;
        let transport = HttpTransport::new(config.http, &context.certificates)
            .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
        Ok(Some(Self { list, model: model.to_owned(), transport }))
    }

    /// Names the server and the model, for a cache.
    pub fn key(&self) -> String {
        format!("{} {}", self.list, self.model)
    }

    /// Asks the server, without key and headers. Returns `None` if it does not report a window.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or has no list of models.
    pub async fn ask(&self) -> Result<Option<u64>, ProviderError> {
        let trained = match window_in(&self.get(self.list.clone()).await?, &self.model) {
            ListedWindow::Window(tokens) => return Ok(Some(tokens)),
            ListedWindow::Missing => return Ok(None),
            ListedWindow::Trained(tokens) => Some(tokens),
            ListedWindow::Silent => None,
        };
        // llama.cpp lists the window of the training, and says elsewhere how much of it is used.
        let props = self.get(self.beside("props")).await.ok();
        let used = props.and_then(|props| number(&props, "/default_generation_settings/n_ctx"));
        if let Some(tokens) = used.or(trained) {
            return Ok(Some(tokens));
        }
        let list = self.get(self.beside("api/v0/models")).await.ok();
        Ok(match list.map(|list| window_in(&list, &self.model)) {
            Some(ListedWindow::Window(tokens)) => Some(tokens),
            _ => None,
        })
    }

    /// Returns the URL of a resource next to the versioned part of the API.
    fn beside(&self, path: &str) -> Url {
        let mut url = self.list.clone();
        let base = self.list.path().trim_end_matches("/models").trim_end_matches("/v1");
        url.set_path(&format!("{base}/{path}"));
        url
    }

    async fn get(&self, url: Url) -> Result<Value, ProviderError> {
        let late = || ProviderError::Network { message: format!("no answer within {} s", PATIENCE.as_secs()) };
        let answer = timeout(PATIENCE, self.transport.get(url, MAX_LIST_BYTES)).await.map_err(|_| late())??;
        serde_json::from_slice(&answer)
            .map_err(|error| ProviderError::Malformed { message: format!("the answer is no list of models: {error}") })
    }
}

/// The words of a list about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListedWindow {
    /// Its window in tokens.
    Window(u64),
    /// The window of its training; the server may use less.
    Trained(u64),
    /// It is there, without a window.
    Silent,
    /// It is not there.
    Missing,
}

fn window_in(list: &Value, model: &str) -> ListedWindow {
    let entries = ["/data", "/models"].into_iter().find_map(|member| list.pointer(member)?.as_array());
    let entries = entries.map(Vec::as_slice).unwrap_or_default();
    let is_it = |entry: &&Value| ["id", "name", "model"].into_iter().any(|name| entry[name].as_str() == Some(model));
    let named = entries.iter().find(is_it);
    // llama.cpp answers to any name.
    let only = || entries.first().filter(|entry| entries.len() == 1 && entry["owned_by"] == "llamacpp");
    let Some(entry) = named.or_else(only) else { return ListedWindow::Missing };
    if let Some(tokens) = MEMBERS.into_iter().find_map(|member| number(entry, member)) {
        return ListedWindow::Window(tokens);
    }
    number(entry, "/meta/n_ctx_train").map_or(ListedWindow::Silent, ListedWindow::Trained)
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64().filter(|tokens| WINDOWS.contains(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn window_is_found_in_the_lists_of_servers() {
        for (list, listed) in [
            (
                json!({ "object": "list", "data": [{ "id": "m", "max_model_len": 32_768 }] }),
                ListedWindow::Window(32_768),
            ),
            (
                json!({ "data": [{ "id": "x", "context_length": 1_000 }, { "id": "m", "context_length": 128_000 }] }),
                ListedWindow::Window(128_000),
            ),
            (
                json!({ "data": [{ "id": "m", "max_context_length": 131_072, "loaded_context_length": 4_096 }] }),
                ListedWindow::Window(4_096),
            ),
            (
                json!({ "models": [{ "name": "x.gguf" }], "data": [
                    { "id": "x.gguf", "owned_by": "llamacpp", "meta": { "n_ctx_train": 40_960, "n_params": 7 } }
                ] }),
                ListedWindow::Trained(40_960),
            ),
            (json!({ "data": [{ "id": "m", "owned_by": "organization_owner" }] }), ListedWindow::Silent),
            (json!({ "data": [{ "id": "m", "context_length": null, "max_model_len": "many" }] }), ListedWindow::Silent),
            (json!({ "data": [{ "id": "m", "max_model_len": 0 }] }), ListedWindow::Silent),
            (json!({ "data": [{ "id": "other", "max_model_len": 32_768 }] }), ListedWindow::Missing),
            (json!({ "data": {} }), ListedWindow::Missing),
            (json!([]), ListedWindow::Missing),
        ] {
            assert_eq!(window_in(&list, "m"), listed, "{list}");
        }
    }
}
