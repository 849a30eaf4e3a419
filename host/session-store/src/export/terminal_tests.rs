use super::*;
use crate::testing::{assistant, calls, result, user, write_session};
use pinion_protocol::{Content, Message, SessionStore as _};
use std::sync::Arc;
use tempfile::TempDir;

fn rendered(messages: &[Arc<Message>]) -> String {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), messages);
    let mut transcript = Transcript::open(&path).unwrap();
    let mut out = Vec::new();
    let id = transcript.header().unwrap().id.clone();
    let started = transcript.header().unwrap().created.to_string();
    render(&mut transcript, &mut out).unwrap();
    String::from_utf8(out).unwrap().replace(&id, "ID").replace(&started, "TIME")
}

#[test]
fn session_is_shown_as_a_conversation() {
    let messages = [user("read it"), calls(&["1"]), result("1"), Arc::new(assistant(vec![Content::text("done")]))];
    assert_eq!(
        rendered(&messages),
        "# Session ID\n\nWorkspace: /home/me/project\nStarted: TIME\n\n\
        ## User, 2026-01-02T03:04:05Z\n\nread it\n\n\
        ## Assistant, replay/scripted, 2026-01-02T03:04:05Z\n\n\
        ### Call of `read`\n\n    {\n      \"path\": \"a.txt\"\n    }\n\n\
        ### Result of `read`\n\n    line one\n    line two\n\n\
        ## Assistant, replay/scripted, 2026-01-02T03:04:05Z\n\ndone\n\n"
    );
}

#[test]
fn results_follow_their_calls_whatever_order_they_arrived_in() {
    let text = rendered(&[user("go"), calls(&["1", "2"]), result("2"), result("1"), user("on")]);
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(headings, ["Call of `read`", "Result of `read`", "Call of `read`", "Result of `read`"]);
}

#[test]
fn session_text_cannot_control_the_terminal() {
    let text = rendered(&[user("\x1b]0;title\x07hello\r\x1b[2J")]);
    assert!(!text.contains(['\x1b', '\x07', '\r']), "{text:?}");
    assert!(text.contains("␛]0;title␇hello␍␛[2J"), "{text}");
}

#[test]
fn long_results_are_cut_with_a_count_of_the_rest() {
    let Message::ToolResult(short) = &*result("1") else { panic!() };
    let long = |text: String| {
        Arc::new(Message::ToolResult(ToolResultMessage { content: vec![Content::text(text)], ..short.clone() }))
    };
    let text = rendered(&[long("line\n".repeat(50))]);
    assert!(text.ends_with(&format!("{}    … 30 more lines, 149 bytes\n\n", "    line\n".repeat(20))), "{text}");
    let text = rendered(&[long("ä".repeat(5_000))]);
    assert!(text.ends_with("    … 1 more line, 2000 bytes\n\n"), "{text}");
}

#[test]
fn broken_entries_are_named_in_their_places() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("one"), user("two"), user("three")]);
    let text = std::fs::read_to_string(&path).unwrap().replacen(
        "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"two\"",
        "",
        1,
    );
    std::fs::write(&path, text).unwrap();
    let mut out = Vec::new();
    render(&mut Transcript::open(&path).unwrap(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (one, left_out, three) = (text.find("one"), text.find("> Skipped: line 3: "), text.find("three"));
    assert!(one < left_out && left_out < three && left_out.is_some(), "{text}");
}

#[test]
fn unwritable_output_is_an_error_of_its_own() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("one")]);
    let error = render(&mut Transcript::open(&path).unwrap(), &mut Closed).unwrap_err();
    assert!(matches!(error, RenderError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe));
}

#[test]
fn other_branches_are_named_and_can_be_shown() {
    let directory = TempDir::new().unwrap();
    let path = write_session(directory.path(), &[user("one"), user("the way left")]);
    let session = crate::open_to_continue(&path, crate::testing::workspace()).unwrap().session;
    session.go_back(Some("1".parse().unwrap())).unwrap();
    session.append(&user("the way taken")).unwrap();
    let shown = |leaf: Option<&str>| {
        let (mut transcript, mut out) = (Transcript::open(&path).unwrap(), Vec::new());
        match leaf {
            None => render(&mut transcript, &mut out).unwrap(),
            Some(leaf) => render_branch(&mut transcript, leaf.parse().unwrap(), &mut out).unwrap(),
        }
        String::from_utf8(out).unwrap()
    };
    let current = shown(None);
    assert!(current.contains("the way taken") && !current.contains("the way left"), "{current}");
    assert!(current.ends_with("> another branch ends at entry 2, own entries: 1\n"), "{current}");
    let other = shown(Some("2"));
    assert!(other.contains("the way left") && !other.contains("the way taken"), "{other}");
}
