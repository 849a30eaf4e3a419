//! The external editor, which has the terminal while it runs.

use crate::full::keyboard::{BUSY, Batch};
use pinion_agent::futures_util::future::BoxFuture;
use pinion_app::files::private::open_file;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

/// Exit statuses of a shell that cannot run a command.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Characters besides blanks of a value that only a shell can run.
const OF_SHELLS: &str = "|&;<>()$`\\\"'*?[]#~=%{}";

/// The text that the editor left, or the reason why there is no text.
pub(super) type Edited = Result<String, String>;

/// An editor that is about to run, or runs. Dropping it kills the editor.
pub(super) struct Editing {
    state: EditorState,
    /// The keys that were pressed after the one that started the editor. No more are handled while they are held.
    rest: Option<Batch>,
}

enum EditorState {
    /// The text for an editor that starts at this time. Until then, the UI has the terminal.
    Waiting(String, Instant),
    Running(BoxFuture<'static, Edited>),
}

impl Editing {
    /// Prepares the user's editor for a text. It starts when the terminal has no answer to give any more, after `answered`: the
    /// editor would take it for keys.
    pub(super) fn new(text: String, answered: Option<Instant>) -> Self {
        // The reader of the terminal has to look once more.
        let starts = answered.map_or_else(Instant::now, |answered| answered + BUSY);
        Self { state: EditorState::Waiting(text, starts), rest: None }
    }

    /// Starts the editor.
    pub(super) fn start(&mut self) {
        if let EditorState::Waiting(text, _) = &mut self.state {
            self.state = EditorState::Running(Box::pin(edited(std::mem::take(text))));
        }
        self.rest.iter().for_each(Batch::lend);
    }

    /// Returns whether the editor has the terminal.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, EditorState::Running(_))
    }

    /// Keeps the rest of the batch whose key started the editor, so that nothing is handled before the editor ends.
    pub(super) fn hold(&mut self, batch: Batch) {
        if self.is_running() {
            batch.lend();
        }
        self.rest = Some(batch);
    }
}

/// A step of an editor.
pub(super) enum EditorStep {
    /// It can start now.
    Starts,
    /// It has ended, with the keys to handle after it.
    Ended(Edited, Option<Batch>),
}

/// Waits for the next step of an editor. Can be dropped and called again.
pub(super) async fn next(editing: &mut Option<Editing>) -> EditorStep {
    match editing {
        Some(Editing { state: EditorState::Waiting(_, starts), .. }) => {
            sleep_until(*starts).await;
            EditorStep::Starts
        }
        Some(Editing { state: EditorState::Running(edited), rest }) => EditorStep::Ended(edited.await, rest.take()),
        None => std::future::pending().await,
    }
}

/// Returns the user's editor.
fn editor() -> String {
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    editor.trim().to_owned()
}

/// Returns the command that opens a file in the user's editor.
pub fn editor_command(file: &Path) -> Command {
    command(&editor(), file)
}

async fn edited(text: String) -> Edited {
    run(&editor(), &text).await.map_err(|problem| format!("{problem}\nhint: `VISUAL` or `EDITOR` names your editor"))
}

async fn run(editor: &str, text: &str) -> Edited {
    let kept = || {
        let mut file = tempfile::Builder::new().prefix("pinion-").suffix(".md").tempfile()?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    };
    let file = kept().map_err(|error: io::Error| format!("could not write a file for the editor: {error}"))?;
    let failed = |reason: &dyn Display| Err(format!("could not run the editor `{editor}`: {reason}"));
    let ended = command(editor, file.path()).kill_on_drop(true).status().await;
    match ended.map(|status| (status, status.code())) {
        Ok((status, _)) if status.success() => {
            let read = open_file(file.path()).and_then(std::io::read_to_string);
            read.map_err(|error| format!("could not read what the editor `{editor}` wrote: {error}"))
        }
        Ok((_, Some(NOT_FOUND))) => failed(&"not found"),
        Ok((_, Some(NOT_EXECUTABLE))) => failed(&"not executable"),
        Ok((status, _)) => Err(format!("the editor `{editor}` failed, so the text stays as it was: {status}")),
        Err(error) if error.kind() == ErrorKind::NotFound => failed(&"not found"),
        Err(error) => failed(&error),
    }
}

/// Returns the command for the value of a variable: a program or, as for git, a line for the shell.
fn command(editor: &str, file: &Path) -> Command {
    let is_program = !editor.contains(|c: char| c.is_whitespace() || OF_SHELLS.contains(c));
    if is_program || cfg!(not(unix)) {
        let mut words = editor.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("vi"));
        command.args(words).arg(file);
        return command;
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    command
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    #[tokio::test]
    async fn value_of_the_variable_is_a_line_for_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let editor = directory.path().join("my editor");
        std::fs::write(&editor, "#!/bin/sh\necho \"$1\" >> \"$2\"\n").unwrap();
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!("'{}' \"an option\"", editor.display());
        assert_eq!(run(&line, "text\n").await, Ok("text\nan option\n".to_owned()));
        assert_eq!(run("true", "text").await, Ok("text".to_owned()));
    }

    #[test]
    fn editor_starts_when_the_terminal_has_no_answer_to_give() {
        let answered = Instant::now() + Duration::from_millis(200);
        let editing = Editing::new("text".into(), Some(answered));
        assert!(!editing.is_running());
        let EditorState::Waiting(text, starts) = editing.state else { unreachable!() };
        assert_eq!((text.as_str(), starts), ("text", answered + BUSY));
        let EditorState::Waiting(_, starts) = Editing::new(String::new(), None).state else { unreachable!() };
        assert!(starts <= Instant::now());
    }

    #[tokio::test]
    async fn failure_names_the_editor_and_the_reason() {
        for (editor, problem) in [
            ("no-such-editor", "could not run the editor `no-such-editor`: not found"),
            ("no-such-editor --wait", "could not run the editor `no-such-editor --wait`: not found"),
            ("/", "could not run the editor `/`: Permission denied (os error 13)"),
            ("false", "the editor `false` failed, so the text stays as it was: exit status: 1"),
        ] {
            assert_eq!(run(editor, "").await, Err(problem.to_owned()));
        }
    }
}
