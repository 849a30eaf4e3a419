//! Sub-agents that start from their parent's conversation, with a model that the call names, or without a stored session.

use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::{Harness, calls, letters, says};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;

fn from_conversation(prompt: &str) -> Assignment {
    Assignment { start: AgentStart::Conversation, ..task(prompt) }
}

/// Returns the messages of a request, one line each.
fn messages(harness: &Harness, request: usize) -> Vec<String> {
    harness.model.requests.lock().unwrap()[request].messages.iter().map(|message| letters(message)).collect()
}

#[tokio::test]
async fn sub_agent_can_start_from_the_parents_conversation() {
    let replies = vec![calls(&[("read", json!({}))]), delegate(), says("it says contents"), says("thanks")];
    let harness = parent(from_conversation("what did it say?"), replies).build();
    harness.prompt("read the file").await;
    let seen = messages(&harness, 2);
    assert_eq!(seen[..3], messages(&harness, 1)[..], "what the parent's model saw, without the open call");
    assert!(seen[3].starts_with("user: what did it say?") && seen[3].contains("You are a sub-agent"), "{seen:?}");
    assert_eq!(seen.len(), 4);
    let kept = harness.store.children.lock().unwrap()[0].1.kept.lock().unwrap().len();
    assert_eq!(kept, 2, "its session has its own messages");
    assert!(messages(&harness, 3)[4].starts_with("result call-0: it says contents"));
}

#[tokio::test]
async fn requests_from_the_conversation_begin_like_the_parents() {
    let replies = vec![delegate(), calls(&[("task", json!({}))]), says("I may not"), says("done")];
    let harness = parent(from_conversation("look"), replies).build();
    harness.agent.configure(|config| config.policy.options.session_id = Some("s".into()));
    harness.prompt("go").await;
    let requests = harness.model.requests.lock().unwrap();
    assert_eq!((&requests[1].system, &requests[1].tools), (&requests[0].system, &requests[0].tools));
    assert_eq!(requests[1].options.cache_key(), Some("s"));
    assert_ne!(requests[1].options.session_id.as_deref(), Some("s"));
    let refused = letters(requests[2].messages.last().unwrap());
    assert!(refused.contains("sub-agents cannot call it here"), "{refused}");
}

#[tokio::test]
async fn restricted_sub_agent_is_offered_only_its_tools() {
    let assignment = Assignment { tools: Some(vec!["read".into()]), ..from_conversation("look") };
    let harness = parent(assignment, vec![delegate(), says("seen"), says("done")]).build();
    harness.prompt("go").await;
    let tools = harness.model.requests.lock().unwrap()[1].tools.clone();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["read"]);
}

#[tokio::test]
async fn model_must_be_listed_for_sub_agents() {
    struct Models(Arc<crate::testing::ScriptedModel>);
    impl ModelSource for Models {
        fn model<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<FoundModel, String>> {
            let model = Model { name: name.to_owned(), ..Model::default() };
            Box::pin(async { Ok(FoundModel { provider: self.0.clone(), model }) })
        }
    }
    let refused =
        "the user allows no model `big` for sub-agents (`models` of `[agents]` in the config); available: `small`";
    for (model, listed, expected) in [
        ("big", vec!["small".to_owned(), "big".to_owned()], "result call-0: seen"),
        ("big", vec!["small".to_owned()], refused),
    ] {
        let assignment = Assignment { model: Some(model.into()), ..task("look") };
        let mut setup = parent(assignment, vec![delegate(), says("seen"), says("done")]);
        setup.sub_agents.model_names = listed;
        setup.sub_agents.models = Some(Arc::new(Models(setup.model.clone())));
        let harness = setup.build();
        let outcome = harness.prompt("go").await;
        let result = letters(&outcome.messages[2]);
        assert!(result.contains(expected), "{result}");
        let models: Vec<String> = harness.model.requests.lock().unwrap().iter().map(|it| it.model.clone()).collect();
        assert_eq!(models.iter().filter(|name| *name == "big").count(), usize::from(!expected.starts_with("the user")));
    }
}

#[tokio::test]
async fn kind_allows_its_own_models() {
    let kind = AgentKind { name: "reader".into(), models: vec!["big".into(), "small".into()], ..AgentKind::default() };
    let assignment = Assignment { kind: Some("reader".into()), model: Some("other".into()), ..task("look") };
    let mut setup = parent(assignment, vec![delegate(), says("done")]);
    setup.sub_agents.kinds = vec![kind];
    let outcome = setup.build().prompt("go").await;
    let result = letters(&outcome.messages[2]);
    assert!(result.contains("available: `big`, `small`"), "{result}");
}

#[tokio::test]
async fn sub_agents_of_a_run_that_is_not_stored_are_numbered() {
    let replies = vec![delegate(), says("a"), delegate(), says("b"), says("done")];
    let mut harness = parent(task("look"), replies).build();
    harness.agent.configure(|config| config.ports.store = Arc::new(NoStore));
    harness.prompt("go").await;
    let sessions = harness.events().into_iter().filter_map(|event| match event {
        EventKind::AgentStart { session_id, .. } => Some(session_id.to_string()),
        _ => None,
    });
    assert_eq!(sessions.collect::<Vec<_>>(), ["s", "s-scripted-m-1-1", "s-scripted-m-1-2"]);
}
