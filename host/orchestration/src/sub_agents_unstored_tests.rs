//! Sub-agents of runs whose session is not stored.

use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::says;
use crate::*;
use std::sync::Arc;

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
