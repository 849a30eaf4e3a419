//! Asking a server how large the context window of a model is.

use crate::support::server::{Server, Step};
use pinion_providers::{ProviderConfig, ProviderContext, ServedWindow, provider};
use secrecy::SecretString;
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

fn at(url: &str) -> ServedWindow {
    let config = ProviderConfig {
        base_url: Some(url.to_owned()),
        api_key: Some(SecretString::from("sk-secret")),
        headers: vec![("x-secret".to_owned(), SecretString::from("sk-secret"))],
        ..ProviderConfig::default()
    };
    let info = provider("openai-chat").unwrap();
    ServedWindow::from_config(info, config, "m", &ProviderContext::default()).unwrap().unwrap()
}

/// Returns the window that a server reports if it gives this answer to every request, and the paths of the requests.
async fn told(answer: Value) -> (Option<u64>, Vec<String>) {
    let server = Server::answering(JSON, answer.to_string().as_bytes()).await;
    let window = at(&server.url).ask().await.unwrap();
    let seen = server.seen();
    assert!(seen.iter().all(|seen| !seen.head.contains("sk-secret")), "neither the key nor headers are sent");
    (window, seen.iter().map(|seen| seen.head.split(' ').nth(1).unwrap().to_owned()).collect())
}

#[tokio::test]
async fn window_is_found_in_the_list_or_beside_it() {
    let listed = json!({ "data": [{ "id": "m", "max_model_len": 8_192 }] });
    assert_eq!(told(listed).await, (Some(8_192), vec!["/v1/models".into()]));
    let settings = json!({ "n_ctx": 4_096 });
    let trained = json!({ "id": "m", "owned_by": "llamacpp", "meta": { "n_ctx_train": 40_960 } });
    let used = json!({ "data": [trained], "default_generation_settings": settings });
    assert_eq!(told(used).await, (Some(4_096), vec!["/v1/models".into(), "/props".into()]));
    let silent = json!({ "data": [{ "id": "m" }] });
    assert_eq!(told(silent).await, (None, vec!["/v1/models".into(), "/props".into(), "/api/v0/models".into()]));
}

#[tokio::test]
async fn server_without_a_list_is_an_error() {
    let other = Server::answering(JSON, b"hello").await;
    assert!(at(&other.url).ask().await.is_err());
    let closed = Server::start(vec![Step::Cut]).await;
    assert!(at(&closed.url).ask().await.is_err());
}

#[test]
fn vendor_that_lists_models_only_with_a_key_is_not_asked() {
    let of = |name: &str| {
        let (config, context) = Default::default();
        ServedWindow::from_config(provider(name).unwrap(), config, "m", &context).unwrap()
    };
    assert!(of("openai-responses").is_none() && of("anthropic").is_none() && of("groq").is_none());
    assert!(of("openrouter").is_some());
}
