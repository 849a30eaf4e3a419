//! Hooks and the other exports of plugins in C, Go and Zig, whose bindings have each export apart.

use super::authors::{author, is_there, root, run};
use super::guide::{hooks_run, lines_of_world, snippet};
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{Exports, Inspection};
use pinion_plugin_test::{Completion, Content, Hooked, HostAction, Plugin, TestError, json};
use pinion_tests::{Pinion, SandboxBuilder};
use std::fs;
use std::path::{Path, PathBuf};

/// The exports that the fixtures in `exports` have beyond tools and commands.
const MORE: &str = "export pinion:plugin/lifecycle@0.1.0;
export pinion:plugin/before-compaction@0.1.0;
export pinion:plugin/session-events@0.1.0;
export pinion:plugin/offers@0.1.0;
";

/// Returns the file of a project's code.
fn source(language: &str) -> String {
    if language == "go" { "plugin.go".to_owned() } else { format!("src/plugin.{language}") }
}

/// Creates a project with this code and these lines in its world, and builds it.
fn project(language: &str, code: &str, world: &str, asks: &str, lifetime: &str) -> (Pinion, PathBuf) {
    let pinion = author();
    assert_eq!(run(&pinion, ["plugin", "new", "more", "--lang", language]).code, Some(0));
    pinion.write(&format!("more/{}", source(language)), code);
    let change = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(pinion.workspace().join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        pinion.write(file, text.replacen(from, to, 1));
    };
    change("more/wit/world.wit", "  import", &format!("{world}  import"));
    change("more/pinion-plugin.toml", "files = \"read\"", asks);
    change("more/pinion-plugin.toml", "lifetime = \"reused\"", &format!("lifetime = \"{lifetime}\""));
    let built = run(&pinion, ["plugin", "build", "more"]);
    assert!(built.code == Some(0) && !built.stdout.contains("\n! "), "{built:?}");
    let component = pinion.workspace().join("more/build/more.wasm");
    (pinion, component)
}

/// Returns the interfaces of the contract that a component exports.
fn exports(component: &Path) -> Exports {
    Inspection::from_component(&fs::read(component).unwrap()).unwrap().exports
}

const USUAL: Exports = Exports {
    tools: true,
    commands: true,
    lifecycle: false,
    state: false,
    offers: false,
    before_tool_call: false,
    after_tool_call: false,
    before_prompt: false,
    before_compaction: false,
    session_events: false,
    before_stop: false,
    session_start: false,
    session_end: false,
    after_reply: false,
    functions: false,
};

/// A guard denies a call. Before it is written, the project exports no hooks, which would need a grant.
fn guards_calls(language: &str) {
    let code = snippet(&format!("guards.{language}"));
    if !is_there(language) {
        return;
    }
    let starter = author();
    assert_eq!(run(&starter, ["plugin", "new", "starter", "--lang", language]).code, Some(0));
    assert_eq!(run(&starter, ["plugin", "build", "starter"]).code, Some(0));
    assert_eq!(exports(&starter.workspace().join("starter/build/starter.wasm")), USUAL);
    let code = if language == "go" { format!("{code}\nfunc main() {{}}\n") } else { code };
    let (pinion, component) = project(language, &code, &lines_of_world("before-tool-call"), "hooks = true", "reused");
    let hooks = Exports { before_tool_call: true, after_tool_call: true, before_prompt: true, ..USUAL };
    assert_eq!(exports(&component), hooks);
    hooks_run(&pinion, "more", &component);
}

#[test]
fn guard_in_c_denies_calls() {
    guards_calls("c");
}

#[test]
fn guard_in_go_denies_calls() {
    guards_calls("go");
}

#[test]
fn guard_in_zig_denies_calls() {
    guards_calls("zig");
}

fn kit(component: &Path) -> Plugin {
    Plugin::load(component).cache(env!("CARGO_TARGET_TMPDIR"))
}

/// A tool that a call adds is offered, and again after a reload, which hands over the state.
async fn tools_change(language: &str) -> Result<(), TestError> {
    let code = snippet(&format!("lists.{language}"));
    if !is_there(language) {
        return Ok(());
    }
    let (_pinion, component) = project(language, &code, &lines_of_world("offers"), "", "session");
    assert_eq!(exports(&component), Exports { offers: true, state: true, ..USUAL });
    let plugin = kit(&component).start().await?;
    for name in ["risks", "dates"] {
        assert_eq!(plugin.call("new_list", json!({ "name": name })).await.text()?, format!("created {name}"));
        plugin.offers(&format!("list_{name}")).await?;
    }
    assert_eq!(plugin.call("list_dates", json!({})).await.text()?, "the list dates is empty");
    plugin.reload_with(json!({ "again": true })).await?;
    plugin.offers("list_risks").await?;
    assert_eq!(plugin.tools(), ["new_list", "list_risks", "list_dates"]);
    assert_eq!(plugin.call("list_risks", json!({})).await.text()?, "the list risks is empty");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_plugin_in_c_change_and_survive_a_reload() -> Result<(), TestError> {
    tools_change("c").await
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_plugin_in_go_change_and_survive_a_reload() -> Result<(), TestError> {
    tools_change("go").await
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_plugin_in_zig_change_and_survive_a_reload() -> Result<(), TestError> {
    tools_change("zig").await
}

/// Creates the plugin of `fixtures/exports`; `None` if there is no toolchain.
fn more(language: &str) -> Option<(Pinion, PathBuf)> {
    let code = fs::read_to_string(root().join(format!("tests/fixtures/exports/plugin.{language}"))).unwrap();
    is_there(language).then(|| project(language, &code, MORE, "hooks = true", "session"))
}

async fn lives_and_observes(component: &Path) -> Result<(), TestError> {
    let refused = |error: Result<_, TestError>| error.map(|_| ()).unwrap_err().to_string();
    let broken = refused(kit(component).settings(json!({ "unit": "broken" })).start().await);
    assert!(broken.contains("the unit is broken"), "{broken}");
    let empty = refused(kit(component).settings(json!({ "unit": "" })).start().await);
    assert!(empty.contains("the unit is empty"), "{empty}");
    let plugin = kit(component).grant("hooks").settings(json!({ "unit": "C" })).start().await?;
    let added = plugin.before_compaction(3, 700, Some("be brief")).await?;
    assert!(matches!(&added, Hooked::Adds(text) if text.contains("3 messages, 700 tokens: be brief")), "{added:?}");
    plugin.session_events(&[json!({ "type": "turn_start" }), json!({ "type": "turn_end" })]).await?;
    plugin.session_events(&[json!({ "type": "turn_start" })]).await?;
    let reply = plugin.call("measure", json!({})).await;
    let output = reply.result.clone()?;
    assert_eq!(reply.details()?, json!({ "unit": "C" }));
    let [text, Content::Image(image)] = &output.content[..] else { panic!("{output:?}") };
    assert_eq!(text.as_text(), Some("**7 C** after 2 turns in a workspace"));
    assert_eq!((image.media_type.as_str(), &image.data[..]), ("image/png", &b"\x89PNG\r\n\x1a\n\0"[..]));
    Ok(())
}

async fn commands_complete_and_act(component: &Path) -> Result<(), TestError> {
    let plugin = kit(component).start().await?;
    let completion = |value: &str, description: Option<&str>| Completion {
        value: value.to_owned(),
        description: description.map(str::to_owned),
    };
    let expected = [completion("x-one", Some("The first")), completion("two", None)];
    assert_eq!(plugin.complete("act", "x").await, expected);
    let expected = [
        HostAction::Print("shown x".to_owned()),
        HostAction::Insert("inserted".to_owned()),
        HostAction::SetModel("model".to_owned()),
        HostAction::Compact(None),
        HostAction::NewSession,
        HostAction::Resume(Some("session".to_owned())),
        HostAction::Fork,
        HostAction::ReloadPlugins,
        HostAction::Quit,
    ];
    assert_eq!(plugin.command("act", "x").await?, expected);
    Ok(())
}

/// Calls that run alone, and errors that may pass.
async fn properties_arrive(component: &Path) {
    let sandbox = SandboxBuilder::default().file(component.to_owned()).build().await;
    let execution = |tool: &str| format!("{:?}", sandbox.tool(tool).execution);
    assert_eq!((execution("measure"), execution("busy")), ("Sequential".to_owned(), "Parallel".to_owned()));
    let failed = sandbox.call("busy", json!({})).await.unwrap_err();
    assert!(
        matches!(&failed, ToolError::Failed { message, retryable: true, .. } if message == "it is busy"),
        "{failed:?}"
    );
}

/// Each call has a fresh instance, which was not asked for a list before.
async fn finds_what_is_offered(pinion: &Pinion, component: &Path) -> Result<(), TestError> {
    let pack = ["plugin", "pack", component.to_str().unwrap(), "--name", "fresh", "--lifetime", "call"];
    let packed = run(pinion, pack.iter().chain(&["--out", "fresh.wasm"]));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let plugin = kit(&pinion.workspace().join("fresh.wasm")).start().await?;
    plugin.offers("extra").await?;
    assert_eq!(plugin.tools(), ["measure", "busy", "extra"]);
    assert_eq!(plugin.call("extra", json!({})).await.text()?, "extra");
    Ok(())
}

async fn has_everything(language: &str) -> Result<(), TestError> {
    let Some((pinion, component)) = more(language) else { return Ok(()) };
    let all = Exports { lifecycle: true, offers: true, before_compaction: true, session_events: true, ..USUAL };
    assert_eq!(exports(&component), all);
    lives_and_observes(&component).await?;
    commands_complete_and_act(&component).await?;
    properties_arrive(&component).await;
    finds_what_is_offered(&pinion, &component).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_in_c_has_the_other_exports_and_properties() -> Result<(), TestError> {
    has_everything("c").await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_in_go_has_the_other_exports_and_properties() -> Result<(), TestError> {
    has_everything("go").await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_in_zig_has_the_other_exports_and_properties() -> Result<(), TestError> {
    has_everything("zig").await
}

/// A package of Go is in the module whether the world has the export or not.
#[test]
fn hook_in_go_that_the_world_leaves_out_stops_the_build() {
    let code = snippet("guards.go");
    if !is_there("go") {
        return;
    }
    let pinion = author();
    assert_eq!(run(&pinion, ["plugin", "new", "more", "--lang", "go"]).code, Some(0));
    pinion.write("more/guards.go", code);
    let built = run(&pinion, ["plugin", "build", "more"]);
    let hint = "add to wit/world.wit: export pinion:plugin/";
    assert!(built.code == Some(2) && built.stderr.contains(hint), "{built:?}");
}

#[test]
fn plugin_that_asks_for_hooks_and_has_none_is_warned_about() {
    let pinion = author();
    let component = root().join("tests/fixtures/contract-0.1.0/hex-dump.wasm");
    let pack =
        ["plugin", "pack", component.to_str().unwrap(), "--name", "bare", "--ask", "hooks", "--out", "bare.wasm"];
    assert_eq!(run(&pinion, pack).code, Some(0));
    let checked = run(&pinion, ["plugin", "check", "bare.wasm"]);
    assert!(checked.stdout.contains("\n! asks for `hooks` without exporting any"), "{checked:?}");
}
