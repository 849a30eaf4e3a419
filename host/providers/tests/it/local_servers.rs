//! Asking servers on this machine for their models.

use crate::support::server::{Server, Step, answer};
use pinion_protocol::ProviderError;
use pinion_providers::{LocalServer, ProviderConfig, ProviderContext, provider};
use secrecy::SecretString;
use serde_json::json;

const JSON: &str = "content-type: application/json\r\n";

fn at(name: &str, url: &str) -> Option<LocalServer> {
    let config = ProviderConfig {
        base_url: Some(url.to_owned()),
        api_key: Some(SecretString::from("sk-secret")),
        headers: vec![("x-secret".to_owned(), SecretString::from("sk-secret"))],
        ..ProviderConfig::default()
    };
    LocalServer::from_config(provider(name).unwrap(), config, &ProviderContext::default()).unwrap()
}

#[tokio::test]
async fn models_in_memory_come_first_and_no_key_is_sent() {
    let list = json!({ "data": [
        { "id": "cold", "owned_by": "llamacpp", "status": { "value": "unloaded" } },
        { "id": "warm", "owned_by": "llamacpp", "status": { "value": "loaded" } },
        { "id": "no name", "owned_by": "llamacpp" },
    ] });
    let server = Server::answering(JSON, list.to_string().as_bytes()).await;
    let models = at("llama-cpp", &server.url).unwrap().models().await.unwrap();
    let names: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.is_loaded)).collect();
    assert_eq!(names, [("warm", true), ("cold", false)]);
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("GET /v1/models HTTP/1.1\r\n") && !seen.head.contains("sk-secret"), "{}", seen.head);
}

#[tokio::test]
async fn other_program_at_the_port_has_no_models() {
    let other = Server::answering(JSON, br#"{"data":[{"id":"x"}]}"#).await;
    assert!(at("llama-cpp", &other.url).unwrap().models().await.unwrap().is_empty());
    let page = Server::start(vec![Step::Send(answer("200 OK", "", b"<html>"))]).await;
    assert!(at("llama-cpp", &page.url).unwrap().models().await.is_err());
    let closed = Server::start(vec![Step::Cut]).await;
    assert!(at("lm-studio", &closed.url).unwrap().models().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_given_up_soon() {
    let silent = Server::start(vec![Step::Hang]).await;
    for name in ["ollama", "llama-cpp", "lm-studio"] {
        let error = at(name, &silent.url).unwrap().models().await.unwrap_err();
        assert!(matches!(error, ProviderError::Network { .. }), "{error}");
    }
}

#[tokio::test]
async fn server_on_another_machine_is_not_asked() {
    assert!(at("ollama", "http://192.0.2.1:11434").is_none() && at("lm-studio", "https://box.example/v1").is_none());
}
