//! The models of servers on this machine: Ollama, llama.cpp and LM Studio.
//!
//! - <https://docs.ollama.com/api/tags>, <https://docs.ollama.com/api/ps>
//! - <https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md>
//! - <https://lmstudio.ai/docs/developer/rest/endpoints>

use crate::provider::{ProviderConfig, ProviderContext};
use crate::transport::{HttpTransport, ProxySettings, TransportSettings};
use crate::vendors::{Endpoint, ProviderInfo, RegistryError, UrlVariables};
use pinion_protocol::ProviderError;
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// The providers whose servers usually run on the user's machine.
pub const LOCAL_PROVIDERS: [&str; 3] = [OLLAMA, LLAMA_CPP, "lm-studio"];

const OLLAMA: &str = "ollama";
const LLAMA_CPP: &str = "llama-cpp";
/// The time that a server has for each answer, with the connection. It runs on this machine.
const PATIENCE: Duration = Duration::from_millis(400);
/// Bytes of a list.
const MAX_LIST_BYTES: usize = 4 << 20;
/// Models of one server, entries of a list that are read, and characters of a name.
const MAX_MODELS: usize = 100;
const MAX_ENTRIES: usize = 2_000;
const MAX_NAME: usize = 300;

/// A model that a server on this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// Its name at the server.
    pub id: String,
    /// The server has it in memory, so that the first reply comes soon.
    pub is_loaded: bool,
    /// Its context window in tokens, if the server says.
    pub context_window: Option<u64>,
}

/// A server on this machine, which lists its models.
#[derive(Debug)]
pub struct LocalServer {
    provider: &'static str,
    list: Url,
    transport: HttpTransport,
}

impl LocalServer {
    /// The server of a configuration; only the base URL and the certificates count. `None` for a server on another machine. Sends nothing.
    ///
    /// # Errors
    /// The base URL or the certificates are invalid.
    pub fn from_config(
        info: &'static ProviderInfo,
        config: ProviderConfig,
        context: &ProviderContext,
    ) -> Result<Option<Self>, RegistryError> {
        let path = if info.name == OLLAMA { "api/tags" } else { "models" };
        let list = Endpoint::new(info, config.base_url.as_deref(), UrlVariables::default())?.beside(path);
        if !is_loopback(&list) {
            return Ok(None);
        }
        // No proxy leads to this machine.
        let http = TransportSettings { proxy: ProxySettings::default(), ..config.http };
        let transport = HttpTransport::new(http, &context.certificates)
            .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
        Ok(Some(Self { provider: info.name, list, transport }))
    }

    /// Lists its chat models, those in memory first. Sends neither key nor headers, and takes about a second at most.
    ///
    /// # Errors
    /// No server of this kind answers.
    pub async fn models(&self) -> Result<Vec<LocalModel>, ProviderError> {
        let mut models = match self.provider {
            OLLAMA => {
                let running = self.sibling("ps");
                let (tags, running) = tokio::join!(self.get(self.list.clone()), self.get(running));
                in_ollama(&tags?, running.as_ref().unwrap_or(&Value::Null))
            }
            LLAMA_CPP => in_llama_cpp(&self.get(self.list.clone()).await?),
            _ => match self.get(self.beside_version("api/v0/models")).await {
                Ok(list) => in_lm_studio(&list),
                Err(ProviderError::Network { message }) => return Err(ProviderError::Network { message }),
                // An older server has only the list without states.
                Err(_) => in_lm_studio(&self.get(self.list.clone()).await?),
            },
        };
        models.retain(|model| is_plain(&model.id));
        models.sort_by_key(|model| !model.is_loaded);
        models.truncate(MAX_MODELS);
        Ok(models)
    }

    /// Returns the URL of a resource with another last segment.
    fn sibling(&self, name: &str) -> Url {
        let mut url = self.list.clone();
        let path = url.path().rsplit_once('/').map_or("", |(before, _)| before);
        url.set_path(&format!("{path}/{name}"));
        url
    }

    /// Returns the URL of a resource next to the versioned part of the API.
    fn beside_version(&self, path: &str) -> Url {
        let mut url = self.list.clone();
        let base = self.list.path().trim_end_matches("/models").trim_end_matches("/v1");
        url.set_path(&format!("{base}/{path}"));
        url
    }

    async fn get(&self, url: Url) -> Result<Value, ProviderError> {
        let late = || ProviderError::Network { message: format!("no answer within {} ms", PATIENCE.as_millis()) };
        let answer = timeout(PATIENCE, self.transport.get(url, MAX_LIST_BYTES)).await.map_err(|_| late())??;
        serde_json::from_slice(&answer)
            .map_err(|error| ProviderError::Malformed { message: format!("the answer is no list of models: {error}") })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether a name can be typed and shown.
fn is_plain(id: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    !id.is_empty() && id.chars().count() <= MAX_NAME && !id.chars().any(is_odd)
}

fn entries<'a>(list: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    // Each entry may be compared with each entry of another list.
    list[member].as_array().map(Vec::as_slice).unwrap_or_default().iter().take(MAX_ENTRIES)
}

fn in_ollama(tags: &Value, running: &Value) -> Vec<LocalModel> {
    let of_name = |name: &str| entries(running, "models").find(|entry| entry["name"].as_str() == Some(name));
    let model = |entry: &Value| {
        let id = entry["name"].as_str()?.to_owned();
        let running = of_name(&id);
        let context_window = running.and_then(|entry| entry["context_length"].as_u64());
        Some(LocalModel { is_loaded: running.is_some(), id, context_window })
    };
    entries(tags, "models").filter_map(model).collect()
}

/// Reads the list of llama.cpp; empty for the list of another program at its usual port.
fn in_llama_cpp(list: &Value) -> Vec<LocalModel> {
    let model = |entry: &Value| {
        let id = entry["id"].as_str().filter(|_| entry["owned_by"] == "llamacpp")?.to_owned();
        // A server of a single model names no status, and has it in memory.
        let is_loaded = entry.pointer("/status/value").is_none_or(|status| status == "loaded");
        Some(LocalModel { id, is_loaded, context_window: entry.pointer("/meta/n_ctx").and_then(Value::as_u64) })
    };
    entries(list, "data").filter_map(model).collect()
}

fn in_lm_studio(list: &Value) -> Vec<LocalModel> {
    let model = |entry: &Value| {
        let kind = entry["type"].as_str().unwrap_or("llm");
        let id = entry["id"].as_str().filter(|_| matches!(kind, "llm" | "vlm"))?.to_owned();
        let window = ["loaded_context_length", "max_context_length"].into_iter().find_map(|name| entry[name].as_u64());
        Some(LocalModel { id, is_loaded: entry["state"] == "loaded", context_window: window })
    };
    entries(list, "data").filter_map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(models: &[LocalModel]) -> Vec<(&str, bool, Option<u64>)> {
        models.iter().map(|model| (model.id.as_str(), model.is_loaded, model.context_window)).collect()
    }

    #[test]
    fn lists_of_the_three_servers_are_read() {
        let tags = json!({ "models": [{ "name": "qwen3:8b" }, { "name": "gemma3:latest" }] });
        let running = json!({ "models": [{ "name": "gemma3:latest", "context_length": 4096 }] });
        let expected = [("qwen3:8b", false, None), ("gemma3:latest", true, Some(4096))];
        assert_eq!(seen(&in_ollama(&tags, &running)), expected);
        assert_eq!(in_ollama(&tags, &Value::Null).len(), 2);
        let list = json!({ "data": [
            { "id": "/m/qwen.gguf", "owned_by": "llamacpp", "meta": { "n_ctx": 8192 } },
            { "id": "other", "owned_by": "llamacpp", "status": { "value": "unloaded" } },
            { "id": "gpt-x", "owned_by": "someone" },
        ] });
        assert_eq!(seen(&in_llama_cpp(&list)), [("/m/qwen.gguf", true, Some(8192)), ("other", false, None)]);
        let list = json!({ "data": [
            { "id": "a", "type": "llm", "state": "not-loaded", "max_context_length": 32768 },
            { "id": "b", "type": "vlm", "state": "loaded", "loaded_context_length": 4096, "max_context_length": 9 },
            { "id": "e", "type": "embeddings", "state": "loaded" },
        ] });
        assert_eq!(seen(&in_lm_studio(&list)), [("a", false, Some(32768)), ("b", true, Some(4096))]);
    }

    #[test]
    fn lists_of_other_forms_are_empty() {
        for list in [json!(null), json!([]), json!({ "data": 1, "models": {} }), json!({ "data": [1, {}] })] {
            assert!(
                in_ollama(&list, &list).is_empty() && in_llama_cpp(&list).is_empty() && in_lm_studio(&list).is_empty()
            );
        }
        let long = json!({ "models": vec![json!({ "name": "m" }); MAX_ENTRIES + 1] });
        assert_eq!(in_ollama(&long, &long).len(), MAX_ENTRIES);
        assert!(!is_plain("") && !is_plain("a b") && !is_plain("a\u{1b}[m") && is_plain("/m/a.gguf"));
    }

    #[test]
    fn only_servers_on_this_machine_are_asked() {
        for (url, is_local) in [
            ("http://127.0.0.1:1", true),
            ("http://localhost:1", true),
            ("http://[::1]:1", true),
            ("http://127.0.0.1.example:1", false),
            ("http://192.168.0.2:1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), is_local, "{url}");
        }
    }
}
