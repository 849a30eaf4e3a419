//! Dialogs, notices and drawings of plugins: nothing is asked without the grant and a user, answered by anyone else, or
//! shown as if the host had said it.

use super::talks::{ScriptedUser, Talk, Told, assert_alive, steps};
use pinion_agent::dialog::{DialogAnswer, DialogError, DialogKind};
use pinion_agent::secrets::Secrets;
use pinion_agent::{EventKind, RunEnd};
use pinion_plugin_runtime::PartialLimits;
#[cfg(target_os = "linux")]
use pinion_tests::Terminal;
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, guest, say};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const YES: Result<DialogAnswer, DialogError> = Ok(DialogAnswer::Confirmed(true));

async fn granted() -> Sandbox {
    SandboxBuilder::default().guest("talker").grant("talker", |grants| grants.ui = true).watched().build().await
}

async fn told(sandbox: &Sandbox, user: &Arc<ScriptedUser>, does: Value) -> Told {
    Talk::new(sandbox, user.clone(), [steps("talk", does)], |_| {}).run().await
}

#[tokio::test]
async fn ungranted_plugin_asks_and_shows_nothing() {
    let sandbox = SandboxBuilder::default().guest("talker").watched().build().await;
    let user = ScriptedUser::with([YES]);
    let does = json!([{ "confirm": "ok?" }, { "notify": ["hello", 1] }, { "status": "hello" }, { "draw": "hello" }]);
    let told = told(&sandbox, &user, does).await;
    assert!(told.result().contains("may not ask and notify you"), "{}", told.result());
    assert!(told.result().contains("[plugins.talker.grants] ui = true"), "{}", told.result());
    assert!(user.questions().is_empty() && user.segments.lock().unwrap().is_empty() && told.drawings().is_empty());
    assert!(!told.events.iter().any(|event| matches!(event, EventKind::PluginNotice { .. })));
}

#[tokio::test]
async fn answers_reach_the_plugin() {
    let (sandbox, entered) = (granted().await, |text: &str| Ok(DialogAnswer::Entered(text.to_owned())));
    let user = ScriptedUser::with([YES, Ok(DialogAnswer::Selected(1)), entered("Ada"), Err(DialogError::Dismissed)]);
    let does = json!([
        { "confirm": "ok?" }, { "select": ["which?", ["a", "b"]] }, { "input": ["name?", "A"] }, { "confirm": "and?" },
    ]);
    let result = told(&sandbox, &user, does).await.result();
    assert_eq!(result, "Ok(true)\nOk(1)\nOk(\"Ada\")\nErr(UiError::Dismissed)");
    let dialogs = user.dialogs.lock().unwrap();
    assert!(dialogs.iter().all(|dialog| dialog.plugin == "talker"));
    assert_eq!(dialogs[2].kind, DialogKind::Input("A".to_owned()));
}

#[tokio::test]
async fn form_asks_again_until_the_answer_matches_its_schema() {
    let (sandbox, entered) = (granted().await, |text: &str| Ok(DialogAnswer::Entered(text.to_owned())));
    let user = ScriptedUser::with([entered("many"), entered("12"), entered("3"), Ok(DialogAnswer::Selected(0))]);
    let schema = json!({
        "type": "object",
        "properties": { "count": { "type": "integer", "maximum": 9 }, "how": { "enum": ["fast", "slow"] } },
        "required": ["count", "how"],
    });
    let result = told(&sandbox, &user, json!([{ "form": ["settings", schema] }])).await.result();
    assert_eq!(result, r#"Ok("{\"count\":3,\"how\":\"fast\"}")"#);
    assert!(user.questions()[1].contains("it must be an integer to 9"), "{:?}", user.questions());
    let tricky = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(a+)+$" } } });
    let result = told(&sandbox, &user, json!([{ "form": ["settings", tricky] }])).await.result();
    assert!(result.contains("do not support the keyword `pattern`"), "{result}");
}

#[tokio::test]
async fn call_opens_at_most_20_dialogs() {
    let (sandbox, user) = (granted().await, ScriptedUser::with(std::iter::repeat_n(YES, 100)));
    let result = told(&sandbox, &user, json!([{ "flood": ["ok?", 50] }])).await.result();
    assert_eq!((result.matches("Ok(true)").count(), user.questions().len()), (20, 20));
    assert_eq!(result.matches("20 dialogs, the maximum").count(), 30, "{result}");
}

#[tokio::test]
async fn muted_plugin_is_dismissed_without_a_dialog() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([Err(DialogError::Muted), YES]));
    let talk = Talk::new(&sandbox, user.clone(), [steps("talk", json!([{ "flood": ["ok?", 3] }]))], |_| {});
    let agent = talk.agent.clone();
    assert_eq!(talk.run().await.result().matches("Err(UiError::Dismissed)").count(), 3);
    let again = agent.run(vec![pinion_agent::Message::user("again")]).await.unwrap();
    assert!(matches!(again.end, RunEnd::Done { .. }) && user.questions().len() == 1);
}

#[tokio::test]
async fn questions_are_bounded_before_they_are_shown() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([YES]));
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let does = json!([
        { "confirm": " \n" }, { "confirm": "x".repeat(5_000) }, { "confirm": "\n".repeat(70) + "x" },
        { "select": ["which?", []] }, { "select": ["which?", many] }, { "select": ["which?", [""]] },
        { "input": ["name?", "x".repeat(2_000)] },
    ]);
    let result = told(&sandbox, &user, does).await.result();
    assert_eq!(result.matches("Invalid").count(), 7, "{result}");
    assert!(user.questions().is_empty());
}

#[tokio::test]
async fn control_characters_of_a_question_are_removed() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([YES, Ok(DialogAnswer::Selected(0))]));
    let does = json!([{ "confirm": "a\u{1b}[2Jb\u{7}\u{202e}" }, { "select": ["x", ["one\u{1b}]0;t\u{7}\ntwo"] ] }]);
    told(&sandbox, &user, does).await;
    let dialogs = user.dialogs.lock().unwrap();
    assert_eq!(dialogs[0].question, "a[2Jb\\u{202e}");
    assert_eq!(dialogs[1].kind, DialogKind::Select(vec!["one]0;t ⏎ two".to_owned()]));
}

#[tokio::test]
async fn dialogs_of_concurrent_calls_open_one_after_another() {
    let (sandbox, user) = (granted().await, ScriptedUser::with(std::iter::repeat_n(YES, 12)));
    let call = || steps("talk", json!([{ "flood": ["ok?", 3] }]));
    let told = Talk::new(&sandbox, user.clone(), [call(), call(), call(), call()], |_| {}).run().await;
    assert!(told.results().iter().all(|result| result.matches("Ok(true)").count() == 3));
    assert_eq!(user.most_open.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn code_outside_calls_cannot_ask() {
    let config = json!({ "ask_in_init": true });
    let sandbox = SandboxBuilder::default().guest("talker").grant("talker", |grants| grants.ui = true).watched();
    let sandbox = sandbox.config("talker", config).build().await;
    let user = ScriptedUser::with([YES]);
    let result = told(&sandbox, &user, json!([{ "confirm": "ok?" }])).await.result();
    let notices = format!("{:?}", sandbox.notices());
    assert!(result.contains("no tool") && notices.contains("only calls of tools and commands may"), "{notices}");
    let sandbox = granted().await;
    let completions = sandbox.completed("talk", "").await;
    assert!(completions.iter().all(|found| found.value.contains("Denied")), "{completions:?}");
    assert!(user.questions().is_empty());
}

#[tokio::test]
async fn command_asks_in_its_conversation_and_draws_nothing() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([YES]));
    let talk = Talk::new(&sandbox, user.clone(), [], |_| {});
    let token = CancellationToken::new();
    let services = talk.agent.services_for_command(&token);
    let typed = json!([{ "confirm": "ok?" }, { "notify": ["hello", 1] }, { "draw": "x" }]).to_string();
    let actions = sandbox.runtime.run_command("talk", &typed, "s", Some(services), token).await.unwrap();
    let said = format!("{actions:?}");
    assert!(said.contains("Ok(true)") && said.contains("no tool call to draw"), "{said}");
    assert_eq!(*user.notices.lock().unwrap(), ["talker: hello"]);
    let lone = sandbox.runtime.run_command("talk", &typed, "s", None, CancellationToken::new()).await.unwrap();
    assert!(format!("{lone:?}").contains("UiError::Headless"), "{lone:?}");
}

#[tokio::test]
async fn notices_beyond_60_a_minute_are_dropped() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([]));
    let told = told(&sandbox, &user, json!([{ "notify": ["a\u{1b}[1mb\nc", 500] }])).await;
    let notices = told.events.iter().filter_map(|event| match event {
        EventKind::PluginNotice { plugin, text, .. } => Some((plugin.as_str(), text.as_str())),
        _ => None,
    });
    let notices: Vec<_> = notices.collect();
    assert_eq!((notices.len(), notices[0]), (60, ("talker", "a[1mb ⏎ c")));
}

#[tokio::test]
async fn segment_of_the_status_line_is_one_short_line() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([]));
    told(&sandbox, &user, json!([{ "status": format!("a\nb{}", "x".repeat(500)) }])).await;
    let segments = user.segments.lock().unwrap();
    let text = segments[0].as_ref().unwrap();
    assert!(text.starts_with("a ⏎ b") && text.chars().count() <= 41, "{text}");
}

#[tokio::test]
async fn drawings_are_bounded_and_carry_the_plugin_and_no_control_characters() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([]));
    let does = json!([{ "draw": "x\u{1b}[31m\u{202e}" }, { "draw_rows": 201 }, { "draw_rows": 200 }]);
    let told = told(&sandbox, &user, does).await;
    assert!(told.result().contains("201 rows, of at most 200"), "{}", told.result());
    let drawings = told.drawings();
    assert_eq!(drawings.len(), 3);
    let json = drawings.iter().map(Value::to_string).collect::<String>();
    assert!(!json.contains("\\u001b") && !json.contains('\u{202e}') && json.contains("x[31m"), "{json}");
    assert!(drawings.iter().all(|drawing| drawing["plugin"] == "talker" && drawing["call_id"] == "call-0"));
}

#[tokio::test]
async fn secrets_do_not_pass_through_dialogs_and_drawings() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([YES]));
    let secret = "sk-test-0123456789abcdefghij";
    let secrets = Secrets::default();
    secrets.add(&pinion_agent::secrecy::SecretString::from(secret));
    let does = json!([{ "confirm": format!("send {secret}?") }, { "draw": secret }, { "notify": [secret, 1] }]);
    let told =
        Talk::new(&sandbox, user.clone(), [steps("talk", does)], |config| config.ports.secrets = secrets).run().await;
    assert!(!user.questions()[0].contains("0123456789"), "{:?}", user.questions());
    let shown =
        told.events.iter().filter(|event| matches!(event, EventKind::Drawing { .. } | EventKind::PluginNotice { .. }));
    let shown: String = shown.map(|event| serde_json::to_string(event).unwrap()).collect();
    assert!(!shown.contains("0123456789") && !shown.is_empty(), "{shown}");
}

#[tokio::test]
async fn deadline_pauses_while_the_user_is_asked() {
    let limits = PartialLimits { deadline_ms: Some(400), ..PartialLimits::default() };
    let sandbox = SandboxBuilder::default().guest("talker").grant("talker", |grants| grants.ui = true).watched();
    let sandbox = sandbox.limits("talker", limits).build().await;
    let user = ScriptedUser::with([]);
    let does = json!([{ "confirm": "ok?" }, "spin"]);
    let talk = Talk::new(&sandbox, user.clone(), [steps("talk", does)], |_| {});
    let agent = talk.agent.clone();
    let running = tokio::spawn(talk.run());
    user.shown.notified().await;
    // A person who takes longer than the deadline of the call.
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_millis(1_200) {
        tokio::task::yield_now().await;
    }
    assert!(!running.is_finished(), "the deadline passed while a person was asked");
    agent.abort();
    assert!(matches!(running.await.unwrap().outcome.end, RunEnd::Aborted));
    assert_alive(&sandbox).await;
}

#[tokio::test]
async fn aborted_run_closes_the_dialog() {
    let (sandbox, user) = (granted().await, ScriptedUser::with([]));
    let talk = Talk::new(&sandbox, user.clone(), [steps("talk", json!([{ "confirm": "ok?" }]))], |_| {});
    let agent = talk.agent.clone();
    let running = tokio::spawn(talk.run());
    user.shown.notified().await;
    agent.abort();
    assert!(matches!(running.await.unwrap().outcome.end, RunEnd::Aborted));
    // The next question is asked, so the turn of the last one has ended.
    let user = ScriptedUser::with([YES]);
    assert_eq!(told(&sandbox, &user, json!([{ "confirm": "ok?" }])).await.result(), "Ok(true)");
}

/// Starts the command with the guest, its grant, and a model that makes one call.
fn command(pinion: &Pinion, does: &Value, arguments: &[&str]) -> std::process::Command {
    pinion.config("[plugins.talker.grants]\nui = true\n");
    let call = json!({ "calls": [{ "tool": "talk", "arguments": { "steps": does } }] });
    let script = pinion.script(&[call, say("finished")]);
    let plugin = guest("talker");
    let before = ["--replay", script.to_str().unwrap(), "--plugin", plugin.to_str().unwrap()];
    pinion.command(before.iter().chain(arguments))
}

#[test]
fn run_without_a_terminal_is_headless() {
    let pinion = Pinion::default();
    let does = json!([{ "confirm": "ok?" }, { "draw": "drawn" }, { "notify": ["noticed", 1] }]);
    let ended = command(&pinion, &does, &["-p", "--output-format", "stream-json", "go"]).output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(out.contains("UiError::Headless") && out.contains(r#""type":"drawing""#), "{out}");
    assert!(out.contains(r#""type":"plugin_notice","plugin":"talker","severity":"warning","text":"noticed""#), "{out}");
}

#[cfg(target_os = "linux")]
#[test]
fn forged_question_on_the_terminal_stands_behind_a_bar() {
    let pinion = Pinion::default();
    let forged = "done\n? allow this call? It reads files\n  [y] yes   [a] always in this session\u{1b}[2J";
    let command = command(&pinion, &json!([{ "confirm": forged }]), &["go"]);
    let mut terminal = Terminal::start(&command, (80, 24), "y\ry\r");
    let seen = terminal.wait_for("[ctrl+x] no dialogs");
    assert!(seen.contains("the plugin talker asks you; this grants nothing:"), "{seen}");
    assert!(
        !seen.contains("\n? allow") && !seen.contains("\u{1b}[2J") && seen.contains("? allow this call?"),
        "{seen}"
    );
    // A paste does not answer either.
    terminal.keys("yes\r");
    terminal.wait_for("several keys at once");
    terminal.keys("y");
    terminal.wait_for("Ok(true)");
    terminal.wait_for("finished");
    terminal.wait_for("›");
    terminal.exit();
}

#[cfg(target_os = "linux")]
#[test]
fn line_is_entered_and_option_is_selected_on_the_terminal() {
    let pinion = Pinion::default();
    let does = json!([{ "input": ["name?", "A"] }, { "select": ["which?", ["one", "two"]] }, { "confirm": "more?" }]);
    let mut terminal = Terminal::start(&command(&pinion, &does, &["go"]), (80, 24), "");
    terminal.wait_for("text and enter");
    terminal.keys("da");
    terminal.wait_for("› Ada");
    terminal.keys("\r");
    terminal.wait_for("number and enter");
    terminal.keys("2");
    terminal.wait_for("› 2");
    terminal.keys("\r");
    terminal.wait_for("[y] yes");
    terminal.keys("\u{18}");
    let seen = terminal.wait_for("UiError::Dismissed");
    assert!(seen.contains("Ok(\"Ada\")") && seen.contains("Ok(1)"), "{seen}");
    terminal.wait_for("finished");
    terminal.wait_for("›");
    terminal.exit();
}
