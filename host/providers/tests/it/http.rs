//! Requests to a real socket, and the handling of responses.

use crate::support::server::{Server, Step, answer, chunk, chunked_head};
use crate::support::{notation, request, text};
use futures_util::StreamExt;
use pinion_protocol::{EventStream, ProviderError, StreamEvent, ThinkingLevel};
use pinion_providers::{
    ModelTable, ProviderConfig, ProviderContext, ProxySettings, ProxyUrl, TransportSettings, build, build_info,
};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-test-0123456789abcdef";
const CLAUDE: &[u8] = include_bytes!("../fixtures/anthropic/text.sse");
const CHAT: &[u8] = include_bytes!("../fixtures/chat/text.sse");
const EVENTS: &str = "content-type: text/event-stream\r\n";
const JSON: &str = "content-type: application/json\r\n";

fn config(name: &str, url: &str) -> ProviderConfig {
    ProviderConfig {
        name: name.to_owned(),
        base_url: Some(url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        ..ProviderConfig::default()
    }
}

fn ask(config: ProviderConfig, token: CancellationToken) -> EventStream {
    let provider = build(config, ModelTable::builtin()).unwrap();
    provider.stream(request("claude-opus-5-5", vec![text("hi")]), token)
}

async fn all(stream: EventStream) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let items: Vec<_> = stream.collect().await;
    let error = items.iter().find_map(|item| item.as_ref().err().cloned());
    (items.into_iter().filter_map(Result::ok).collect(), error)
}

/// Returns the error for a server's response.
async fn refused(status: &str, headers: &str, body: &[u8]) -> ProviderError {
    let server = Server::start(vec![Step::Send(answer(status, headers, body))]).await;
    all(ask(config("anthropic", &server.url), CancellationToken::new())).await.1.unwrap()
}

#[tokio::test]
async fn anthropic_request_and_reply() {
    let server = Server::answering(EVENTS, CLAUDE).await;
    let (events, error) = all(ask(config("anthropic", &server.url), CancellationToken::new())).await;
    assert_eq!(error, None);
    assert_eq!(notation(&events).last().unwrap(), "stop Stop");
    let seen = &server.seen()[0];
    let head = seen.head.to_lowercase();
    for line in [
        "post /v1/messages http/1.1",
        &format!("x-api-key: {KEY}"),
        "anthropic-version: 2023-06-01",
        "anthropic-beta: thinking-binding-controls-2026-08-01",
        "content-type: application/json",
        "accept: text/event-stream",
        "accept-encoding: gzip",
        "user-agent: pinion/",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
    assert!(!head.contains("authorization"));
    assert!(serde_json::from_slice::<serde_json::Value>(&seen.body).is_ok());
}

#[tokio::test]
async fn chat_completions_request_and_reply() {
    let server = Server::answering(EVENTS, CHAT).await;
    let (events, error) = all(ask(config("openai-chat", &server.url), CancellationToken::new())).await;
    assert_eq!((error, events.len()), (None, 7));
    let head = server.seen()[0].head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions ") && head.contains(&format!("authorization: bearer {KEY}")));
}

#[tokio::test]
async fn connection_is_reused() {
    let server = Server::start(vec![Step::Send(chunked_head()), Step::Send(chunk(CHAT)), Step::Send(chunk(b""))]).await;
    let provider = build(config("openai-chat", &server.url), ModelTable::builtin()).unwrap();
    for _ in 0..3 {
        let mut stream = provider.stream(request("m", vec![text("hi")]), CancellationToken::new());
        // Like the loop, nothing polls after the end.
        while !matches!(stream.next().await.unwrap().unwrap(), StreamEvent::End { .. }) {}
    }
    let connections: Vec<usize> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 0]);
}

#[tokio::test]
async fn request_is_sent_when_first_polled() {
    let server = Server::answering(EVENTS, CHAT).await;
    drop(ask(config("openai-chat", &server.url), CancellationToken::new()));
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn compressed_reply_is_read() {
    // CHAT through `gzip -9n`.
    let server = Server::answering(
        &format!("{EVENTS}content-encoding: gzip\r\n"),
        include_bytes!("../fixtures/chat/text.sse.gz"),
    )
    .await;
    let (events, error) = all(ask(config("openai-chat", &server.url), CancellationToken::new())).await;
    assert_eq!((error, events.len()), (None, 7));
}

#[tokio::test]
async fn broken_compression_is_a_network_error() {
    let server = Server::answering(&format!("{EVENTS}content-encoding: gzip\r\n"), b"not gzip at all").await;
    let error = all(ask(config("openai-chat", &server.url), CancellationToken::new())).await.1.unwrap();
    assert!(matches!(error, ProviderError::Network { .. }), "{error:?}");
}

#[tokio::test]
async fn slow_headers_time_out() {
    let mut server = Server::start(vec![Step::Hang]).await;
    let mut stream = ask(config("anthropic", &server.url), CancellationToken::new());
    let asked = tokio::select! { () = server.asked() => true, _ = stream.next() => false };
    assert!(asked);
    tokio::time::pause();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.is_retryable() && error.to_string().ends_with("within 300 s"), "{error}");
}

#[tokio::test]
async fn silent_reply_times_out() {
    let beginning = [chunked_head(), chunk(&CLAUDE[..600])].concat();
    let server = Server::start(vec![Step::Send(beginning), Step::Hang]).await;
    let mut asked = config("anthropic", &server.url);
    asked.http.idle_timeout = Duration::from_secs(7);
    let mut stream = ask(asked, CancellationToken::new());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Start { .. }))));
    tokio::time::pause();
    let (_, error) = all(stream).await;
    assert_eq!(error, Some(ProviderError::Network { message: "no data received for 7 s".to_owned() }));
}

#[tokio::test]
async fn truncated_reply_is_a_network_error() {
    for beginning in [vec![], chunked_head(), [chunked_head(), chunk(&CLAUDE[..600])].concat()] {
        let server = Server::start(vec![Step::Send(beginning), Step::Cut]).await;
        let error = all(ask(config("anthropic", &server.url), CancellationToken::new())).await.1.unwrap();
        let ProviderError::Network { message } = &error else { panic!("{error:?}") };
        // Not called a failure to decompress.
        assert!(message.starts_with("the connection to `127.0.0.1:") && message.contains(" broke: "), "{message}");
    }
}

#[tokio::test]
async fn unreachable_server_is_a_network_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = all(ask(config("anthropic", &url), CancellationToken::new())).await.1.unwrap();
    assert!(
        matches!(&error, ProviderError::Unreachable { message } if message.starts_with("could not connect to `127.0.0.1:")),
        "{error:?}"
    );
}

#[tokio::test]
async fn server_without_tls_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = async {
        // Reads all that the client sends first: bytes left unread would reset the connection instead of closing it.
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.unwrap();
        let mut hello = vec![0; u16::from_be_bytes([head[3], head[4]]).into()];
        stream.read_exact(&mut hello).await.unwrap();
    };
    let asked = all(ask(config("anthropic", &url), CancellationToken::new()));
    let (_, error) = tokio::select! { answer = asked => answer, () = async { server.await; std::future::pending().await } => unreachable!() };
    match error.unwrap() {
        ProviderError::Unreachable { message } => {
            assert!(message.contains("the server closed it in the TLS handshake"), "{message}");
        }
        // A machine without certificate authorities.
        ProviderError::Api { .. } => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn cancellation_ends_a_request_at_every_stage() {
    let mut server = Server::start(vec![Step::Hang]).await;
    let token = CancellationToken::new();
    let mut stream = ask(config("anthropic", &server.url), token.clone());
    tokio::select! { () = server.asked() => {}, _ = stream.next() => panic!("no answer was sent") }
    token.cancel();
    assert_eq!(all(stream).await, (vec![], Some(ProviderError::Cancelled)));
    assert_eq!(all(ask(config("anthropic", &server.url), token)).await, (vec![], Some(ProviderError::Cancelled)));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn rate_limit_reports_the_retry_delay() {
    let body = br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"req_1"}"#;
    let error =
        refused("429 Too Many Requests", &format!("{JSON}retry-after: 12\r\nrequest-id: req_1\r\n"), body).await;
    let expected = ProviderError::RateLimited {
        message: "`anthropic`: HTTP 429: slow down (request req_1)".to_owned(),
        retry_after: Some(Duration::from_secs(12)),
    };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn refusals_are_classified() {
    let body = br#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    assert!(matches!(refused("400 Bad Request", JSON, body).await, ProviderError::ContextOverflow { .. }));
    assert!(matches!(refused("413 Too Large", "", b"").await, ProviderError::ContextOverflow { .. }));
    assert!(matches!(refused("401 Unauthorized", JSON, b"{}").await, ProviderError::Auth { .. }));
    assert!(matches!(refused("529 Overloaded", JSON, b"{}").await, ProviderError::Overloaded { .. }));
    assert!(matches!(refused("404 Not Found", JSON, b"{}").await, ProviderError::Api { status: Some(404), .. }));
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let error = refused("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", b"").await;
    assert!(error.to_string().contains("set the base URL"), "{error}");
}

#[tokio::test]
async fn response_that_is_no_stream_is_an_error() {
    let error = refused("200 OK", JSON, br#"{"error":{"type":"overloaded_error","message":"busy"}}"#).await;
    assert_eq!(error, ProviderError::Overloaded { message: "`anthropic`: busy".to_owned(), retry_after: None });
    let error = refused("200 OK", JSON, br#"{"detail":"Not Found"}"#).await;
    assert_eq!(error.to_string(), "malformed reply: expected a stream of events, got `application/json`");
    let error = refused("200 OK", "content-type: text/html\r\n", b"<html>log in</html>").await;
    assert_eq!(error.to_string(), "malformed reply: expected a stream of events, got `text/html`");
}

#[tokio::test]
async fn huge_error_body_is_truncated() {
    let error = refused("500 Oh", "", &vec![b'x'; 1 << 20]).await;
    assert!(error.to_string().len() < 3_000);
}

#[tokio::test]
async fn huge_event_is_an_error() {
    let endless = [chunked_head(), chunk(b"data: "), chunk(&vec![b'x'; 17 << 20])].concat();
    let server = Server::start(vec![Step::Send(endless), Step::Hang]).await;
    let error = all(ask(config("anthropic", &server.url), CancellationToken::new())).await.1.unwrap();
    assert!(matches!(&error, ProviderError::Malformed { message } if message.contains("16 MiB")), "{error:?}");
}

#[tokio::test]
async fn error_never_contains_a_key_that_the_server_repeats() {
    let said =
        format!(r#"{{"error":{{"message":"Incorrect API key {KEY} (sk-test-****cdef), extra secret-header-value"}}}}"#);
    let server = Server::start(vec![Step::Send(answer("401 Unauthorized", JSON, said.as_bytes()))]).await;
    let mut asked = config("openai-chat", &server.url);
    asked.headers = vec![("x-extra".to_owned(), SecretString::from("secret-header-value"))];
    let provider = build(asked, ModelTable::builtin()).unwrap();
    let error = all(provider.stream(request("m", vec![text("hi")]), CancellationToken::new())).await.1.unwrap();
    let shown = format!("{error} {error:?}");
    assert!(error.to_string().contains("Incorrect API key sk-[redacted] ([redacted]), extra [redacted]"), "{error}");
    assert!(!shown.contains("0123456789") && !shown.contains("cdef") && !shown.contains("secret-header"));
}

#[tokio::test]
async fn key_in_a_malformed_event_is_not_shown() {
    for start in ["", "{\""] {
        let server = Server::answering(EVENTS, format!("data: {start}{KEY}\n\n").as_bytes()).await;
        let error = all(ask(config("openai-chat", &server.url), CancellationToken::new())).await.1.unwrap();
        assert!(matches!(error, ProviderError::Malformed { .. }) && !error.to_string().contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn missing_key_is_reported_before_any_request() {
    let config = ProviderConfig { name: "anthropic".to_owned(), ..ProviderConfig::default() };
    let error = all(ask(config, CancellationToken::new())).await.1.unwrap();
    let message = "no key for `anthropic`: set the environment variable `ANTHROPIC_API_KEY`".to_owned();
    assert_eq!(error, ProviderError::Auth { message });
}

#[tokio::test]
async fn key_unfit_for_a_header_is_reported_without_showing_it() {
    let mut asked = config("anthropic", "http://127.0.0.1:1");
    asked.api_key = Some(SecretString::from("bad\nkey"));
    let error = all(ask(asked, CancellationToken::new())).await.1.unwrap();
    let message = "the key contains a line break, which is not allowed in a header".to_owned();
    assert_eq!(error, ProviderError::Auth { message });
}

#[tokio::test]
async fn variable_with_a_key_unfit_for_a_header_is_named() {
    let info = pinion_providers::provider("anthropic").unwrap();
    let keys = pinion_providers::KeySources::new(info)
        .environment(|name| (name == "ANTHROPIC_API_KEY").then(|| "sk-1\nsk-2".to_owned()));
    let asked = ProviderConfig { api_key: None, ..config("anthropic", "http://127.0.0.1:1") };
    let context = ProviderContext { keys: Some(Arc::new(keys)), ..ProviderContext::default() };
    let provider = build_info(info, asked, context, ModelTable::builtin()).unwrap();
    let stream = provider.stream(request("claude-opus-5-5", vec![text("hi")]), CancellationToken::new());
    let error = all(stream).await.1.unwrap().to_string();
    assert!(error.contains("a line break") && error.contains("comes from `ANTHROPIC_API_KEY`"), "{error}");
    assert!(!error.contains("sk-"), "{error}");
}

#[tokio::test]
async fn request_key_and_user_headers_are_sent() {
    let server = Server::answering(EVENTS, CLAUDE).await;
    let mut asked = config("anthropic", &server.url);
    asked.headers = vec![
        ("anthropic-beta".to_owned(), SecretString::from("mine-2026")),
        ("anthropic-version".to_owned(), SecretString::from("2030-01-01")),
    ];
    let provider = build(asked, ModelTable::builtin()).unwrap();
    let mut request = request("claude-opus-5-5", vec![text("hi")]);
    request.options.api_key = Some(SecretString::from("sk-other-key\n"));
    request.options.thinking = ThinkingLevel::High;
    all(provider.stream(request, CancellationToken::new())).await;
    let head = server.seen()[0].head.to_lowercase();
    assert!(head.contains("x-api-key: sk-other-key\r\n") && !head.contains(KEY));
    assert!(head.contains("anthropic-beta: thinking-binding-controls-2026-08-01,mine-2026\r\n"), "{head}");
    assert!(head.contains("anthropic-version: 2030-01-01\r\n"));
}

#[tokio::test]
async fn own_server_may_need_no_key() {
    let server = Server::answering(EVENTS, CHAT).await;
    let asked = ProviderConfig { api_key: None, ..config("openai-chat", &server.url) };
    assert_eq!(all(ask(asked, CancellationToken::new())).await.1, None);
    assert!(!server.seen()[0].head.to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn proxy_is_used_only_where_configured() {
    let proxy = Server::answering(EVENTS, CHAT).await;
    let url = || ProxyUrl { url: SecretString::from(proxy.url.trim_end_matches("/v1")), origin: "p".to_owned() };
    let settings = |except: Option<&str>| TransportSettings {
        proxy: ProxySettings { except: except.map(str::to_owned), ..ProxySettings::always(url()) },
        ..TransportSettings::default()
    };
    let through = ProviderConfig { http: settings(None), ..config("openai-chat", "http://somewhere.invalid/v1") };
    assert_eq!(all(ask(through, CancellationToken::new())).await.1, None);
    assert!(proxy.seen()[0].head.starts_with("POST http://somewhere.invalid/v1/chat/completions "));
    let around = ProviderConfig { http: settings(Some("127.0.0.1")), ..config("openai-chat", &proxy.url) };
    assert_eq!(all(ask(around, CancellationToken::new())).await.1, None);
    assert!(proxy.seen()[1].head.starts_with("POST /v1/chat/completions "));
}
