//! The end of a long session, for a first look while the whole is read.

use crate::error::SessionError;
use crate::format::{self, Payload};
use crate::index::EntryIndex;
use crate::lock::open_locked;
use crate::replay::History;
use crate::transcript::open_file;
use pinion_protocol::Message;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// Maximum bytes at the end of a session that are searched for the start or end of its last run.
const LAST_RUN: u64 = 1 << 20;

/// The part of a session's line that is read here.
#[derive(Deserialize)]
struct SessionLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Returns whether the process that wrote a session was killed during a run. False if another process writes to the session, and
/// if that is not known. Changes nothing.
pub fn was_interrupted(path: &Path) -> bool {
    let Ok(mut file) = open_locked(path) else { return false };
    let length = file.metadata().map_or(0, |found| found.len());
    let mut end = Vec::new();
    let read = file.seek(SeekFrom::Start(length.saturating_sub(LAST_RUN))).and_then(|_| file.read_to_end(&mut end));
    if read.is_err() {
        return false;
    }
    let kinds =
        end.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<SessionLine<'_>>(line).ok());
    let mut kinds = kinds.map(|line| line.kind.into_owned());
    kinds.find(|kind| kind.starts_with("run_")).is_some_and(|kind| kind == "run_start")
}

/// Reads the messages of the current branch that are in the last `bytes` of a session's file, from the first prompt
/// among them on, and the records after it. They are not repaired: calls may lack results. Returns `None` for a file
/// that is not longer than that, and for an end without such messages. Takes no lock and changes nothing.
///
/// # Errors
/// The file cannot be read.
pub fn last_history(path: &Path, bytes: u64) -> Result<Option<History>, SessionError> {
    let failed = SessionError::io("read", path);
    // Opening a pipe can block without end.
    let length = match path.metadata() {
        Ok(found) if found.is_file() && found.len() > bytes => found.len(),
        _ => return Ok(None),
    };
    let Ok(mut file) = open_file(path) else { return Ok(None) };
    let mut end = Vec::new();
    let read = file.seek(SeekFrom::Start(length - bytes)).and_then(|_| file.take(bytes).read_to_end(&mut end));
    read.map_err(failed)?;
    // The first line is cut off.
    let Some(first) = end.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let lines = &end[first + 1..];
    let Ok(index) = EntryIndex::read(path, lines) else { return Ok(None) };
    let payload = |node: crate::index::Node| {
        let (begin, length) = (usize::try_from(node.offset).ok()?, usize::try_from(node.length).ok()?);
        Some(format::decode_entry(lines.get(begin..begin + length)?, node.kind).ok()?.payload)
    };
    let payloads = index.branch(index.position()).into_iter().filter_map(payload);
    let is_prompt = |payload: &Payload| matches!(payload, Payload::Message(Message::User(_)));
    let mut history = History::default();
    for payload in payloads.skip_while(|payload| !is_prompt(payload)) {
        match payload {
            Payload::Message(message) => history.messages.push(Arc::new(message)),
            Payload::Record(record) => history.records.push((history.messages.len(), record)),
            _ => {}
        }
    }
    Ok((!history.messages.is_empty()).then_some(history))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::testing::{assistant, user, workspace, write_session};
    use crate::transcript::Transcript;
    use pinion_protocol::Content;

    fn text(message: &Message) -> String {
        match message {
            Message::User(message) => message.content.iter().filter_map(Content::as_text).collect(),
            Message::Assistant(message) => message.content.iter().filter_map(Content::as_text).collect(),
            _ => String::new(),
        }
    }

    fn session(directory: &Path, count: usize) -> std::path::PathBuf {
        let pair = |n: usize| [user(&format!("ask {n}")), Arc::new(assistant(vec![Content::text(format!("say {n}"))]))];
        write_session(directory, &(0..count).flat_map(pair).collect::<Vec<_>>())
    }

    #[test]
    fn end_of_a_long_session_begins_with_a_prompt() {
        let directory = tempfile::tempdir().unwrap();
        let path = session(directory.path(), 100);
        let length = std::fs::metadata(&path).unwrap().len();
        let all: Vec<String> = (0..100).flat_map(|n| [format!("ask {n}"), format!("say {n}")]).collect();
        // Wherever the first line is cut off.
        for bytes in 2_000..2_500 {
            let messages = last_history(&path, bytes).unwrap().unwrap().messages;
            let texts: Vec<String> = messages.iter().map(|message| text(message)).collect();
            assert!(texts.len() >= 4 && texts[0].starts_with("ask ") && all.ends_with(&texts), "{bytes}: {texts:?}");
        }
        assert_eq!(last_history(&path, length).unwrap(), None);
        assert_eq!(last_history(&path, 40).unwrap(), None);
        assert_eq!(last_history(&directory.path().join("none"), 40).unwrap(), None);
        assert_eq!(last_history(directory.path(), 40).unwrap(), None);
    }

    #[test]
    fn session_without_the_end_of_its_last_run_was_interrupted() {
        let directory = tempfile::tempdir().unwrap();
        let path = session(directory.path(), 3);
        assert!(!was_interrupted(&path), "no run is known");
        let mut text = std::fs::read_to_string(&path).unwrap();
        for (kind, is_interrupted) in [("run_start", true), ("checkpoint", true), ("run_end", false), ("name", false)] {
            text +=
                &format!("{{\"id\":\"9\",\"parent\":null,\"type\":\"{kind}\",\"data\":{{\"type\":\"run_start\"}}}}\n");
            std::fs::write(&path, &text).unwrap();
            assert_eq!(was_interrupted(&path), is_interrupted, "{kind}");
        }
        text += "{\"id\":\"10\",\"type\":\"run_start\",\"data\":{}}\n{\"id\":\"11\",\"ty";
        std::fs::write(&path, &text).unwrap();
        assert!(was_interrupted(&path), "the last line is torn");
        let held = open_locked(&path).unwrap();
        assert!(!was_interrupted(&path), "another process writes to it");
        drop(held);
        assert!(!was_interrupted(&directory.path().join("none")) && !was_interrupted(directory.path()));
    }

    #[test]
    fn messages_that_the_conversation_left_are_not_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = session(directory.path(), 100);
        let opened = crate::recovery::open_to_continue(&path, workspace()).unwrap();
        let nodes: Vec<_> = Transcript::open(&path).unwrap().branch().map(|entry| entry.unwrap().id).collect();
        opened.session.go_back(Some(nodes[195])).unwrap();
        opened.session.append_message(&user("instead")).unwrap();
        drop::<Session>(opened.session);
        let messages = last_history(&path, 4_000).unwrap().unwrap().messages;
        let texts: Vec<String> = messages.iter().map(|message| text(message)).collect();
        assert!(texts.ends_with(&["ask 97".to_owned(), "say 97".to_owned(), "instead".to_owned()]), "{texts:?}");
    }

    #[cfg(unix)]
    #[test]
    fn pipe_in_the_place_of_a_session_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(last_history(&pipe, 40).unwrap(), None);
    }

    #[test]
    fn broken_and_torn_lines_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = session(directory.path(), 100);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 10);
        let at = bytes.len() - 1_000;
        bytes[at..at + 20].fill(b'x');
        std::fs::write(&path, bytes).unwrap();
        let messages = last_history(&path, 4_000).unwrap().unwrap().messages;
        assert_eq!(text(messages.last().unwrap()), "ask 99");
        std::fs::write(&path, "x\n".repeat(4_000)).unwrap();
        assert_eq!(last_history(&path, 4_000).unwrap(), None);
    }
}
