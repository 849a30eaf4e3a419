//! The external editor, which has the terminal while it runs.

use crate::run::full::keyboard::Batch;
use pinion_agent::futures_util::future::BoxFuture;
use std::io;
use tokio::process::Command;

/// An editor that runs. Dropping it kills the editor.
pub(super) struct Editing {
    edited: BoxFuture<'static, io::Result<String>>,
    /// The keys that were pressed after the one that started the editor. No more are read while they are held.
    rest: Option<Batch>,
}

impl Editing {
    /// Starts the user's editor on a text.
    pub(super) fn start(text: String) -> Self {
        Self { edited: Box::pin(edited(text)), rest: None }
    }

    /// Keeps what is left of the batch whose key started the editor, so that nothing is read meanwhile.
    pub(super) fn hold(&mut self, batch: Batch) {
        batch.lend();
        self.rest = Some(batch);
    }
}

/// Waits for the end of the editor. Returns the text, and the keys to handle after it. Can be dropped and called again.
pub(super) async fn ended(editing: &mut Option<Editing>) -> (io::Result<String>, Option<Batch>) {
    match editing {
        Some(editing) => ((&mut editing.edited).await, editing.rest.take()),
        None => std::future::pending().await,
    }
}

async fn edited(text: String) -> io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("pinion-").suffix(".md").tempfile()?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("vi"));
    let status = command.args(words).arg(file.path()).kill_on_drop(true).status().await?;
    match status.success() {
        true => std::fs::read_to_string(file.path()),
        false => Err(io::Error::other("the editor failed")),
    }
}
