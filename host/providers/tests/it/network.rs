//! Connections that fail: the names in the error, and whether it is worth a retry.

use crate::support::server::{Server, Step, answer};
use crate::support::tls::Http2Server;
use crate::support::{request, text};
use futures_util::StreamExt;
use pinion_protocol::ProviderError;
use pinion_providers::{
    KeySources, ModelTable, ProviderConfig, ProviderContext, ProxySettings, ProxyUrl, RegistryError, TransportSettings,
    build, build_with, provider,
};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn config(url: &str) -> ProviderConfig {
    ProviderConfig { name: "openai-chat".to_owned(), base_url: Some(url.to_owned()), ..ProviderConfig::default() }
}

async fn error(config: ProviderConfig) -> ProviderError {
    let provider = build(config, ModelTable::builtin()).unwrap();
    let items: Vec<_> = provider.stream(request("m", vec![text("hi")]), CancellationToken::new()).collect().await;
    items.into_iter().find_map(Result::err).unwrap()
}

async fn answered(status: &str, headers: &str, body: &[u8]) -> ProviderError {
    let server = Server::start(vec![Step::Send(answer(status, headers, body))]).await;
    error(config(&server.url)).await
}

/// Returns the address of a port without a listener.
async fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

fn proxy(url: &str, origin: &str) -> ProxyUrl {
    ProxyUrl { url: SecretString::from(url), origin: origin.to_owned() }
}

#[tokio::test]
async fn refused_connection_names_host_and_port() {
    let port = closed_port().await;
    let error = error(config(&format!("http://{port}"))).await;
    assert!(!error.is_retryable() && error.to_string().contains(&format!("`{port}`: Connection refused")), "{error}");
}

#[tokio::test]
async fn unreachable_proxy_is_named_without_its_password() {
    let port = closed_port().await;
    let proxy = ProxySettings {
        https: Some(proxy(&format!("http://me:hunter22@{port}"), "HTTPS_PROXY")),
        ..ProxySettings::default()
    };
    let http = TransportSettings { proxy, ..TransportSettings::default() };
    let error = error(ProviderConfig { http, ..config("https://somewhere.invalid/v1") }).await;
    let expected = format!("`somewhere.invalid:443` through the proxy `http://{port}` (HTTPS_PROXY)");
    assert!(error.to_string().contains(&expected) && !format!("{error:?}").contains("hunter22"), "{error}");
}

#[tokio::test]
async fn https_proxy_gets_no_request_without_tls() {
    let spy = Server::answering("", b"").await;
    let proxy = ProxySettings {
        https: Some(proxy(spy.url.trim_end_matches("/v1"), "HTTPS_PROXY")),
        for_loopback: true,
        ..ProxySettings::default()
    };
    let http = TransportSettings { proxy, ..TransportSettings::default() };
    let server = Server::answering("content-type: text/event-stream\r\n", b"data: [DONE]\n\n").await;
    let provider = build(ProviderConfig { http, ..config(&server.url) }, ModelTable::builtin()).unwrap();
    let _: Vec<_> = provider.stream(request("m", vec![text("hi")]), CancellationToken::new()).collect().await;
    assert_eq!((spy.seen().len(), server.seen().len()), (0, 1));
}

#[tokio::test]
async fn unusable_proxy_fails_before_any_request() {
    for (url, part) in [("::garbage::", "`HTTPS_PROXY`"), ("gopher://h:1", "unknown scheme `gopher`")] {
        let proxy = ProxySettings { https: Some(proxy(url, "HTTPS_PROXY")), ..ProxySettings::default() };
        let http = TransportSettings { proxy, ..TransportSettings::default() };
        let of = |base: &str| build(ProviderConfig { http: http.clone(), ..config(base) }, ModelTable::builtin());
        let Err(error) = of("https://api.example") else { panic!("{url} was accepted") };
        assert!(matches!(error, RegistryError::Proxy(_)) && error.to_string().contains(part), "{error}");
        assert!(error.hint().is_some() && of("http://127.0.0.1:1").is_ok());
    }
}

#[tokio::test]
async fn unknown_host_is_not_retried_before_the_first_response() {
    let error = error(config("http://no-such-host.invalid/v1")).await;
    // Without a working resolver, the failure is temporary.
    let is_temporary = error.to_string().contains("emporary");
    assert!(error.is_retryable() == is_temporary && error.to_string().contains("no-such-host.invalid:80"), "{error}");
}

#[tokio::test]
async fn untrusted_certificate_is_explained_and_not_retried() {
    let server = Http2Server::answering("text/event-stream", Vec::new()).await;
    let error = error(config(&server.url)).await;
    let shown = error.to_string();
    assert!(!error.is_retryable(), "{error:?}");
    // A machine without certificate authorities cannot even begin.
    assert!(shown.contains("`certificates` under") || shown.contains("could not set up HTTP"), "{shown}");
}

#[tokio::test]
async fn server_without_tls_is_explained_and_not_retried() {
    let silent = Server::start(vec![Step::Send(answer("404 Not Found", "", b""))]).await;
    let mut asked = config(&silent.url.replace("http:", "https:"));
    asked.http.connect_timeout = Duration::from_millis(100);
    let error = error(asked).await;
    let shown = error.to_string();
    assert!(!error.is_retryable(), "{error:?}");
    assert!(shown.contains("without TLS (use `http://`)") || shown.contains("could not set up HTTP"), "{shown}");
}

#[tokio::test]
async fn response_without_a_reply_is_not_retried() {
    assert!(matches!(answered("204 No Content", "", b"").await, ProviderError::Malformed { .. }));
    assert!(matches!(answered("200 OK", "", b"").await, ProviderError::Malformed { .. }));
    let server = Server::start(vec![Step::Send(b"SSH-2.0-OpenSSH_9\r\n".to_vec()), Step::Cut]).await;
    let error = error(config(&server.url)).await;
    assert!(!error.is_retryable() && error.to_string().contains("not HTTP"), "{error:?}");
}

#[tokio::test]
async fn failing_server_is_not_called_overloaded() {
    let error = answered("500 Oh", "content-type: text/html\r\n", b"<html><title>Oops</title></html>").await;
    assert_eq!(error.to_string(), "unavailable: `openai-chat`: HTTP 500: the response is a web page: Oops");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn requested_delay_is_part_of_the_message() {
    let body = br#"{"error":{"message":"slow down"}}"#;
    let error = answered("429 Too Many", "content-type: application/json\r\nretry-after: 3910\r\n", body).await;
    assert_eq!(error.to_string(), "rate limited: `openai-chat`: HTTP 429: slow down (retry in 1 h 5 min 10 s)");
}

#[tokio::test]
async fn refusal_names_provider_status_and_remedy() {
    let said = async |status, message: &str| {
        let body = serde_json::json!({ "error": { "message": message } }).to_string();
        answered(status, "content-type: application/json\r\n", body.as_bytes()).await.to_string()
    };
    assert_eq!(
        said("404 Not Found", "no model `m`").await,
        "HTTP 404: `openai-chat`: no model `m`; check the model's name and the base URL"
    );
    assert_eq!(
        said("402 Payment Required", "no money").await,
        "HTTP 402: `openai-chat`: no money; check the balance of the account"
    );
    assert_eq!(said("400 Bad Request", "odd").await, "HTTP 400: `openai-chat`: odd");
}

#[tokio::test]
async fn moderated_input_is_not_blamed_on_the_key() {
    let body = br#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}}"#;
    let error = answered("403 Forbidden", "content-type: application/json\r\n", body).await;
    assert_eq!(error.to_string(), "HTTP 403: `openai-chat`: flagged");
}

#[tokio::test]
async fn server_decides_about_retries() {
    let retried = async |status, headers: &str| answered(status, headers, b"{}").await.is_retryable();
    assert!(!retried("500 Oh", "x-should-retry: false\r\n").await);
    assert!(!retried("429 Too Many", "x-should-retry: false\r\n").await);
    assert!(retried("400 Bad Request", "x-should-retry: true\r\n").await);
    assert!(!retried("401 Unauthorized", "x-should-retry: true\r\n").await);
}

#[tokio::test]
async fn reset_in_the_body_is_a_retry_delay() {
    let reset = jiff::Timestamp::now().as_millisecond() + 90_000;
    let headers = serde_json::json!({ "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset.to_string() });
    let body = serde_json::json!({ "error": { "code": 429, "message": "slow", "metadata": { "headers": headers } } });
    let error = answered("429 Too Many", "content-type: application/json\r\n", body.to_string().as_bytes()).await;
    let delay = error.retry_after().unwrap();
    assert!((Duration::from_secs(60)..=Duration::from_secs(90)).contains(&delay), "{delay:?}");
}

#[tokio::test]
async fn proxy_that_rejects_a_password_is_not_said_to_want_one() {
    for (user, expected) in [("me:hunter22@", "the proxy rejected the user"), ("", "the proxy requires a user")] {
        let steps = vec![Step::Send(answer("407 Proxy Authentication Required", "", b"")), Step::Cut];
        let server = Server::start(steps).await;
        let url = server.url.replace("http://", &format!("http://{user}")).replace("/v1", "");
        let proxy = ProxySettings { https: Some(proxy(&url, "HTTPS_PROXY")), ..ProxySettings::default() };
        let http = TransportSettings { proxy, ..TransportSettings::default() };
        let error = error(ProviderConfig { http, ..config("https://somewhere.invalid/v1") }).await;
        assert!(!error.is_retryable() && error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn rejected_key_is_named_with_provider_status_and_remedy() {
    let body = br#"{"error":{"message":"no such key"}}"#;
    for (status, expected) in [
        (
            "401 Unauthorized",
            "`groq` rejected the key from `GROQ_API_KEY`: HTTP 401: no such key; replace the key there",
        ),
        (
            "403 Forbidden",
            "`groq` denied access with the key from `GROQ_API_KEY`: HTTP 403: no such key; check what the key may use",
        ),
    ] {
        let server = Server::start(vec![Step::Send(answer(status, "content-type: application/json\r\n", body))]).await;
        let keys = KeySources::new(provider("groq").unwrap())
            .environment(|name| (name == "GROQ_API_KEY").then(|| "gsk_0123".into()));
        let context = ProviderContext { keys: Some(Arc::new(keys)), ..ProviderContext::default() };
        let config = ProviderConfig { name: "groq".to_owned(), ..config(&server.url) };
        let provider = build_with(config, context, ModelTable::builtin()).unwrap();
        let mut stream = provider.stream(request("m", vec![text("hi")]), CancellationToken::new());
        assert_eq!(stream.next().await.unwrap().unwrap_err().to_string(), expected);
    }
}
