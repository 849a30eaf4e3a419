use super::*;
use crate::record::{Record, Retry, RunEnded, RunStarted};
use crate::session::Session;
use crate::testing::{assistant, calls, result, time, user, workspace};
use pinion_protocol::{
    COMPACTION_MESSAGE, Content, ExtensionMessage, Image, Message, RunEnd, SessionStore as _, StopReason, Thinking,
    ToolCall, ToolResultMessage, Usage, UserMessage,
};
use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn exported(path: &Path, format: ExportFormat) -> String {
    let mut out = Vec::new();
    export(&mut Transcript::open(path).unwrap(), format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn session_of(directory: &TempDir, messages: &[Arc<Message>]) -> Session {
    let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
    messages.iter().for_each(|message| session.append(message).unwrap());
    session
}

fn html_of(messages: &[Arc<Message>]) -> String {
    let directory = TempDir::new().unwrap();
    exported(session_of(&directory, messages).path(), ExportFormat::Html)
}

fn reply(parts: Vec<Content>) -> Arc<Message> {
    Arc::new(assistant(parts))
}

fn answer(call_id: &str, content: Vec<Content>, is_error: bool) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: call_id.into(),
        tool_name: "edit".into(),
        content,
        details: None,
        is_error,
        child_run_id: Some("k.c.1".into()),
        timestamp: time(),
    }))
}

#[test]
fn failed_program_is_marked() {
    let page = |success: bool| {
        let call = ToolCall {
            id: "1".into(),
            name: "bash".into(),
            arguments: json!({ "command": "exit 3" }),
            partial: None,
            signature: None,
        };
        let ended = ToolResultMessage {
            call_id: "1".into(),
            tool_name: "bash".into(),
            content: vec![Content::text("[exit code 3]")],
            details: Some(json!({ "success": success })),
            is_error: false,
            child_run_id: None,
            timestamp: time(),
        };
        html_of(&[reply(vec![Content::ToolCall(call)]), Arc::new(Message::ToolResult(ended))])
    };
    let is_marked = |page: String| page.contains("class=\"tool failed\"");
    assert!(is_marked(page(false)) && !is_marked(page(true)));
}

/// The only tags and attributes of an exported page.
const TAGS: &str = "html head meta title style body main header h1 h2 h3 h4 h5 h6 dl dt dd nav ol li a section span p \
    article div b time pre code details summary img footer em strong ul table thead tbody tr th td blockquote hr br del input";
const ATTRIBUTES: &str = "lang charset http-equiv content name class id href datetime title alt src start style type \
    disabled checked";
const VOID: [&str; 5] = ["meta", "img", "hr", "br", "input"];

/// Checks a page strictly: only known tags and attributes, every tag closed in order, every link to a place in the page
/// or to another page.
fn check_page(html: &str) {
    let html = html.strip_prefix("<!doctype html>\n").unwrap();
    let (head, rest) = html.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    let html = format!("{head}{body}");
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html.as_str();
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "stray > in {:?}", &rest[..at]);
        let end = rest.find('>').unwrap_or_else(|| panic!("unended tag {rest:?}"));
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        let tag = tag.strip_suffix(" /").or(tag.strip_suffix('/')).unwrap_or(tag);
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {rest:.100}");
            continue;
        }
        let name = tag.split(' ').next().unwrap();
        assert!(TAGS.split_whitespace().any(|known| known == name), "{tag}");
        check_attributes(&tag[name.len()..]);
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!html.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
}

fn check_attributes(mut text: &str) {
    while let Some((name, rest)) = text.trim_start().split_once('=') {
        let (value, rest) = rest.strip_prefix('"').unwrap().split_once('"').unwrap();
        let is_known = ATTRIBUTES.split_whitespace().any(|known| known == name);
        assert!(is_known, "{name}={value}");
        let is_safe = match name {
            "href" => ["#", "https://", "http://", "mailto:"].iter().any(|start| value.starts_with(start)),
            "src" => value.starts_with("data:image/"),
            "style" => value.starts_with("text-align: "),
            _ => true,
        };
        assert!(is_safe, "{name}={value}");
        text = rest;
    }
}

/// Checks Markdown as other programs read it: it has no HTML, and nothing in it swallows its end.
fn check_markdown(text: &str) {
    let (mut depth, mut ends_with_rule) = (0_u32, false);
    for event in Parser::new_ext(text, super::prose::OPTIONS) {
        match &event {
            Event::Html(html) | Event::InlineHtml(html) => panic!("{html}"),
            Event::Start(Tag::Image { dest_url, .. }) => assert!(dest_url.starts_with("data:image/"), "{dest_url}"),
            Event::Rule if depth == 0 => ends_with_rule = true,
            Event::Start(Tag::Paragraph) => {}
            Event::Start(_) if depth == 0 => ends_with_rule = false,
            _ => {}
        }
        depth = match event {
            Event::Start(_) => depth + 1,
            Event::End(_) => depth - 1,
            _ => depth,
        };
    }
    assert!(ends_with_rule, "the end is inside of something: {text}");
}

const DIFF: &str = "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new <b>\n";

#[test]
fn call_is_folded_with_its_result() {
    let html =
        html_of(&[user("edit it"), calls(&["1", "2"]), result("2"), answer("1", vec![Content::text(DIFF)], false)]);
    check_page(&html);
    let first = html.find("<details class=\"tool\">").unwrap();
    let (one, two) = html[first..].split_once("</details>").unwrap();
    assert!(one.contains("<b>read</b> <code>a.txt</code> <span class=\"dim\">+1 −1</span>"), "{one}");
    assert!(
        one.contains("<span class=\"add\">+new &lt;b&gt;\n</span>") && one.contains("run <code>k.c.1</code>"),
        "{one}"
    );
    assert!(two.contains("<pre>line one\nline two</pre>"), "{two}");
}

#[test]
fn failed_and_unanswered_calls_look_different() {
    let html = html_of(&[calls(&["1", "2"]), answer("1", vec![Content::text("no such file")], true)]);
    check_page(&html);
    assert!(html.contains("<details class=\"tool failed\">") && html.contains("<details class=\"tool unanswered\">"));
}

#[test]
fn thinking_is_folded_and_pictures_are_embedded() {
    let picture = Content::Image(Image { media_type: "image/png".into(), data: vec![1, 2, 3] });
    let drawing = Content::Image(Image { media_type: "image/svg+xml\" onload=\"x".into(), data: vec![1] });
    let thinking = Content::Thinking(Thinking { text: "hm, **so**".into(), ..Thinking::default() });
    let html = html_of(&[
        Arc::new(Message::User(UserMessage { content: vec![picture, drawing], label: None, timestamp: time() })),
        reply(vec![thinking, Content::text("done")]),
    ]);
    check_page(&html);
    assert!(html.contains("<img alt=\"picture\" src=\"data:image/png;base64,AQID\">"));
    assert_eq!(html.matches("<img").count(), 1);
    assert!(html.contains("<details class=\"thinking\"><summary>Thinking</summary>\n<p>hm, <strong>so</strong></p>"));
}

#[test]
fn page_has_no_external_resources_and_a_strict_policy() {
    let html = html_of(&[user("hello")]);
    assert!(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:;"));
    assert!(html.contains("@media (prefers-color-scheme: dark)"));
    for word in ["<script", "<link", "<iframe", "url(", "@import", "http:", "https:"] {
        assert!(!html.contains(word), "{word}");
    }
}

#[test]
fn branches_are_linked_both_ways_and_nothing_is_shown_twice() {
    let directory = TempDir::new().unwrap();
    let session = session_of(&directory, &[user("first prompt"), reply(vec![Content::text("the shared answer")])]);
    session.append(&user("the way left")).unwrap();
    session.go_back(Some("2".parse().unwrap())).unwrap();
    session.append(&user("the way taken")).unwrap();
    for format in [ExportFormat::Html, ExportFormat::Markdown] {
        let text = exported(session.path(), format);
        assert_eq!(text.matches("the shared answer").count(), 1, "{text}");
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text}"));
        assert!(at("the shared answer") < at("the way taken"));
        assert!(text.rfind("the way taken") < text.rfind("the way left"));
    }
    let html = exported(session.path(), ExportFormat::Html);
    check_page(&html);
    assert!(html.contains("<a href=\"#branch-2\">Branch 2</a> leaves here: the way left"), "{html}");
    assert!(html.contains("<section class=\"branch\" id=\"branch-2\">"));
    assert!(html.contains("Leaves at <a href=\"#e-2\">entry 2</a>") && html.contains("id=\"e-2\""));
    check_markdown(&exported(session.path(), ExportFormat::Markdown));
}

#[test]
fn compactions_records_and_broken_lines_are_shown_in_place() {
    let directory = TempDir::new().unwrap();
    let session = session_of(&directory, &[user("one"), user("two")]);
    let compaction = ExtensionMessage {
        kind: COMPACTION_MESSAGE.into(),
        data: json!({ "summary": "what **was**", "kept": 0 }),
        timestamp: time(),
    };
    session.append(&Arc::new(Message::Extension(compaction))).unwrap();
    let retry = Retry { run_id: "s.c.1".into(), attempt: 1, max_attempts: 3, delay_ms: 1_500, cause: "busy".into() };
    session.record(&Record::Retry(retry)).unwrap();
    let text = std::fs::read_to_string(session.path()).unwrap().replacen(r#""text":"two""#, "", 1);
    std::fs::write(session.path(), text).unwrap();
    let html = exported(session.path(), ExportFormat::Html);
    check_page(&html);
    for part in ["Skipped: line 3: ", "what <strong>was</strong>", "Retry 1 of 3 after 1.5 s: busy"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let markdown = exported(session.path(), ExportFormat::Markdown);
    check_markdown(&markdown);
    assert!(markdown.contains("Skipped") && markdown.contains("what **was**"), "{markdown}");
}

#[test]
fn only_unusual_ends_of_runs_are_shown() {
    let shown = |end: RunEnd| {
        let directory = TempDir::new().unwrap();
        let session = session_of(&directory, &[user("a prompt")]);
        let run_id = "RUN".to_owned();
        session.record(&Record::RunStarted(RunStarted { run_id: run_id.clone(), ..RunStarted::default() })).unwrap();
        let end = RunEnded { run_id, end, usage: Usage::default(), cost: None, turns: 1, messages: 2 };
        session.record(&Record::RunEnded(end)).unwrap();
        [ExportFormat::Html, ExportFormat::Markdown]
            .map(|format| exported(session.path(), format).matches("RUN").count())
    };
    assert_eq!(shown(RunEnd::Done { stop_reason: StopReason::Stop }), [0, 0]);
    assert_eq!(shown(RunEnd::Aborted), [1, 1]);
}

#[test]
fn markdown_stays_within_its_message() {
    let messages = [
        user("look:\n```\nunended"),
        reply(vec![Content::text("<!--\n```\n-->\n\n~~~~rust\nfn x() {}\n~~~")]),
        reply(vec![Content::text("- a list\n  ```\n  in it")]),
        reply(vec![Content::text("<div>\n\n![x](https://tracker.example/x.png)")]),
        reply(vec![Content::text("Vec<String> and `<b>`")]),
        reply(vec![Content::text("- a list"), Content::text("    <script>")]),
        user("    code\n\t<script>"),
        // The mark of the quotation completes the declaration.
        user("ՙ<!a\n0"),
    ];
    let directory = TempDir::new().unwrap();
    let text = exported(session_of(&directory, &messages).path(), ExportFormat::Markdown);
    check_markdown(&text);
    let headings = Parser::new(&text).filter(|event| matches!(event, Event::Start(Tag::Heading { .. }))).count();
    assert_eq!(headings, 1 + messages.len(), "{text}");
    assert!(text.contains("Vec&lt;String> and `<b>`"), "{text}");
}

/// Texts of an attacker who wants to break out of a document.
const HOSTILE: &[&str] = &[
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "</pre></details></article></main></body></html>",
    "</style><style>*{display:none}",
    "<!-- ",
    "-->",
    "<!a",
    "<?x",
    "]]>",
    "&lt;script&gt;&#60;",
    "[x](javascript:alert(1))",
    "![x](https://tracker.example/x.png \"\\\"><script>\")",
    "<https://a.example/\"onload=alert(1)>",
    "[a]: javascript:alert(1)\n\n[a]",
    "\u{202e}txt.exe\u{2066}",
    "\u{1b}[31m\u{1b}]0;x\u{7}\0\u{9b}",
    "\r\n\u{2028}\u{feff}",
    "```\n</code></pre><script>",
    "~~~~html\n<script>",
    "--- a\n+++ b\n@@ -1 +1 @@\n-<script>\n+</span></pre><img src=x>",
    "| a | b |\n|:--|--:|\n| <script> | `x|y` |",
    "> > > - 1. # <b>\n\n***\n---\n===",
    "    indented <script>\n\ttab",
    "- [ ] <input>\n- [x] x",
    "<a href=\"x\" style='y'>",
    "* * *\n\n\n",
    "\\<b\\> \\`\\`",
    "``` `` `",
];

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(HOSTILE).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[ \\n`~<>!\\[\\]()#*_|>-]{0,20}",
    ];
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.join("\n"))
}

fn hostile_part() -> impl Strategy<Value = Content> {
    let text = || hostile();
    prop_oneof![
        3 => text().prop_map(Content::text),
        1 => text().prop_map(|text| Content::Thinking(Thinking { text, ..Thinking::default() })),
        1 => text().prop_map(|media_type| Content::Image(Image { media_type, data: vec![1, 2] })),
        2 => (text(), text(), text()).prop_map(|(id, name, value)| {
            Content::ToolCall(ToolCall::new(id, name.clone(), json!({ name: value })))
        }),
        1 => (text(), text()).prop_map(|(name, partial)| {
            Content::ToolCall(ToolCall { partial: Some(partial), ..ToolCall::new("1", name, serde_json::Value::Null) })
        }),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Say(Message),
    Answer(Vec<Content>, bool),
    GoBack(usize),
    Record(Record),
}

fn step() -> impl Strategy<Value = Step> {
    let parts = || prop::collection::vec(hostile_part(), 0..4);
    prop_oneof![
        2 => parts().prop_map(|content| Step::Say(Message::User(UserMessage { content, label: None, timestamp: time() }))),
        3 => (parts(), hostile()).prop_map(|(content, text)| {
            let Message::Assistant(reply) = assistant(content) else { unreachable!() };
            Step::Say(Message::Assistant(pinion_protocol::AssistantMessage {
                model: text.clone(),
                requested_model: None,
                error: Some(text),
                stop_reason: pinion_protocol::StopReason::Error,
                ..reply
            }))
        }),
        2 => (parts(), any::<bool>()).prop_map(|(content, is_error)| Step::Answer(content, is_error)),
        1 => (hostile(), hostile()).prop_map(|(kind, text)| {
            let data = json!({ "summary": text });
            Step::Say(Message::Extension(ExtensionMessage { kind, data, timestamp: time() }))
        }),
        1 => hostile().prop_map(|text| Step::Record(Record::RunStarted(RunStarted { run_id: text, ..RunStarted::default() }))),
        1 => any::<usize>().prop_map(Step::GoBack),
    ]
}

fn apply_step(session: &Session, step: Step, open: &mut Vec<String>) {
    match step {
        Step::Say(message) => {
            if let Message::Assistant(reply) = &message {
                *open = reply.tool_calls().map(|call| call.id.clone()).collect();
            }
            session.append(&Arc::new(message)).unwrap();
        }
        Step::Answer(content, is_error) => {
            session.append(&answer(&open.pop().unwrap_or_default(), content, is_error)).unwrap();
        }
        Step::Record(record) => assert!(session.record(&record).is_ok()),
        Step::GoBack(to) => {
            let _ = session.go_back(crate::id::testing::name(to % 12).parse().ok());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn documents_of_hostile_sessions_are_well_formed_and_inert(
        steps in prop::collection::vec(step(), 1..14),
        name in hostile(),
    ) {
        let directory = TempDir::new().unwrap();
        let session = Session::begin(&directory.path().join("a.jsonl"), Path::new(&name));
        let mut open = Vec::new();
        steps.into_iter().for_each(|step| apply_step(&session, step, &mut open));
        if session.path().exists() {
            check_page(&exported(session.path(), ExportFormat::Html));
            check_markdown(&exported(session.path(), ExportFormat::Markdown));
        }
    }
}
