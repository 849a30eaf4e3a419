//! Skills: the ones that are found, the parts that the model and the user see, and the limits of hostile ones.

use bytes::Bytes;
use pinion_tests::{HttpServer, Pinion, Terminal, answer, call, say};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

fn skill(pinion: &Pinion, directory: &str, name: &str, description: &str, body: &str) {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n");
    pinion.write(&format!("{directory}/{name}/SKILL.md"), text);
}

/// Returns the system prompt and the names of the tools that a model receives.
async fn request(pinion: &Pinion) -> (String, Vec<String>) {
    let server = HttpServer::start(|_| {
        let chunk = json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": { "content": "done" }, "finish_reason": "stop" }] });
        let text = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        answer(200, &[("content-type", "text/event-stream")], Bytes::from(text))
    })
    .await;
    let url = server.url("/v1");
    let mut command = pinion.command(["-p", "--provider", "openai-chat", "-m", "m", "--base-url", &url, "hi"]);
    command.env("OPENAI_API_KEY", "k").env("NO_PROXY", "*");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let requests = server.requests();
    let body: Value = serde_json::from_slice(requests[0].body()).unwrap();
    let tools = body["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect();
    (body["messages"][0]["content"].as_str().unwrap().to_owned(), names)
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_lists_skills_of_the_user_and_the_repository() {
    let pinion = Pinion::default();
    let (before, tools) = request(&pinion).await;
    assert!(!before.contains("Skills are") && !tools.contains(&"skill".to_owned()), "{before}");
    skill(&pinion, "../home/skills", "own", "the user's", "");
    skill(&pinion, "../home/.agents/skills/group", "nested", "below a group", "");
    skill(&pinion, ".agents/skills", "build", "how to\u{1b}[2J build", "");
    skill(&pinion, ".agents/skills", "own", "a hostile one", "");
    skill(&pinion, ".pinion/skills", "secret", "of an untrusted project", "");
    pinion.write(".agents/skills/broken/SKILL.md", "no front matter");
    let (prompt, tools) = request(&pinion).await;
    for line in
        ["- own: the user's\n", "- nested: below a group\n", "- build (of this repository): how to\u{fffd}[2J build"]
    {
        assert!(prompt.contains(line), "{line} is not in:\n{prompt}");
    }
    assert!(!["hostile one", "untrusted project", "broken"].iter().any(|text| prompt.contains(text)), "{prompt}");
    assert!(tools.contains(&"skill".to_owned()), "{tools:?}");
    pinion.config("[plugins.skills]\nenabled = false\n");
    assert!(!request(&pinion).await.0.contains("Skills are"));
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_of_a_trusted_project_are_listed() {
    let pinion = Pinion::default();
    skill(&pinion, ".pinion/skills", "release", "how to release", "");
    assert!(!request(&pinion).await.0.contains("how to release"));
    let trusted = pinion.run(["trust", "add", "--yes"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert!(request(&pinion).await.0.contains("- release (of this repository): how to release"));
}

/// Calls tools and returns the text of each result.
fn results(pinion: &Pinion, calls: &[Value]) -> Vec<String> {
    let replies: Vec<Value> =
        calls.iter().map(|arguments| call("skill", arguments.clone())).chain([say("done")]).collect();
    let script = pinion.script(&replies);
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ends = events.filter(|event| event["type"] == "tool_execution_end");
    ends.map(|event| event["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn model_reads_instructions_and_files_of_a_skill_only() {
    let pinion = Pinion::default();
    skill(&pinion, "../home/.agents/skills", "pdf", "Use when: a PDF", "Run `scripts/fill.py`.");
    pinion.write("../home/.agents/skills/pdf/scripts/fill.py", "print(1)\n");
    pinion.write("../home/.agents/skills/other.txt", "outside");
    pinion.write("../home/private.txt", "outside");
    symlink(pinion.home().join("private.txt"), pinion.home().join(".agents/skills/pdf/link.txt")).unwrap();
    let results = results(
        &pinion,
        &[
            json!({ "name": "pdf" }),
            json!({ "name": "pdf", "file": "scripts/fill.py" }),
            json!({ "name": "pdf", "file": "../other.txt" }),
            json!({ "name": "pdf", "file": "link.txt" }),
            json!({ "name": "doc" }),
        ],
    );
    assert!(
        results[0].contains("Run `scripts/fill.py`.") && results[0].contains("Its files: scripts/fill.py"),
        "{results:?}"
    );
    assert!(!results[0].contains("description"), "{results:?}");
    assert_eq!(results[1], "print(1)\n");
    assert!(results[2].contains("inside the directory") && !results[3].contains("outside"), "{results:?}");
    assert!(results[4].contains("there is no skill `doc`; the skills are: pdf"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_for_the_user_only_is_neither_listed_nor_started_by_the_model() {
    let pinion = Pinion::default();
    let text = "---\nname: deploy\ndescription: to production\ndisable-model-invocation: true\n---\nPush the button.\n";
    pinion.write("../home/.agents/skills/deploy/SKILL.md", text);
    pinion.write("../home/.agents/skills/deploy/steps.md", "one\n");
    assert!(!request(&pinion).await.0.contains("Skills are"));
    skill(&pinion, ".agents/skills", "build", "how to build", "");
    let (prompt, _) = request(&pinion).await;
    assert!(prompt.contains("- build") && !prompt.contains("deploy"), "{prompt}");
    let calls = [json!({ "name": "deploy" }), json!({ "name": "x" }), json!({ "name": "deploy", "file": "steps.md" })];
    let results = tokio::task::block_in_place(|| results(&pinion, &calls));
    assert!(results[0].contains("only the user starts the skill `deploy`, with `/skill:deploy`"), "{results:?}");
    assert!(results[1].ends_with("the skills are: build") && results[2] == "one\n", "{results:?}");
    let steps: [(&dyn Fn(), _, _); 2] =
        [(&nothing, "/skill", "to production"), (&nothing, "/skill:deploy now", "reply 1")];
    let (_, session) = tokio::task::block_in_place(|| converse(&pinion, &[say("reply 1")], &steps));
    assert!(session.contains("Push the button."), "{session}");
}

#[test]
fn links_of_a_repository_are_followed_inside_and_named_if_they_lead_out() {
    let pinion = Pinion::default();
    std::fs::create_dir(pinion.workspace().join(".git")).unwrap();
    skill(&pinion, "../elsewhere", "stolen", "outside of the repository", "");
    skill(&pinion, ".agents/skills", "real", "inside", "");
    let link = |target: &str, at: &str| symlink(target, pinion.workspace().join(at)).unwrap();
    link("../../../elsewhere/stolen", ".agents/skills/stolen");
    std::fs::create_dir(pinion.workspace().join(".claude")).unwrap();
    link("../../elsewhere", ".claude/skills");
    skill(&pinion, "tools/x", "linked", "kept with its tool", "Linked instructions.");
    link("../../tools/x/linked", ".agents/skills/one");
    skill(&pinion, "docs", "note", "a file elsewhere in the repository", "");
    std::fs::create_dir(pinion.workspace().join(".agents/skills/note")).unwrap();
    link("../../../docs/note/SKILL.md", ".agents/skills/note/SKILL.md");
    let calls: Vec<Value> = ["stolen", "real", "linked"].map(|name| call("skill", json!({ "name": name }))).to_vec();
    let script = pinion.script(&[calls, vec![say("done")]].concat());
    let ended = pinion.run(["-p", "--output-format", "stream-json", "--replay", script.to_str().unwrap(), "go"]);
    let text = &ended.stdout;
    assert!(text.contains("the skills are: note, linked, real"), "{text}");
    assert!(text.contains("Linked instructions.") && !text.contains("outside of the repository"), "{text}");
    for out in [".agents/skills/stolen", ".claude/skills"] {
        let notice = format!("{out}` is not used: it is a link that leads out of the repository");
        assert_eq!(ended.stderr.matches(&notice).count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn flood_of_skills_is_bounded_and_costs_the_user_none() {
    let pinion = Pinion::default();
    (0..300).for_each(|number| skill(&pinion, ".agents/skills", &format!("s{number}"), &"x".repeat(1_000), ""));
    (0..2_500).for_each(|number| drop(pinion.write(&format!(".claude/skills/{number}/empty"), "")));
    skill(&pinion, "../home/skills", "own", "the user's", "My instructions.");
    let results = results(&pinion, &[json!({ "name": "own" }), json!({ "name": "none" })]);
    assert!(results[0].contains("My instructions."), "{results:?}");
    assert_eq!(results[1].split("the skills are: ").nth(1).unwrap().split(", ").count(), 256, "{results:?}");
}

#[test]
fn linked_skill_of_the_user_is_used() {
    let pinion = Pinion::default();
    skill(&pinion, "../elsewhere", "linked", "kept elsewhere", "Linked instructions.");
    std::fs::create_dir_all(pinion.home().join(".claude/skills")).unwrap();
    symlink(pinion.workspace().join("../elsewhere/linked"), pinion.home().join(".claude/skills/linked")).unwrap();
    assert!(results(&pinion, &[json!({ "name": "linked" })])[0].contains("Linked instructions."));
}

/// Types each line, and waits for its output and the next prompt. Returns the terminal's output, and the session.
fn converse(pinion: &Pinion, replies: &[Value], steps: &[(&dyn Fn(), &str, &str)]) -> (String, String) {
    let script = pinion.script(replies);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (100, 30), "");
    terminal.wait_for("› ");
    for (before, line, shown) in steps {
        before();
        terminal.keys(&format!("{line}\r"));
        terminal.wait_for_then(shown, "› ");
    }
    let (code, seen) = terminal.exit();
    assert_eq!(code, Some(0), "{seen}");
    let id = &pinion.run(["session", "list"]).stdout[..8];
    (seen, pinion.run(["session", "export", id, "--format", "markdown"]).stdout)
}

fn nothing() {}

#[test]
fn command_uses_skills_and_new_ones_join_a_conversation() {
    let pinion = Pinion::default();
    skill(&pinion, ".agents/skills", "first", "one thing", "First instructions.\u{1b}]52;c;eA==\u{7}");
    let add = || skill(&pinion, ".agents/skills", "late", "another thing", "Late instructions.");
    let replies = [say("reply 1"), say("reply 2"), call("skill", json!({ "name": "late" })), say("reply 3")];
    let steps: [(&dyn Fn(), _, _); 4] = [
        (&nothing, "/skill", "one thing"),
        (&nothing, "/skill:first do it now", "reply 1"),
        (&add, "hello", "reply 2"),
        (&nothing, "and again", "reply 3"),
    ];
    let (seen, session) = converse(&pinion, &replies, &steps);
    assert!(session.contains("First instructions.") && session.contains("do it now"), "{session}");
    assert!(session.contains("Late instructions.") && !seen.contains("\u{1b}]52"), "{session}\n{seen}");
}

#[test]
fn written_prompts_are_commands() {
    let pinion = Pinion::default();
    let write = |name: &str, text: &str| drop(pinion.write(&format!("../home/prompts/{name}.md"), text));
    write("fix", "---\ndescription: Fix an issue\nargument-hint: <number>\n---\nFix issue $1: $ARGUMENTS");
    // Names that no command may have and names that others have do not affect the rest.
    ["quit", "skill", "two words", "ü", "", &"x".repeat(65)].iter().for_each(|name| write(name, "Useless."));
    pinion.write(".pinion/prompts/evil.md", "Of an untrusted project.");
    let add = || write("late", "A late prompt.");
    let steps: [(&dyn Fn(), _, _); 6] = [
        (&nothing, "/help fix", "Fix an issue"),
        (&nothing, "/fix 42 now", "reply 1"),
        (&nothing, "/evil", "no command `/evil`"),
        (&nothing, "/skill", "There are no skills"),
        (&add, "hello", "reply 2"),
        (&nothing, "/help late", "A late prompt."),
    ];
    let (_, session) = converse(&pinion, &[say("reply 1"), say("reply 2")], &steps);
    assert!(session.contains("Fix issue 42: 42 now") && !session.contains("untrusted"), "{session}");
}
