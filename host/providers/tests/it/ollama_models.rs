//! Asking an Ollama server for its models.

use crate::support::server::{Server, Step};
use pinion_providers::{OllamaModels, ProviderConfig, ProviderContext};
use secrecy::SecretString;
use serde_json::json;

const JSON: &str = "content-type: application/json\r\n";

fn at(url: &str) -> OllamaModels {
    let config = ProviderConfig {
        base_url: Some(url.to_owned()),
        api_key: Some(SecretString::from("sk-secret")),
        headers: vec![("x-secret".to_owned(), SecretString::from("sk-secret"))],
        ..ProviderConfig::default()
    };
    OllamaModels::from_config(config, &ProviderContext::default()).unwrap()
}

#[tokio::test]
async fn model_is_found_with_and_without_its_tag() {
    let models = ["qwen3:latest", "qwen3:8b", "hf.co/a/b:Q4"].map(|name| json!({ "name": name, "size": 1 }));
    let server = Server::answering(JSON, json!({ "models": models }).to_string().as_bytes()).await;
    let models = at(&server.url);
    for (meant, found) in [
        ("qwen3", Some("qwen3:latest")),
        ("qwen3:8b", Some("qwen3:8b")),
        ("hf.co/a/b:Q4", Some("hf.co/a/b:Q4")),
        ("qwen", None),
        ("qwen3:", None),
        ("qwen3:8", None),
    ] {
        assert_eq!(models.find(meant).await.unwrap().as_deref(), found, "{meant}");
    }
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("GET /api/tags HTTP/1.1\r\n"), "{}", seen.head);
    // Neither the key nor the name goes to the server.
    assert!(!seen.head.contains("sk-secret") && !seen.head.contains("qwen3"), "{}", seen.head);
}

#[tokio::test]
async fn server_that_sends_no_list_is_an_error() {
    let other = Server::answering(JSON, b"{}").await;
    let error = at(&other.url).find("qwen3").await.unwrap_err();
    assert!(error.to_string().contains("no list of models"), "{error}");
    let closed = Server::start(vec![Step::Cut]).await;
    assert!(at(&closed.url).find("qwen3").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_given_up_after_two_seconds() {
    let silent = Server::start(vec![Step::Hang]).await;
    let error = at(&silent.url).find("qwen3").await.unwrap_err();
    assert!(error.to_string().contains("no answer within 2 s"), "{error}");
}
