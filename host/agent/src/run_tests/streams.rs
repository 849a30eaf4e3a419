//! The streams of events, and where they end.

use crate::testing::{Reply, Setup, says};
use crate::*;
use futures_util::StreamExt as _;

fn refused() -> ProviderError {
    ProviderError::Auth { message: "bad key".into() }
}

#[tokio::test]
async fn stream_of_events_ends_with_its_run() {
    let harness = Setup::new(vec![says("hello"), Reply::Fails(vec![], refused()), says("again")]).build();
    let last = |events: Vec<Event>| events.into_iter().map(|event| event.kind).next_back();
    let (events, run) = harness.agent.stream(vec![Message::user("hi")], 4);
    let (outcome, events) = tokio::join!(run, events.collect::<Vec<_>>());
    assert_eq!(outcome.unwrap().text(), "hello");
    assert!(matches!(last(events), Some(EventKind::AgentEnd { .. })));
    // A run that fails, and one that resumes.
    let (events, run) = harness.agent.stream(vec![Message::user("and?")], 4);
    let (outcome, events) = tokio::join!(run, events.collect::<Vec<_>>());
    assert!(matches!(outcome.unwrap().end, RunEnd::Failed(_)));
    assert!(matches!(last(events), Some(EventKind::AgentEnd { .. })));
    let (events, run) = harness.agent.resume_stream(4);
    let (outcome, events) = tokio::join!(run, events.collect::<Vec<_>>());
    assert_eq!(outcome.unwrap().text(), "again");
    assert!(matches!(last(events), Some(EventKind::AgentEnd { .. })));
}

#[tokio::test]
async fn stream_of_events_ends_without_a_run() {
    let harness = Setup::new(vec![Reply::Hangs(vec![]), says("on")]).build();
    // The run cannot start.
    let lease = harness.agent.lease().unwrap();
    let (events, run) = harness.agent.stream(vec![Message::user("hi")], 4);
    let (outcome, events) = tokio::join!(run, events.collect::<Vec<_>>());
    assert_eq!((outcome, events), (Err(AgentError::AlreadyRunning), vec![]));
    drop(lease);
    // The future is dropped before it is polled, and in the middle of the run.
    let (events, run) = harness.agent.stream(vec![Message::user("hi")], 4);
    drop(run);
    assert_eq!(events.collect::<Vec<_>>().await, []);
    let (mut events, run) = harness.agent.stream(vec![Message::user("hi")], 64);
    let first = async { events.next().await.unwrap() };
    tokio::select! {
        _ = run => panic!("the model hangs"),
        first = first => assert!(matches!(first.kind, EventKind::AgentStart { .. })),
    }
    assert!(events.collect::<Vec<_>>().await.iter().all(|event| !matches!(event.kind, EventKind::AgentEnd { .. })));
    // Its end does not end the streams of others.
    let (outcome, watched) = {
        let mut all = harness.agent.subscribe(64);
        let (events, run) = harness.agent.stream(vec![Message::user("go on")], 64);
        let (outcome, events) = tokio::join!(run, events.collect::<Vec<_>>());
        (outcome, (events, std::iter::from_fn(|| all.try_recv()).collect::<Vec<_>>()))
    };
    assert_eq!(outcome.unwrap().text(), "on");
    assert_eq!(watched.0, watched.1);
}

#[tokio::test]
async fn subscription_ends_when_the_agent_is_dropped() {
    let harness = Setup::new(vec![says("one"), says("two")]).build();
    let config = harness.config();
    let agent = Agent::new(config, Context::new("", "s"));
    let events = agent.subscribe(64);
    agent.run(vec![Message::user("a")]).await.unwrap();
    agent.run(vec![Message::user("b")]).await.unwrap();
    drop(agent);
    let ends = |event: &Event| matches!(event.kind, EventKind::AgentEnd { .. });
    assert_eq!(events.collect::<Vec<_>>().await.iter().filter(|event| ends(event)).count(), 2);
}
