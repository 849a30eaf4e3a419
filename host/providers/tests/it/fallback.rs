//! Fallback to other models.

use crate::support::{assert_well_formed, notation, reply, request, text, thinking};
use futures_util::StreamExt;
use pinion_protocol::{AssistantMessage, Content, EventStream, Message, Provider, ProviderError, Request, StreamEvent};
use pinion_providers::{ErrorKind, Fallback, FallbackMember, Replay, Script, ScriptedReply};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A script under a separate name, which records its requests.
struct Named {
    name: &'static str,
    replay: Replay,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Provider for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        self.asked.lock().unwrap().push(request.clone());
        self.replay.stream(request, token)
    }
}

struct Setup {
    fallback: Fallback,
    first: Arc<Mutex<Vec<Request>>>,
    second: Arc<Mutex<Vec<Request>>>,
}

fn setup(first: Vec<ScriptedReply>, second: Vec<ScriptedReply>) -> Setup {
    let member = |name: &'static str, replies: Vec<ScriptedReply>| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let provider = Named { name, replay: Replay::new(Script::new(replies)), asked: asked.clone() };
        (FallbackMember { provider: Arc::new(provider), model: format!("{name}-model") }, asked)
    };
    let ((first, first_asked), (second, second_asked)) = (member("one", first), member("two", second));
    Setup { fallback: Fallback::new(first, [second]), first: first_asked, second: second_asked }
}

impl Setup {
    async fn ask(&self) -> (Vec<String>, Option<ProviderError>) {
        self.ask_with(vec![text("hi")]).await
    }

    async fn ask_with(&self, messages: Vec<Message>) -> (Vec<String>, Option<ProviderError>) {
        let items: Vec<_> = self.fallback.stream(request("own", messages), CancellationToken::new()).collect().await;
        let error = items.iter().find_map(|item| item.as_ref().err().cloned());
        let events: Vec<StreamEvent> = items.into_iter().filter_map(Result::ok).collect();
        assert_well_formed(&events, error.as_ref());
        (notation(&events), error)
    }

    fn counts(&self) -> (usize, usize) {
        (self.first.lock().unwrap().len(), self.second.lock().unwrap().len())
    }
}

fn fails(kind: ErrorKind) -> ScriptedReply {
    ScriptedReply::error(kind, "no")
}

fn says(label: &str, words: &str) -> Vec<String> {
    [format!("start {label}"), "0 text".to_owned(), format!("0 +{words}"), "0 end".to_owned(), "stop Stop".to_owned()]
        .into()
}

#[tokio::test]
async fn first_member_answers_while_it_can() {
    let setup = setup(vec![ScriptedReply::text("a"), ScriptedReply::text("b")], vec![]);
    assert_eq!(setup.ask().await, (says("-", "a"), None));
    assert_eq!(setup.ask().await, (says("-", "b"), None));
    assert_eq!(setup.first.lock().unwrap()[0].model, "own");
    assert_eq!(setup.fallback.name(), "one");
}

#[tokio::test(start_paused = true)]
async fn permanent_failure_falls_back_for_a_while() {
    for kind in [ErrorKind::Api, ErrorKind::Auth, ErrorKind::Malformed] {
        let setup = setup(
            vec![fails(kind), ScriptedReply::text("back")],
            vec![ScriptedReply::text("a"), ScriptedReply::text("b")],
        );
        assert_eq!(setup.ask().await, (says("two/two-model", "a"), None));
        assert_eq!(setup.second.lock().unwrap()[0].model, "two-model");
        assert_eq!(setup.ask().await, (says("two/two-model", "b"), None));
        assert_eq!(setup.counts(), (1, 2));
        tokio::time::advance(Duration::from_secs(301)).await;
        assert_eq!(setup.ask().await, (says("-", "back"), None));
    }
}

#[tokio::test]
async fn transient_failures_fall_back_after_repetition() {
    let busy = || fails(ErrorKind::Overloaded);
    let setup = setup(vec![busy(), busy(), busy()], vec![ScriptedReply::text("a")]);
    for _ in 0..2 {
        let (events, error) = setup.ask().await;
        assert!(events.is_empty() && matches!(error, Some(ProviderError::Overloaded { .. })));
    }
    assert_eq!(setup.ask().await, (says("two/two-model", "a"), None));
    assert_eq!(setup.counts(), (3, 1));
}

#[tokio::test]
async fn success_resets_the_failure_count() {
    let busy = || fails(ErrorKind::Network);
    let setup = setup(vec![busy(), busy(), ScriptedReply::text("a"), busy(), busy()], vec![]);
    for is_error in [true, true, false, true, true] {
        assert_eq!(setup.ask().await.1.is_some(), is_error);
    }
    assert_eq!(setup.counts(), (5, 0));
}

#[tokio::test]
async fn context_overflow_is_no_failure_of_a_member() {
    let setup = setup(vec![fails(ErrorKind::ContextOverflow), ScriptedReply::text("a")], vec![]);
    assert!(matches!(setup.ask().await.1, Some(ProviderError::ContextOverflow { .. })));
    assert_eq!(setup.ask().await, (says("-", "a"), None));
}

#[tokio::test]
async fn error_in_mid_reply_does_not_fall_back() {
    let broken = ScriptedReply { error: fails(ErrorKind::Api).error, ..ScriptedReply::text("half") };
    let setup = setup(vec![broken], vec![ScriptedReply::text("a")]);
    let (events, error) = setup.ask().await;
    assert_eq!(events, ["start -", "0 text", "0 +half", "0 end"]);
    assert!(error.is_some());
    assert_eq!(setup.ask().await, (says("two/two-model", "a"), None));
}

#[tokio::test]
async fn last_error_is_returned_when_all_members_fail() {
    let bad = || fails(ErrorKind::Api);
    let setup = setup(vec![bad(), ScriptedReply::text("a")], vec![bad()]);
    assert!(setup.ask().await.1.is_some());
    assert_eq!(setup.ask().await, (says("-", "a"), None));
}

#[tokio::test]
async fn members_receive_their_own_thinking_back() {
    let setup = setup(vec![fails(ErrorKind::Api)], vec![ScriptedReply::text("a")]);
    let theirs = reply("one", "two/two-model", vec![thinking("Hm.", Some("sig")), Content::text("x")]);
    setup.ask_with(vec![text("hi"), theirs, text("so?")]).await;
    let asked = setup.second.lock().unwrap()[0].clone();
    let Message::Assistant(own) = &*asked.messages[1] else { panic!("{:?}", asked.messages[1]) };
    assert_eq!((own.provider.as_str(), own.model.as_str()), ("two", "two-model"));
}

/// The agent stores the name in the request with the reply, which is the first member's.
#[tokio::test]
async fn first_member_does_not_receive_the_thinking_of_another() {
    let setup = setup(vec![ScriptedReply::text("a")], vec![]);
    let theirs = reply("one", "two/two-model", vec![thinking("Hm.", Some("sig")), Content::text("x")]);
    let Message::Assistant(theirs) = theirs else { panic!() };
    let theirs = Message::Assistant(AssistantMessage { requested_model: Some("own".to_owned()), ..theirs });
    setup.ask_with(vec![text("hi"), theirs, text("so?")]).await;
    let asked = setup.first.lock().unwrap()[0].clone();
    let Message::Assistant(reply) = &*asked.messages[1] else { panic!("{:?}", asked.messages[1]) };
    assert_eq!((reply.provider.as_str(), &reply.requested_model), ("two", &None));
}
