//! Tests of `examples/plugins/repeated-lines`, as an author writes them. They load the released component, because this
//! workspace does not build the example; an author loads `build/repeated-lines.wasm`.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use pinion_plugin_test::{HostAction, Plugin, TestError, json};

const COMPONENT: &str = "../../tests/fixtures/contract-0.1.0/repeated-lines.wasm";

fn plugin() -> Plugin {
    Plugin::load(COMPONENT).cache(env!("CARGO_TARGET_TMPDIR"))
}

#[tokio::test]
async fn repeated_lines_are_found() -> Result<(), TestError> {
    let plugin = plugin().file("log/a.txt", "a\nb\n\na\nc\nb\na\n").grant("files=read").start().await?;
    let reply = plugin.call("repeated_lines", json!({ "path": "log/a.txt" })).await;
    assert_eq!(reply.text()?, "[1, 4, 7] a\n[2, 6] b");
    assert_eq!(reply.details()?, json!({ "repeated": 2 }));
    assert_eq!((reply.ledger.files, reply.ledger.bytes_written, reply.ledger.processes), (1, 0, 0));
    Ok(())
}

#[tokio::test]
async fn file_that_is_not_granted_is_denied() -> Result<(), TestError> {
    let plugin = plugin().file("a.txt", "a\na\n").start().await?;
    let error = plugin.call("repeated_lines", json!({ "path": "a.txt" })).await.error()?;
    assert!(
        error.contains("denied") && error.ends_with("hint: to grant it in the test: .grant(\"files=read\")"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn file_that_does_not_exist_is_an_error_for_the_model() -> Result<(), TestError> {
    let plugin = plugin().grant("files=read").start().await?;
    let error = plugin.call("repeated_lines", json!({ "path": "none.txt" })).await.error()?;
    assert!(error.contains("none.txt"), "{error}");
    Ok(())
}

#[tokio::test]
async fn command_asks_the_model() -> Result<(), TestError> {
    let actions = plugin().start().await?.command("repeated", "a.txt").await?;
    assert_eq!(actions, [HostAction::Submit("Which lines are repeated in a.txt, and why?".to_owned())]);
    Ok(())
}
