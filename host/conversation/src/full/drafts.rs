//! Unsent text of a conversation that ended or crashed: the message in the editor, and those that waited.
//!
//! Each conversation has a separate file, because several may run in one directory, and holds the lock next to it. A
//! file whose lock is free was left behind: the next conversation of its session takes it over, or else the next new
//! one in the directory. All of this is only a convenience, so errors are ignored.

use pinion_agent::secrets::Secrets;
use pinion_app::files::private::{FileLock, create_directory, open_file, random_name, replace, try_lock};
use pinion_app::workspace_base::Base;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum bytes of a draft.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum age of a draft that is still wanted.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const DRAFT: &str = "json";
const LOCK: &str = "lock";

/// Text that was not sent yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MessageDraft {
    session: String,
    /// The message in the editor.
    pub(super) text: String,
    /// The messages and commands that waited.
    pub(super) queue: Vec<String>,
}

/// The draft of a conversation.
pub(super) struct Drafts {
    /// Its file without the extension; `None` if it could not be locked.
    file: Option<PathBuf>,
    _lock: Option<FileLock>,
    secrets: Secrets,
    writer: Arc<DraftWriter>,
}

/// The last draft that is not written yet, and the turn of the one who writes.
#[derive(Default)]
struct DraftWriter {
    waiting: Mutex<Option<MessageDraft>>,
    turn: Mutex<()>,
}

impl Drafts {
    /// Begins the draft of a conversation, with the text that an earlier conversation left for it: one of the same
    /// session if it is continued, or else the latest of the workspace.
    pub(super) fn open(base: &Base, session: &str, is_continued: bool) -> (Self, MessageDraft) {
        let workspace = blake3::hash(base.workspace.as_os_str().as_encoded_bytes()).to_hex();
        Self::in_directory(&base.paths.drafts(), &workspace.as_str()[..32], &base.secrets, session, is_continued)
    }

    fn in_directory(
        directory: &Path,
        workspace: &str,
        secrets: &Secrets,
        session: &str,
        is_continued: bool,
    ) -> (Self, MessageDraft) {
        let _ = create_directory(directory);
        let left = left(directory, workspace, |draft| !is_continued || draft.session == session);
        let file = random_name().ok().map(|name| directory.join(format!("{workspace}-{name}")));
        let lock = file.as_ref().and_then(|file| try_lock(&file.with_extension(LOCK)).ok().flatten());
        let file = file.filter(|_| lock.is_some());
        let drafts = Self { file, _lock: lock, secrets: secrets.clone(), writer: Arc::default() };
        let Some((left, _lock, draft)) = left else { return (drafts, MessageDraft::default()) };
        // Under the new name first, so that a crash leaves it twice rather than not at all.
        drafts.write(&MessageDraft { session: session.to_owned(), ..draft.clone() });
        remove(&left);
        (drafts, draft)
    }

    /// Keeps unsent text, in the background.
    pub(super) fn save(&self, session: &str, text: String, queue: Vec<String>) {
        let clean = |text: String| self.secrets.clean(&text).into_owned();
        let queue = queue.into_iter().map(clean).collect();
        let draft = MessageDraft { session: session.to_owned(), text: clean(text), queue };
        *self.writer.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(draft);
        if let Some(file) = self.file.clone() {
            let writer = self.writer.clone();
            drop(tokio::task::spawn_blocking(move || writer.run(&file)));
        }
    }

    fn write(&self, draft: &MessageDraft) {
        if let Some(file) = &self.file {
            write(file, draft);
        }
    }
}

impl Drop for Drafts {
    /// Waits until the last draft is written.
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        self.writer.run(file);
        let _ = fs::remove_file(file.with_extension(LOCK));
    }
}

impl DraftWriter {
    fn run(&self, file: &Path) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let draft = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        draft.into_iter().for_each(|draft| write(file, &draft));
    }
}

fn write(file: &Path, draft: &MessageDraft) {
    let file = file.with_extension(DRAFT);
    if draft.text.trim().is_empty() && draft.queue.is_empty() {
        let _ = fs::remove_file(file);
        return;
    }
    let bytes = serde_json::to_vec(draft).unwrap_or_default();
    if bytes.len() as u64 <= MAX_BYTES {
        let _ = replace(&file, &bytes);
    }
}

/// Returns the latest draft of a workspace that no conversation has any more and that is wanted, with its lock. Removes
/// drafts that are too old.
fn left(
    directory: &Path,
    workspace: &str,
    is_wanted: impl Fn(&MessageDraft) -> bool,
) -> Option<(PathBuf, FileLock, MessageDraft)> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let mut files: Vec<(SystemTime, PathBuf)> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    files.sort_unstable();
    let mut found = None;
    for (modified, file) in files.into_iter().rev() {
        let is_old = modified.elapsed().is_ok_and(|age| age > MAX_AGE);
        let is_of_workspace = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(workspace));
        let is_draft = is_of_workspace && file.extension().is_some_and(|extension| extension == DRAFT);
        if !is_old && (found.is_some() || !is_draft) {
            continue;
        }
        let Ok(Some(lock)) = try_lock(&file.with_extension(LOCK)) else { continue };
        match read(&file).filter(|draft| !is_old && is_wanted(draft)) {
            Some(draft) => found = Some((file.with_extension(""), lock, draft)),
            None if is_old => remove(&file.with_extension("")),
            None => {}
        }
    }
    found
}

fn read(file: &Path) -> Option<MessageDraft> {
    let mut bytes = Vec::new();
    open_file(file).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn remove(file: &Path) {
    let _ = fs::remove_file(file.with_extension(DRAFT));
    let _ = fs::remove_file(file.with_extension(LOCK));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(tempfile::TempDir);

    impl Directory {
        fn open(&self, session: &str, is_continued: bool) -> (Drafts, MessageDraft) {
            Drafts::in_directory(self.0.path(), "here", &Secrets::default(), session, is_continued)
        }

        fn leave(&self, session: &str, text: &str) {
            let (drafts, _) = self.open(session, true);
            drafts.write(&draft(session, text));
        }

        fn files(&self) -> usize {
            fs::read_dir(self.0.path()).unwrap().count()
        }
    }

    fn directory() -> Directory {
        Directory(tempfile::tempdir().unwrap())
    }

    fn draft(session: &str, text: &str) -> MessageDraft {
        MessageDraft { session: session.into(), text: text.into(), queue: vec!["!ls".into()] }
    }

    #[test]
    fn draft_of_another_conversation_is_left_alone_while_it_lives() {
        let directory = directory();
        let (first, found) = directory.open("a", false);
        assert_eq!(found, MessageDraft::default());
        first.write(&draft("a", "mine"));
        let (second, found) = directory.open("b", false);
        assert_eq!(found, MessageDraft::default());
        // Nor does sending the second one's message remove it.
        second.write(&MessageDraft::default());
        drop((first, second));
        assert_eq!(directory.open("c", false).1, draft("a", "mine"));
        assert_eq!(directory.files(), 1, "the draft has the name of the conversation that took it");
    }

    #[test]
    fn continued_session_gets_its_own_draft_only() {
        let directory = directory();
        directory.leave("a", "of a");
        directory.leave("b", "of b");
        assert_eq!(directory.open("c", true).1, MessageDraft::default());
        assert_eq!(directory.open("a", true).1, draft("a", "of a"));
        assert_eq!(directory.open("b", true).1, draft("b", "of b"));
    }

    #[tokio::test]
    async fn last_draft_is_written_before_the_end_and_an_empty_one_removed() {
        let directory = directory();
        let (drafts, _) = directory.open("a", false);
        (0..50).for_each(|n| drafts.save("a", n.to_string(), Vec::new()));
        drop(drafts);
        let (drafts, found) = directory.open("b", false);
        assert_eq!(found.text, "49");
        drafts.save("b", " \n".into(), Vec::new());
        drop(drafts);
        assert_eq!(directory.files(), 0);
    }

    #[test]
    fn old_drafts_are_removed() {
        let directory = directory();
        directory.leave("a", "old");
        let old = SystemTime::now() - MAX_AGE - Duration::from_secs(60);
        for entry in fs::read_dir(directory.0.path()).unwrap() {
            fs::File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
        }
        assert_eq!(directory.open("b", false).1, MessageDraft::default());
        assert_eq!(directory.files(), 0);
    }
}
