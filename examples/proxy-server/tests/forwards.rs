//! The server between Pinion's own client and a vendor simulated on a socket.

#![allow(clippy::unwrap_used, reason = "clippy allows it in tests, but not in what tests share")]

use futures_util::StreamExt;
use pinion_agent::provider::{ProviderError, Request, RequestOptions, StreamEvent, ToolChoice};
use pinion_agent::{Message, Provider};
use pinion_providers::{ModelTable, ProviderConfig, build};
use pinion_proxy_server::{Settings, serve};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "token-of-the-proxy";
const KEY: &str = "sk-ant-key-of-the-vendor";
const REPLY: &str = concat!(
    "data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-opus-5-5\",\"usage\":{\"input_tokens\":3}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm.\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"SIG\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":\\\"a\\\"}\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":5}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
);

/// A vendor that answers every request alike and records it.
struct Vendor {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    /// Receives a message when a client disconnects.
    gone: mpsc::Receiver<()>,
}

impl Vendor {
    async fn answering(answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (notify, gone) = mpsc::channel(8);
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                kept.lock().unwrap().push(request);
                stream.write_all(answer.as_bytes()).await.unwrap();
                // Ends when the other side does.
                while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
                let _ = notify.send(()).await;
            }
        });
        Self { url, asked, gone }
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
    }
    String::from_utf8(bytes).unwrap()
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn events(body: &str) -> String {
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

/// Starts the proxy in front of a vendor and returns its URL. It stops with the test's runtime.
async fn proxy(vendor: &Vendor) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings {
        token: SecretString::from(TOKEN),
        models: ModelTable::builtin(),
        base_urls: BTreeMap::from([("anthropic".to_owned(), vendor.url.clone())]),
        variable: Box::new(|name| (name == "ANTHROPIC_API_KEY").then(|| KEY.to_owned())),
    };
    tokio::spawn(serve(listener, settings, CancellationToken::new()));
    url
}

fn client(name: &str, url: &str, key: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        name: name.to_owned(),
        base_url: Some(url.to_owned()),
        api_key: Some(SecretString::from(key)),
        ..ProviderConfig::default()
    };
    build(config, ModelTable::builtin()).unwrap()
}

fn request(model: &str) -> Request {
    Request {
        model: model.to_owned(),
        system: "Be brief.".into(),
        messages: vec![Arc::new(Message::user("hi"))],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions::default(),
    }
}

async fn ask(provider: &Arc<dyn Provider>, model: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let items: Vec<_> = provider.stream(request(model), CancellationToken::new()).collect().await;
    let error = items.iter().find_map(|item| item.as_ref().err().cloned());
    (items.into_iter().filter_map(Result::ok).collect(), error)
}

#[tokio::test]
async fn reply_through_the_proxy_is_unchanged() {
    let vendor = Vendor::answering(events(REPLY)).await;
    let direct = ask(&client("anthropic", &vendor.url, KEY), "claude-opus-5-5").await;
    let through = ask(&client("proxy", &proxy(&vendor).await, TOKEN), "anthropic/claude-opus-5-5").await;
    assert_eq!(direct.1, None);
    assert_eq!(through, direct);
    let asked = vendor.asked.lock().unwrap();
    assert!(asked[1].to_lowercase().contains(&format!("x-api-key: {KEY}\r\n")) && !asked[1].contains(TOKEN));
    assert_eq!(asked[0].split("\r\n\r\n").nth(1), asked[1].split("\r\n\r\n").nth(1));
}

#[tokio::test]
async fn vendor_refusal_becomes_the_clients_error() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let vendor = Vendor::answering(answer("429 Too Many Requests", "retry-after: 7\r\n", body)).await;
    let (events, error) = ask(&client("proxy", &proxy(&vendor).await, TOKEN), "claude-opus-5-5").await;
    assert_eq!(events, []);
    // The text names the vendor, and not the proxy in between.
    let message = "`anthropic`: HTTP 429: slow down".to_owned();
    let expected = ProviderError::RateLimited { message, retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(error, Some(expected));
}

#[tokio::test]
async fn error_during_a_reply_follows_its_earlier_events() {
    let begun: String = REPLY.split_inclusive("\n\n").take(3).collect();
    let broken = format!(
        "{begun}data: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}}}\n\n"
    );
    let vendor = Vendor::answering(events(&broken)).await;
    let (events, error) = ask(&client("proxy", &proxy(&vendor).await, TOKEN), "claude-opus-5-5").await;
    assert!(matches!(events.last(), Some(StreamEvent::Delta { delta, .. }) if delta == "Hm."), "{events:?}");
    assert!(matches!(error, Some(ProviderError::Overloaded { .. })), "{error:?}");
}

#[tokio::test]
async fn disconnected_client_ends_the_vendor_request() {
    let begun: String = REPLY.split_inclusive("\n\n").take(3).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut vendor = Vendor::answering(format!("{head}{:x}\r\n{begun}\r\n", begun.len())).await;
    let provider = client("proxy", &proxy(&vendor).await, TOKEN);
    let mut stream = provider.stream(request("claude-opus-5-5"), CancellationToken::new());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Start { .. }))));
    drop(stream);
    vendor.gone.recv().await.unwrap();
}

#[tokio::test]
async fn rejected_requests_get_a_reason() {
    let vendor = Vendor::answering(events(REPLY)).await;
    let url = proxy(&vendor).await;
    let message = async |key: &str, model: &str| ask(&client("proxy", &url, key), model).await.1.unwrap();
    let wrong = message("another", "claude-opus-5-5").await;
    assert!(
        matches!(&wrong, ProviderError::Auth { message } if message.contains("the token is missing or wrong")),
        "{wrong:?}"
    );
    let unknown = message(TOKEN, "nonsense").await;
    assert!(unknown.to_string().contains("no provider is known for the model `nonsense`"), "{unknown}");
    let script = message(TOKEN, "replay/x").await;
    assert!(script.to_string().contains("needs a script"), "{script}");
    let keyless = message(TOKEN, "mistral/mistral-small-2603").await;
    assert!(matches!(&keyless, ProviderError::Auth { message } if message.contains("MISTRAL_API_KEY")), "{keyless:?}");
    assert!(vendor.asked.lock().unwrap().is_empty());
}

async fn raw(url: &str, request: String) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let vendor = Vendor::answering(events(REPLY)).await;
    let url = proxy(&vendor).await;
    let post = |path: &str, length: usize, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
    };
    for (request, said) in [
        (post("/v1/stream", 2, "{}"), "400"),
        (post("/v1/stream", 13, "{\"version\":2}"), "unsupported protocol version 2"),
        (post("/elsewhere", 0, ""), "404"),
        (post("/v1/stream", 65 << 20, ""), "413"),
        ("POST /v1/stream HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".to_owned(), "401"),
    ] {
        let answer = raw(&url, request).await;
        assert!(answer.contains(said), "{answer}");
    }
}
