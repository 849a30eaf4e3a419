//! Recording and playback: the same events byte for byte, or a description of the first difference.

use crate::support::formats::fixture;
use crate::support::requests::{Shared, all, built, config, context, head};
use crate::support::server::{Server, Step, answer, chunk, chunked_head_of};
use crate::support::vendors::{ALL, ANTHROPIC, GEMINI, OPENAI_CHAT, Vendor, Wrong};
use crate::support::{request, text};
use jiff::civil::{Date, date};
use pinion_protocol::{ProviderError, Request, StreamEvent};
use pinion_providers::{Playback, PlaybackError, ProviderContext, Recipient, Recorder, RunSurroundings};
use std::fs;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const DAY: Date = date(2026, 11, 20);

type Outcome = (Vec<StreamEvent>, Option<ProviderError>);

fn request_with(vendor: &Vendor, words: &str) -> Request {
    request(vendor.model, vec![text(words)])
}

/// Sends one request to a server and returns the recording.
async fn recorded(vendor: &Vendor, steps: Vec<Step>) -> (Outcome, String) {
    let server = Server::start(steps).await;
    let file = Shared::default();
    let recorder = Arc::new(Recorder::new(file.clone(), &RunSurroundings::new(DAY)));
    let context = ProviderContext { recorder: Some(recorder.clone()), ..context() };
    let provider = built(vendor, config(vendor, Some(&server.url)), context);
    let outcome = all(provider.stream(request_with(vendor, "hi"), CancellationToken::new())).await;
    recorder.finish().unwrap();
    (outcome, file.text())
}

/// Answers the same request from the recording, without a key or a server.
async fn played(vendor: &Vendor, playback: &Arc<Playback>, request: Request) -> Outcome {
    let context = ProviderContext { playback: Some(playback.clone()), ..context() };
    let mut config = config(vendor, Some("http://127.0.0.1:1"));
    config.api_key = None;
    all(built(vendor, config, context).stream(request, CancellationToken::new())).await
}

fn parsed(recording: &str) -> Arc<Playback> {
    Arc::new(Playback::parse(recording).unwrap())
}

async fn assert_plays_the_same(vendor: &Vendor, steps: Vec<Step>) {
    let (live, recording) = recorded(vendor, steps).await;
    let playback = parsed(&recording);
    let again = played(vendor, &playback, request_with(vendor, "hi")).await;
    let bytes = |events: &[StreamEvent]| serde_json::to_vec(events).unwrap();
    assert_eq!((bytes(&again.0), &again), (bytes(&live.0), &live), "{}: {recording}", vendor.name);
    assert_eq!(playback.remaining(), 0);
}

#[tokio::test]
async fn replies_are_played_back_byte_for_byte() {
    for vendor in ALL {
        for name in [vendor.text, vendor.tools, vendor.thinking] {
            let answer = answer("200 OK", &head(vendor), &fixture(vendor.format, name));
            assert_plays_the_same(vendor, vec![Step::Send(answer)]).await;
        }
    }
}

#[tokio::test]
async fn error_responses_are_played_back() {
    for vendor in ALL {
        for wrong in [Wrong::Key, Wrong::Request, Wrong::TooFast, Wrong::Overload, Wrong::TooLong] {
            let refusal = vendor.says.refusal(wrong);
            let headers = format!("content-type: application/json\r\n{}", refusal.headers);
            let answer = answer(refusal.status, &headers, refusal.body.to_string().as_bytes());
            assert_plays_the_same(vendor, vec![Step::Send(answer)]).await;
        }
    }
}

#[tokio::test]
async fn truncated_reply_is_played_back_truncated() {
    for vendor in ALL {
        let body = fixture(vendor.format, vendor.text);
        let beginning = [chunked_head_of(vendor.content_type), chunk(&body[..body.len() / 2])].concat();
        assert_plays_the_same(vendor, vec![Step::Send(beginning), Step::Cut]).await;
        assert_plays_the_same(vendor, vec![Step::Cut]).await;
    }
}

async fn a_recording(vendor: &Vendor) -> String {
    let body = fixture(vendor.format, vendor.text);
    recorded(vendor, vec![Step::Send(answer("200 OK", &head(vendor), &body))]).await.1
}

#[tokio::test]
async fn recording_names_its_recipient_and_date() {
    let recording = a_recording(&GEMINI).await;
    assert!(Playback::is_recording(&recording) && !Playback::is_recording(r#"{"text":"a script"}"#));
    let playback = parsed(&recording);
    assert_eq!(playback.date(), DAY);
    let Recipient { provider, model, base_url } = playback.recipient().unwrap().clone();
    assert_eq!((provider.as_str(), model.as_str()), ("gemini", GEMINI.model));
    assert!(base_url.unwrap().starts_with("http://127.0.0.1:"));
}

async fn refused(vendor: &Vendor, recording: &str, request: Request) -> String {
    let (events, error) = played(vendor, &parsed(recording), request).await;
    assert_eq!(events, []);
    error.unwrap().to_string()
}

#[tokio::test]
async fn mismatch_is_reported_with_its_path() {
    let recording = a_recording(&ANTHROPIC).await;
    let message = refused(&ANTHROPIC, &recording, request_with(&ANTHROPIC, "hello")).await;
    let place = "the recording does not match: request 1 differs at `$.messages[0].content[0].text`: ";
    assert_eq!(message, format!("{place}recorded `hi`, now `hello`"));
    let more = request(ANTHROPIC.model, vec![text("hi"), text("there")]);
    assert!(refused(&ANTHROPIC, &recording, more).await.contains("content`: recorded 1 items, now 2"));
    let mut other = request_with(&ANTHROPIC, "hi");
    other.model = "claude-haiku-4-5".to_owned();
    let message = refused(&ANTHROPIC, &recording, other).await;
    assert!(message.contains("in its model: recorded `claude-opus-5-5`, now `claude-haiku-4-5`"), "{message}");
    let message = refused(&OPENAI_CHAT, &recording, request_with(&OPENAI_CHAT, "hi")).await;
    assert!(message.contains("in its provider: recorded `anthropic`, now `openai-chat`"), "{message}");
}

#[tokio::test]
async fn exhausted_recording_is_an_error() {
    let playback = parsed(&a_recording(&OPENAI_CHAT).await);
    assert_eq!(played(&OPENAI_CHAT, &playback, request_with(&OPENAI_CHAT, "hi")).await.1, None);
    let error = played(&OPENAI_CHAT, &playback, request_with(&OPENAI_CHAT, "hi")).await.1.unwrap();
    assert!(error.to_string().contains("the recording is exhausted after 1 exchanges"), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn concurrent_requests_may_be_reordered() {
    let server = Server::answering(&head(&OPENAI_CHAT), &fixture("chat", "text.sse")).await;
    let file = Shared::default();
    let context = ProviderContext {
        recorder: Some(Arc::new(Recorder::new(file.clone(), &RunSurroundings::new(DAY)))),
        ..context()
    };
    let provider = built(&OPENAI_CHAT, config(&OPENAI_CHAT, Some(&server.url)), context);
    let ask = |words: &str| all(provider.stream(request_with(&OPENAI_CHAT, words), CancellationToken::new()));
    tokio::join!(ask("one"), ask("two"));
    let playback = parsed(&file.text());
    for words in ["two", "one"] {
        assert_eq!(played(&OPENAI_CHAT, &playback, request_with(&OPENAI_CHAT, words)).await.1, None);
    }
    assert_eq!(playback.remaining(), 0);
}

#[tokio::test]
async fn other_session_id_still_matches() {
    let server = Server::answering(&head(&OPENAI_CHAT), &fixture("chat", "text.sse")).await;
    let proxied = |id: &str| {
        let mut request = request_with(&OPENAI_CHAT, "hi");
        request.options.session_id = Some(id.to_owned());
        request
    };
    let file = Shared::default();
    let live = ProviderContext {
        recorder: Some(Arc::new(Recorder::new(file.clone(), &RunSurroundings::new(DAY)))),
        ..context()
    };
    let provider = built(&OPENAI_CHAT, config(&OPENAI_CHAT, Some(&server.url)), live);
    all(provider.stream(proxied("a"), CancellationToken::new())).await;
    assert_eq!(played(&OPENAI_CHAT, &parsed(&file.text()), proxied("b")).await.1, None);
}

#[tokio::test]
async fn recording_of_a_killed_run_is_usable_up_to_the_kill() {
    let recording = a_recording(&OPENAI_CHAT).await;
    let torn = &recording[..recording.len() - 20];
    let (events, _) = played(&OPENAI_CHAT, &parsed(torn), request_with(&OPENAI_CHAT, "hi")).await;
    assert!(matches!(events.last(), Some(StreamEvent::End { .. })));
}

#[test]
fn invalid_recording_is_reported() {
    assert!(matches!(Playback::parse(""), Err(PlaybackError::Version)));
    assert!(matches!(Playback::parse("{\"text\":\"hi\"}\n"), Err(PlaybackError::Version)));
    let head = "{\"pinion_recording\":1,\"date\":\"2026-11-20\"}\n";
    let error = Playback::parse(&format!("{head}{{\"exchange\":1,\"data\":\"x\"}}\n")).unwrap_err();
    assert_eq!(error.to_string(), "line 2 of the recording belongs to exchange 1, which has no request");
    let error = Playback::parse(&format!("{head}\nnonsense\n")).unwrap_err();
    assert!(error.to_string().starts_with("line 3 of the recording is malformed"), "{error}");
    let newer = head.replace("1,", "2,");
    assert!(matches!(Playback::parse(&newer), Err(PlaybackError::Version)));
    let error = Playback::load(std::path::Path::new("/no/such/file")).unwrap_err();
    assert!(error.to_string().contains("`/no/such/file`"));
}

#[cfg(unix)]
#[test]
fn recording_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.jsonl");
    Recorder::create(&file, &RunSurroundings::new(DAY)).unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(Playback::load(&file).unwrap().recipient().is_none());
}

#[test]
fn failed_write_is_reported_at_the_end() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(Recorder::new(Full, &RunSurroundings::new(DAY)).finish().is_err());
}
