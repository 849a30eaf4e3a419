//! Actions of the application that commands of plugins name.

use pinion_plugin_runtime::{ActionInfo, CommandError, HostAction, HostInfo, PluginSource};
use pinion_tests::{Sandbox, SandboxBuilder, builtin};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// An application with these actions.
struct Actions(&'static [ActionInfo]);

impl HostInfo for Actions {
    fn actions(&self) -> Vec<ActionInfo> {
        self.0.to_vec()
    }
}

const OPEN: ActionInfo = ActionInfo { name: "context", is_reserved: false, is_available: true };
const RESERVED: ActionInfo = ActionInfo { name: "mode", is_reserved: true, is_available: true };
/// An action that exists only on a screen, where none is.
const ELSEWHERE: ActionInfo = ActionInfo { name: "theme", is_reserved: false, is_available: false };
const ACTIONS: &[ActionInfo] = &[OPEN, RESERVED, ELSEWHERE];

/// Defines a command of the guest `lister`, which returns `returned` when it runs.
fn command(name: &str, extra: &Value, returned: Value) -> Value {
    json!({ "name": name, "description": "A command", "label": "[x]", "extra": extra.to_string(), "action": returned })
}

fn listing(commands: Vec<Value>) -> SandboxBuilder {
    let config = json!({ "commands": commands });
    SandboxBuilder::default().guest("lister").config("lister", config).info(Actions(ACTIONS))
}

/// The built-in slash commands, as the program embeds them.
fn built_in() -> PluginSource {
    let bytes = Box::leak(std::fs::read(builtin("commands")).unwrap().into_boxed_slice());
    PluginSource::BuiltIn { name: "commands", bytes, digest: None, description: None }
}

async fn entered(sandbox: &Sandbox, name: &str, arguments: &str) -> Result<Vec<HostAction>, CommandError> {
    sandbox.runtime.run_command(name, arguments, "session-1", None, CancellationToken::new()).await
}

fn perform(name: &str, arguments: &str) -> Result<Vec<HostAction>, CommandError> {
    Ok(vec![HostAction::Perform { name: name.into(), arguments: arguments.into() }])
}

#[tokio::test(flavor = "multi_thread")]
async fn command_of_the_user_causes_a_harmless_action() {
    let named = command("named", &json!({ "action": "context" }), Value::Null);
    let returned = command("returned", &json!({}), json!(["context", " all "]));
    let bare = command("bare", &json!({ "bare-action": "context" }), json!(["unknown", null]));
    let sandbox = listing(vec![named, returned, bare]).build().await;
    assert_eq!(entered(&sandbox, "named", " 2 ").await, perform("context", "2"));
    assert_eq!(sandbox.runtime.bound_action("named", "2"), Some(perform("context", "2").map(|mut one| one.remove(0))));
    assert_eq!(entered(&sandbox, "returned", "").await, perform("context", "all"));
    assert_eq!(sandbox.runtime.bound_action("returned", ""), None, "the code decides");
    assert_eq!(entered(&sandbox, "bare", " ").await, perform("context", ""));
    let unknown = HostAction::Unknown { name: "unknown".into(), argument: None };
    assert_eq!(entered(&sandbox, "bare", "x").await, Ok(vec![unknown]));
    assert_eq!(sandbox.runtime.completed_action("named").as_deref(), Some("context"));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_of_the_user_cannot_cause_a_reserved_action() {
    let reserved = json!(["mode", "all"]);
    let commands = vec![
        command("named", &json!({ "action": "mode" }), Value::Null),
        command("bare", &json!({ "bare-action": "mode" }), Value::Null),
        command("returned", &json!({}), reserved.clone()),
        // An action that is not available runs the code, which is no way around.
        command("hidden", &json!({ "action": "theme" }), reserved),
    ];
    let sandbox = listing(commands).trust("lister").catalog("lister").build().await;
    for name in ["named", "bare", "returned", "hidden"] {
        let refused = entered(&sandbox, name, "").await.unwrap_err().to_string();
        let expected = format!("/{name}: the plugin `lister` may not perform `mode`, which only built-in commands may");
        assert_eq!(refused, expected);
    }
    assert!(sandbox.runtime.bound_action("named", "all").unwrap().is_err());
    // The screen carries out the actions in the list, so the list has no such action.
    let named: Vec<_> =
        sandbox.runtime.commands().into_iter().filter_map(|command| command.action.or(command.bare_action)).collect();
    assert_eq!(named, ["theme"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_only_look_like_an_action_cause_nothing() {
    let forged = [" mode", "mode ", "MODE", "m\u{43e}de", ""];
    let commands = forged.iter().enumerate();
    let commands =
        commands.map(|(at, name)| command(&format!("c{at}"), &json!({ "action": name }), json!([name, "all"])));
    let sandbox = listing(commands.collect()).build().await;
    for (at, name) in forged.iter().enumerate() {
        let expected = HostAction::Unknown { name: (*name).into(), argument: Some("all".into()) };
        assert_eq!(entered(&sandbox, &format!("c{at}"), "").await, Ok(vec![expected]), "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_another_type_are_ignored_and_long_names_are_refused() {
    let sandbox =
        listing(vec![command("odd", &json!({ "action": 7, "x": [] }), json!(["context", null]))]).build().await;
    assert_eq!(entered(&sandbox, "odd", "").await, perform("context", ""));
    let long = command("long", &json!({ "action": "x".repeat(1_000) }), Value::Null);
    let sandbox = listing(vec![long]).build().await;
    assert!(format!("{:?}", sandbox.runtime.problems()).contains("`action`"), "{:?}", sandbox.runtime.problems());
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_command_causes_a_reserved_action() {
    let sandbox = SandboxBuilder::default().source(built_in()).info(Actions(ACTIONS)).build().await;
    assert_eq!(entered(&sandbox, "mode", " ask").await, perform("mode", "ask"));
    // Without the action, its code names it all the same.
    let unknown = HostAction::Unknown { name: "undo".into(), argument: Some("2".into()) };
    assert_eq!(entered(&sandbox, "undo", "2").await, Ok(vec![unknown]));
}

/// The same component from a file is not built in.
#[tokio::test(flavor = "multi_thread")]
async fn copy_of_the_built_in_commands_cannot_cause_a_reserved_action() {
    let copy = SandboxBuilder::default().file(builtin("commands")).trust("commands").info(Actions(ACTIONS));
    let sandbox = copy.build().await;
    assert!(matches!(entered(&sandbox, "mode", "all").await, Err(CommandError::Refused { .. })));
    assert_eq!(entered(&sandbox, "context", "").await, perform("context", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_of_the_user_replaces_one_that_the_user_leaves_out() {
    let own = || listing(vec![command("cost", &json!({ "action": "context" }), Value::Null)]);
    let with_built_in = |builder: SandboxBuilder, config: Value| {
        builder.source(built_in()).catalog("commands").config("commands", config)
    };
    let both = SandboxBuilder::default()
        .source(built_in())
        .guest("lister")
        .config("lister", json!({ "commands": [command("cost", &json!({ "action": "context" }), Value::Null)] }));
    let sandbox = both.info(Actions(ACTIONS)).catalog("commands").build().await;
    assert!(
        matches!(entered(&sandbox, "cost", "").await.unwrap()[..], [HostAction::Print(_), HostAction::Unknown { .. }]),
        "built-in commands win"
    );
    let sandbox = with_built_in(own(), json!({ "leave_out": ["/cost"] })).build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    assert_eq!(entered(&sandbox, "cost", "").await, perform("context", ""));
    assert!(matches!(entered(&sandbox, "new", "").await.unwrap()[..], [HostAction::NewSession]));
    let sandbox = SandboxBuilder::default().source(built_in()).config("commands", json!({ "leave-out": ["cost"] }));
    let sandbox = sandbox.build().await;
    assert!(entered(&sandbox, "cost", "").await.is_err(), "a key that does not exist is an error");
}

/// Commands that only a screen can carry out are left out of `/help` elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn help_lists_commands_that_the_form_can_carry_out() {
    let sandbox = SandboxBuilder::default().source(built_in()).catalog("commands").info(Actions(ACTIONS)).build().await;
    let help = entered(&sandbox, "help", "").await.unwrap();
    let [HostAction::Print(help)] = &help[..] else { panic!("{help:?}") };
    assert!(help.contains("/mode ") && !help.contains("/theme"), "{help}");
}
