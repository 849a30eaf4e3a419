//! Scripts, and the provider that plays them.

use crate::support::{assert_well_formed, notation, request, text};
use futures_util::{FutureExt, StreamExt};
use pinion_protocol::{Provider, ProviderError, StopReason, StreamEvent, Usage};
use pinion_providers::{ErrorKind, Replay, Script, ScriptError, ScriptedReply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn play(replay: &Replay) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let stream = replay.stream(request("any", vec![text("q")]), CancellationToken::new());
    let items: Vec<_> = stream.collect().await;
    let error = items.iter().find_map(|item| item.as_ref().err().cloned());
    (items.into_iter().filter_map(Result::ok).collect(), error)
}

#[tokio::test]
async fn script_is_played_line_by_line() {
    let script = r#"
        {"thinking":"héé","text":"Reading.","calls":[{"tool":"read","arguments":{"path":"a"}},{"tool":"list","id":"mine"}],"chunk":5}

        {"text":"Done.","usage":{"input":3,"output":2,"cache_read":1},"stop_reason":"length"}
    "#;
    let replay = Replay::new(Script::parse(script).unwrap());
    let (events, error) = play(&replay).await;
    assert_well_formed(&events, error.as_ref());
    let expected = [
        "start -",
        "0 thinking",
        "0 +héé",
        "0 end",
        "1 text",
        "1 +Readi",
        "1 +ng.",
        "1 end",
        "2 call read call_1_1",
        "2 +{\"pat",
        "2 +h\":\"a",
        "2 +\"}",
        "2 end",
        "3 call list mine",
        "3 +{}",
        "3 end",
        "stop ToolUse",
    ];
    assert_eq!(notation(&events), expected);
    let (events, _) = play(&replay).await;
    assert_eq!(notation(&events), ["start -", "0 text", "0 +Done.", "0 end", "usage 3 2 1 0", "stop Length"]);
    assert_eq!(replay.remaining(), 0);
}

#[tokio::test]
async fn exhausted_script_is_an_error() {
    let replay = Replay::new(Script::new([ScriptedReply::text("one")]));
    play(&replay).await;
    let (events, error) = play(&replay).await;
    assert_eq!(events, []);
    assert_eq!(error.unwrap().to_string(), "the script is exhausted after 1 replies");
}

#[tokio::test]
async fn scripted_error_comes_before_or_after_the_content() {
    let failing = ScriptedReply::error(ErrorKind::Overloaded, "no capacity");
    let later = ScriptedReply { text: Some("I was".to_owned()), ..failing.clone() };
    let replay = Replay::new(Script::new([failing, later]));
    let expected = ProviderError::Overloaded { message: "no capacity".to_owned(), retry_after: None };
    assert_eq!(play(&replay).await, (vec![], Some(expected.clone())));
    let (events, error) = play(&replay).await;
    assert_eq!(notation(&events), ["start -", "0 text", "0 +I was", "0 end"]);
    assert_eq!(error, Some(expected));
}

#[tokio::test]
async fn reply_can_break_off() {
    let replay = Replay::new(Script::parse(r#"{"text":"half","break_off":true}"#).unwrap());
    let (events, error) = play(&replay).await;
    assert_eq!((notation(&events), error), (["start -", "0 text", "0 +half"].map(str::to_owned).to_vec(), None));
}

#[tokio::test]
async fn hanging_reply_ends_when_cancelled() {
    let replay = Replay::new(Script::parse(r#"{"text":"wait","hang":true}"#).unwrap());
    let token = CancellationToken::new();
    let mut stream = replay.stream(request("any", vec![]), token.clone());
    for _ in 0..4 {
        assert!(stream.next().await.unwrap().is_ok());
    }
    assert_eq!(stream.next().now_or_never(), None);
    token.cancel();
    assert_eq!(stream.next().await, Some(Err(ProviderError::Cancelled)));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn cancelled_reply_ends_at_its_next_event() {
    let replay = Replay::new(Script::new([ScriptedReply::text("a")]));
    let token = CancellationToken::new();
    token.cancel();
    let items: Vec<_> = replay.stream(request("any", vec![]), token).collect().await;
    assert_eq!(items, [Err(ProviderError::Cancelled)]);
}

#[tokio::test]
async fn recording_replay_returns_its_requests() {
    let replay = Replay::recording(Script::new([ScriptedReply::call("read", json!({})).and_call("list", json!({}))]));
    play(&replay).await;
    let requests = replay.clone().requests();
    assert_eq!((requests.len(), requests[0].model.as_str()), (1, "any"));
    assert!(Replay::new(Script::default()).requests().is_empty());
}

#[tokio::test]
async fn arguments_can_be_truncated() {
    let reply = ScriptedReply { stop_reason: Some(StopReason::Length), ..ScriptedReply::call("read", json!("{\"pa")) };
    let (events, _) = play(&Replay::new(Script::new([reply]))).await;
    assert_eq!(notation(&events)[2], "0 +{\"pa");
}

#[test]
fn malformed_line_is_reported_by_number() {
    let error = Script::parse("{}\n\n{\"txt\":1}").unwrap_err();
    assert_eq!(error.to_string(), "invalid reply in line 3 of the script");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("txt"));
}

#[test]
fn script_is_loaded_from_a_file() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/script.jsonl");
    let script = Script::load(&path).unwrap();
    assert_eq!(script.replies[1].usage, Some(Usage { input: 120, output: 9, ..Usage::default() }));
    let error = Script::load(&path.with_extension("none")).unwrap_err();
    assert!(matches!(error, ScriptError::File { .. }) && error.to_string().contains("script.none"));
}
