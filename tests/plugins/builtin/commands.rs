//! The slash commands.

use super::with;
use pinion_plugin_runtime::{CommandError, HostAction};
use pinion_tests::Sandbox;
use tokio_util::sync::CancellationToken;

async fn entered(sandbox: &Sandbox, name: &str, arguments: &str) -> Result<Vec<HostAction>, CommandError> {
    sandbox.runtime.run_command(name, arguments, "session-1", None, CancellationToken::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_its_effect() {
    let sandbox = with(&["commands"]).await;
    for (name, arguments, effect) in [
        ("reload", "", HostAction::ReloadPlugins),
        ("model", " anthropic/x ", HostAction::SetModel("anthropic/x".into())),
        ("new", " ", HostAction::NewSession),
        ("compact", "", HostAction::Compact(None)),
        ("compact", " keep the plan\n", HostAction::Compact(Some("keep the plan".into()))),
        ("quit", "", HostAction::Quit),
        ("exit", "", HostAction::Quit),
    ] {
        assert_eq!(entered(&sandbox, name, arguments).await, Ok(vec![effect]), "/{name}{arguments}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_show_current_state() {
    let sandbox = with(&["commands", "fs", "shell"]).await;
    for (name, arguments, shown) in [
        ("help", "", "/compact [focus"),
        ("help", "/new", "`/new`: Start a new session (plugin commands)"),
        ("tools", "", "| bash "),
        ("plugins", "", "- `fs` "),
        ("model", "", "No known models"),
        ("cost", "", "Nothing spent in this session"),
    ] {
        match entered(&sandbox, name, arguments).await.as_deref() {
            // `/cost` also asks for the costs of the turns, which only a conversation knows.
            Ok([HostAction::Print(text), ..]) => assert!(text.contains(shown), "/{name}: {text}"),
            other => panic!("/{name}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_command_arguments_are_rejected() {
    let sandbox = with(&["commands"]).await;
    for (name, arguments, said) in [
        ("new", "one", "`/new` takes no arguments"),
        ("model", "one two", "`/model` takes one word"),
        ("help", "nothing", "no command `/nothing`"),
    ] {
        let refused = entered(&sandbox, name, arguments).await.unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
    assert_eq!(entered(&sandbox, "nothing", "").await, Err(CommandError::Unknown { name: "nothing".into() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_completed() {
    let sandbox = with(&["commands"]).await;
    let completed = sandbox.completed("help", "co").await;
    let names: Vec<_> = completed.iter().map(|completion| completion.value.as_str()).collect();
    assert_eq!(names, ["compact", "cost", "context", "copy"]);
    assert_eq!(sandbox.runtime.complete("quit", "x").await, []);
}
