//! Every provider against a server: its requests, its replies, and failures on the way. The tests are the same for
//! each, from the table in `support/vendors.rs`.

use crate::support::formats::{decoder, directory, fixture};
use crate::support::requests::{Shared, all, asked_at, built, config, context, head};
use crate::support::server::{Server, Step, answer, chunk, chunked_head_of};
use crate::support::tls::Http2Server;
use crate::support::vendors::{self, KEY, Vendor, Wrong};
use crate::support::{call, decode, failed, notation, png, reply, request, result, text, thinking, tool, user};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use jiff::civil::date;
use pinion_protocol::{CachePolicy, Content, ProviderError, Request, StreamEvent, ThinkingLevel, ToolCall, ToolChoice};
use pinion_providers::{
    ProviderConfig, ProviderContext, ProxySettings, ProxyUrl, Recorder, RunSurroundings, TransportSettings,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Generates the same tests for each provider.
macro_rules! for_every_vendor {
    ($($module:ident $vendor:ident,)*) => {
        $(mod $module {
            use super::*;

            #[tokio::test]
            async fn request_is_as_reviewed() {
                assert_request_as_reviewed(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn answers_with_text() {
                answers(&vendors::$vendor, vendors::$vendor.text).await;
            }

            #[tokio::test]
            async fn calls_tools() {
                answers(&vendors::$vendor, vendors::$vendor.tools).await;
            }

            #[tokio::test]
            async fn thinks() {
                answers(&vendors::$vendor, vendors::$vendor.thinking).await;
            }

            #[tokio::test]
            async fn reports_errors() {
                assert_errors_reported(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn context_overflow_is_recognized() {
                let error = refused(&vendors::$vendor, Wrong::TooLong).await;
                assert!(matches!(error, ProviderError::ContextOverflow { .. }), "{error:?}");
            }

            #[tokio::test]
            async fn reports_the_retry_delay() {
                let error = refused(&vendors::$vendor, Wrong::TooFast).await;
                assert!(matches!(error, ProviderError::RateLimited { .. }), "{error:?}");
                assert_eq!(error.retry_after(), vendors::$vendor.says.refusal(Wrong::TooFast).delay);
            }

            #[tokio::test]
            async fn truncated_in_mid_reply() {
                assert_truncation_reported(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn silent_in_mid_reply() {
                assert_silence_reported(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn times_out_before_the_head() {
                assert_slow_start_times_out(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn answers_compressed() {
                assert_compression_decoded(&vendors::$vendor).await;
            }

            #[tokio::test]
            async fn answers_over_http_2() {
                assert_http_2_works(&vendors::$vendor).await;
            }
        })*
    };
}

for_every_vendor! {
    anthropic ANTHROPIC,
    azure AZURE,
    bedrock BEDROCK,
    deepseek DEEPSEEK,
    gemini GEMINI,
    groq GROQ,
    mistral MISTRAL,
    ollama OLLAMA,
    openai_chat OPENAI_CHAT,
    openai_responses OPENAI_RESPONSES,
    openrouter OPENROUTER,
    proxy PROXY,
    vertex VERTEX,
    xai XAI,
}

/// Decodes a fixture without a server.
fn expected(vendor: &Vendor, name: &str) -> Vec<String> {
    let (events, error) = decode(&mut *decoder(vendor.format), &[&fixture(vendor.format, name)]);
    assert_eq!(error, None);
    notation(&events)
}

/// Replaces generated IDs, which are random except for their ends.
fn without_chance(line: String) -> String {
    match line.split_once(" call_") {
        Some((start, id)) if id.len() > 12 && id.as_bytes()[..12].iter().all(u8::is_ascii_hexdigit) => {
            format!("{start} seed{}", &id[12..])
        }
        _ => line,
    }
}

fn summarized(events: &[StreamEvent]) -> Vec<String> {
    notation(events).into_iter().map(without_chance).collect()
}

async fn answers(vendor: &Vendor, name: &str) {
    let server = Server::answering(&head(vendor), &fixture(vendor.format, name)).await;
    let (events, error) = all(asked_at(vendor, &server.url)).await;
    assert_eq!((summarized(&events), error), (expected(vendor, name), None));
    let head = server.seen()[0].head.to_lowercase();
    assert!(head.starts_with(&format!("post {} http/1.1\r\n", vendor.path)), "{head}");
    assert!(head.contains(&format!("\r\n{} {KEY}\r\n", vendor.auth)), "{head}");
    assert_eq!(head.matches(KEY).count(), 1);
}

async fn refused(vendor: &Vendor, wrong: Wrong) -> ProviderError {
    let refusal = vendor.says.refusal(wrong);
    let headers = format!("content-type: application/json\r\n{}", refusal.headers);
    let answer = answer(refusal.status, &headers, refusal.body.to_string().as_bytes());
    let server = Server::start(vec![Step::Send(answer)]).await;
    let (events, error) = all(asked_at(vendor, &server.url)).await;
    assert_eq!(events, []);
    error.unwrap()
}

async fn assert_errors_reported(vendor: &Vendor) {
    let key = refused(vendor, Wrong::Key).await;
    assert!(matches!(key, ProviderError::Auth { .. }), "{key:?}");
    let status: u16 = vendor.says.refusal(Wrong::Request).status[..3].parse().unwrap();
    let wrong = refused(vendor, Wrong::Request).await;
    assert!(matches!(&wrong, ProviderError::Api { status: Some(said), .. } if *said == status), "{wrong:?}");
    let overload = refused(vendor, Wrong::Overload).await;
    assert!(matches!(overload, ProviderError::Overloaded { .. }), "{overload:?}");
    for (error, is_retryable) in [(key, false), (wrong, false), (overload, true)] {
        assert_eq!(error.is_retryable(), is_retryable, "{error:?}");
        assert!(!error.to_string().contains(&KEY[..6]) && error.to_string().len() > 5, "{error}");
    }
}

fn half(vendor: &Vendor) -> Vec<u8> {
    let mut body = fixture(vendor.format, vendor.text);
    body.truncate(body.len() / 2);
    body
}

async fn assert_truncation_reported(vendor: &Vendor) {
    let beginning = [chunked_head_of(vendor.content_type), chunk(&half(vendor))].concat();
    let complete = expected(vendor, vendor.text);
    // The connection breaks, or the response ends normally after half a reply.
    for last in [Step::Cut, Step::Send(chunk(b""))] {
        let server = Server::start(vec![Step::Send(beginning.clone()), last]).await;
        let (events, error) = all(asked_at(vendor, &server.url)).await;
        let error = error.unwrap();
        assert!(matches!(error, ProviderError::Network { .. }) && error.is_retryable(), "{error:?}");
        assert!(!events.is_empty() && complete.starts_with(&summarized(&events)), "{events:?}");
    }
}

async fn assert_silence_reported(vendor: &Vendor) {
    let beginning = [chunked_head_of(vendor.content_type), chunk(&half(vendor))].concat();
    let server = Server::start(vec![Step::Send(beginning), Step::Hang]).await;
    let mut stream = asked_at(vendor, &server.url);
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Start { .. }))));
    tokio::time::pause();
    let items: Vec<_> = stream.collect().await;
    let error = ProviderError::Network { message: "no data received for 120 s".to_owned() };
    assert_eq!(items.last(), Some(&Err(error)));
}

async fn assert_slow_start_times_out(vendor: &Vendor) {
    let mut server = Server::start(vec![Step::Hang]).await;
    let mut stream = asked_at(vendor, &server.url);
    let was_asked = tokio::select! { () = server.asked() => true, _ = stream.next() => false };
    assert!(was_asked);
    tokio::time::pause();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.is_retryable() && error.to_string().ends_with("within 300 s"), "{error}");
}

async fn assert_compression_decoded(vendor: &Vendor) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&fixture(vendor.format, vendor.text)).unwrap();
    let headers = format!("{}content-encoding: gzip\r\n", head(vendor));
    let server = Server::answering(&headers, &gzip.finish().unwrap()).await;
    let (events, error) = all(asked_at(vendor, &server.url)).await;
    assert_eq!((summarized(&events), error), (expected(vendor, vendor.text), None));
    assert!(server.seen()[0].head.to_lowercase().contains("accept-encoding: gzip\r\n"));
}

async fn assert_http_2_works(vendor: &Vendor) {
    let server = Http2Server::answering(vendor.content_type, fixture(vendor.format, vendor.tools)).await;
    let (events, error) = all(asked_at(vendor, &server.url)).await;
    assert_eq!((summarized(&events), error), (expected(vendor, vendor.tools), None));
}

/// Builds a conversation with everything that a request can contain, for the vendor's own model.
fn everything(vendor: &Vendor) -> Request {
    let own = vec![
        thinking("Two and two.", Some(signature(vendor))),
        Content::text("Let me read."),
        Content::ToolCall(ToolCall { signature: Some("CALLSIG==".to_owned()), ..read("toolu_1", "a") }),
        call("toolu_2", "read", json!({ "path": "b" })),
    ];
    let mut request = request(
        vendor.model,
        vec![
            user(vec![Content::text("What is this?"), png()]),
            reply(vendor.name, vendor.model, own),
            result("toolu_1", vec![Content::text("hello"), png()]),
            failed("toolu_2", vec![Content::text("no such file")]),
            text("Go on."),
        ],
    );
    request.system = "Be brief.".into();
    request.tools = vec![tool("list"), tool("read")];
    request.options.thinking = ThinkingLevel::Medium;
    request.options.session_id = Some("session-1".to_owned());
    request
}

/// Builds a conversation that another model began, with a forced call and limits and without caching.
fn from_elsewhere(vendor: &Vendor) -> Request {
    let others =
        vec![thinking("Hm.", Some("foreign")), Content::text("Sure."), call("x|y", "read", json!(["not an object"]))];
    let mut request = request(
        vendor.model,
        vec![
            text("hi"),
            reply("elsewhere", "other", others),
            result("x|y", vec![]),
            reply("elsewhere", "other", vec![]),
            text("so?"),
        ],
    );
    request.tools = vec![tool("read")];
    request.tool_choice = ToolChoice::Tool("read".to_owned());
    request.options.cache = CachePolicy::Off;
    request.options.max_output_tokens = Some(1_000);
    request.options.temperature = Some(0.5);
    request
}

fn read(id: &str, path: &str) -> ToolCall {
    ToolCall::new(id, "read", json!({ "path": path }))
}

/// Returns a signature of the vendor's own thinking.
fn signature(vendor: &Vendor) -> &'static str {
    match vendor.format {
        "responses" => {
            r#"{"id":"rs_1","encrypted_content":"gAAAAAB","summary":[{"type":"summary_text","text":"Two and two."}],"type":"reasoning"}"#
        }
        _ => "SIG==",
    }
}

/// `UPDATE_REQUESTS=1` rewrites the files, for review before they are committed.
async fn assert_request_as_reviewed(vendor: &Vendor) {
    for (name, request) in [("everything", everything(vendor)), ("from_elsewhere", from_elsewhere(vendor))] {
        let now = sent(vendor, request).await;
        let file = directory().join("requests").join(format!("{}.{name}.txt", vendor.name));
        if std::env::var_os("UPDATE_REQUESTS").is_some() {
            fs::write(&file, &now).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), now, "{}", file.display());
    }
}

/// Records a request to the vendor's usual URL. A proxy that refuses connections stops it.
async fn sent(vendor: &Vendor, request: Request) -> String {
    let nowhere = answer("403 Forbidden", "", b"");
    let server = Server::start(vec![Step::Send(nowhere), Step::Cut]).await;
    let base_url = vendor.host.starts_with("https:").then_some(vendor.host);
    let url = SecretString::from(server.url.trim_end_matches("/v1"));
    let proxy = ProxySettings::always(ProxyUrl { url, origin: "test".to_owned() });
    let http = TransportSettings { proxy, ..TransportSettings::default() };
    let recording = Shared::default();
    let recorder = Arc::new(Recorder::new(recording.clone(), &RunSurroundings::new(date(2026, 11, 20))));
    let context = ProviderContext { recorder: Some(recorder), ..context() };
    let provider = built(vendor, ProviderConfig { http, ..config(vendor, base_url) }, context);
    let (_, error) = all(provider.stream(request, CancellationToken::new())).await;
    assert!(error.is_some());
    let asked = server.seen()[0].head.lines().next().unwrap().to_owned();
    let text = recording.text();
    assert!(!text.contains(&KEY[..12]), "{text}");
    let line: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    shown(&asked, &line["request"])
}

fn shown(asked: &str, request: &Value) -> String {
    let headers = request["headers"].as_object().unwrap().iter();
    let headers: String = headers.map(|(name, value)| format!("{name}: {}\n", value.as_str().unwrap())).collect();
    let path = request["path"].as_str().unwrap();
    format!("{asked}\n{path}\n{headers}\n{}\n", serde_json::to_string_pretty(&request["body"]).unwrap())
}

/// A delay longer than any vendor requests.
#[tokio::test]
async fn delay_is_capped_at_a_day() {
    let answer = answer("429 Too Many Requests", "retry-after: 999999999\r\n", b"{}");
    let server = Server::start(vec![Step::Send(answer)]).await;
    let error = all(asked_at(&vendors::ANTHROPIC, &server.url)).await.1.unwrap();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(86_400)));
}
