//! Hooks before a run stops, at the start and end of a session, and after replies.

use super::*;

/// The guest with the hooks of `pinion:hooks`, which notes its calls in a file of the workspace.
fn attended(points: &[HookPoint]) -> SandboxBuilder {
    let builder = SandboxBuilder::default().guest("attendant").hooks_at("attendant", points);
    builder.files("attendant", ".", FileAccess::Write).guest("echo").trust("echo")
}

fn last_text(request: &Request) -> String {
    let last = request.messages.iter().rev().find_map(|message| match &**message {
        Message::User(message) => Some(message.content.iter().filter_map(Content::as_text).collect()),
        _ => None,
    });
    last.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn run_continues_with_the_marked_reason_of_a_hook_at_most_three_times() {
    let sandbox = attended(&[HookPoint::BeforeStop]).build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    let ended = Conversation::new(&sandbox, |request| {
        let text = last_text(request);
        assert!(text == "go" || text.contains("not from the user"), "{text}");
        assert!(text == "go" || text.lines().skip(1).all(|line| line.starts_with("> ")), "{text}");
        Say::Text("unfinished".into())
    });
    let ended = ended.run().await;
    assert!(matches!(ended.outcome.end, RunEnd::Done { .. }), "{:?}", ended.outcome.end);
    assert_eq!(ended.answers(HookPoint::BeforeStop), [HookAnswer::Continued; 3]);
    assert_eq!(ended.outcome.turns, 4);
    assert_eq!(sandbox.read("attended.txt"), "stop 1 0\nstop 2 1\nstop 3 2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_that_breaks_or_answers_in_words_of_later_hosts_lets_the_run_stop() {
    for (text, answer) in
        [("break", HookAnswer::Failed), ("later", HookAnswer::Proceeded), ("done", HookAnswer::Proceeded)]
    {
        let sandbox = attended(&[HookPoint::BeforeStop]).build().await;
        let ended = Conversation::new(&sandbox, move |_| Say::Text(text.into())).run().await;
        assert_eq!((ended.outcome.text().as_str(), ended.outcome.turns), (text, 1));
        assert_eq!(ended.answers(HookPoint::BeforeStop), [answer]);
        assert_alive(&sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_and_end_of_a_session_are_announced_once() {
    let sandbox = attended(&[HookPoint::SessionStart, HookPoint::SessionEnd]).build().await;
    let conversation = Conversation::new(&sandbox, |request| Say::Text(text_of(request)));
    let first = conversation.agent.run(vec![Message::user("go")]).await.unwrap().text();
    let context = "\n[Context from plugin `attendant`, not from the user]\n> The branch is frozen.";
    assert_eq!(first, format!("go{context}"));
    conversation.agent.run(vec![Message::user("on")]).await.unwrap();
    assert_eq!(sandbox.read("attended.txt"), "start true\n");
    sandbox.runtime.deliver_events().await;
    sandbox.runtime.deliver_events().await;
    assert_eq!(sandbox.read("attended.txt"), "start true\nend true\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn revised_reply_takes_the_place_of_the_models() {
    let sandbox = attended(&[HookPoint::AfterReply]).build().await;
    for (text, expected, answer) in [
        ("write to ada@example.com", "write to [e-mail]", HookAnswer::Revised),
        ("nobody is named", "nobody is named", HookAnswer::Proceeded),
        ("too few", "too few", HookAnswer::Failed),
    ] {
        let conversation = Conversation::new(&sandbox, move |_| Say::Text(text.into()));
        let agent = conversation.agent.clone();
        let ended = conversation.run().await;
        assert_eq!(ended.outcome.text(), expected);
        assert_eq!(ended.answers(HookPoint::AfterReply), [answer]);
        assert!(!format!("{:?}", agent.history()).contains("ada@example.com"));
    }
}

#[test]
fn hook_before_the_end_of_a_run_needs_its_name_in_the_grant() {
    let pinion = Pinion::default();
    let plugin = guest("attendant");
    let script = pinion.script(&[say("unfinished"), say("finished")]);
    let arguments = [
        "-p",
        "--plugin",
        plugin.to_str().unwrap(),
        "--replay",
        script.to_str().unwrap(),
        "--output-format",
        "stream-json",
        "go",
    ];
    for (grants, continues) in [("true", false), (r#"["before-stop"]"#, true)] {
        pinion.config(&format!("[plugins.attendant.grants]\nhooks = {grants}\n"));
        let ended = pinion.run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stdout.contains("two tests still fail"), continues, "{grants}: {ended:?}");
        assert_eq!(ended.stdout.contains("The branch is frozen."), !continues, "{grants}: {ended:?}");
    }
}
