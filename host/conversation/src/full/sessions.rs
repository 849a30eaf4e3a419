//! Actions on a session in the list: preview, name, delete.

use crate::full::lists;
use crate::full::ui_inbox::UiInbox;
use pinion_agent::content::text_of;
use pinion_agent::text::bounded;
use pinion_agent::{Message, compaction};
use pinion_app::failure::{Failure, Result};
use pinion_app::sessions::delete_whole;
use pinion_app::workspace_base::Base;
use pinion_console::output::{count, shell_word};
use pinion_session_store::{Payload, SessionDirectory, Transcript};
use pinion_tui::{Input, Pick};
use std::sync::Arc;

/// Bytes of a session file that is read for its preview.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum lines and characters of a message in a preview.
const MESSAGE: (usize, usize) = (3, 300);

fn directory(base: &Base) -> SessionDirectory {
    SessionDirectory::new(base.paths.sessions())
}

/// Describes a session by its last request and the last answer. Blocks.
fn preview(base: &Base, id: &str) -> String {
    let read = || -> Result<String> {
        let path = directory(base).find(id).map_err(Failure::from)?;
        if std::fs::metadata(&path).is_ok_and(|file| file.len() > MAX_BYTES) {
            return Ok("too large for a preview".to_owned());
        }
        let mut transcript = Transcript::open(&path).map_err(Failure::from)?;
        Ok(last_words(&mut transcript))
    };
    let text = read().unwrap_or_else(|failure| failure.message());
    base.secrets.clean(&text).into_owned()
}

fn last_words(transcript: &mut Transcript) -> String {
    let (mut request, mut answer, mut requests) = (String::new(), String::new(), 0);
    for entry in transcript.branch().flatten() {
        match entry.payload {
            Payload::Message(message) if compaction::is_summary(&message) => {}
            Payload::Message(Message::User(said)) => {
                (request, answer, requests) = (text_of(&said.content), String::new(), requests + 1);
            }
            Payload::Message(Message::Assistant(reply)) => {
                answer = Some(reply.text()).filter(|text| !text.trim().is_empty()).unwrap_or(answer);
            }
            _ => {}
        }
    }
    let part = |text: &str| bounded(text.trim(), MESSAGE.0, MESSAGE.1);
    format!("{}; the last one:\n› {}\n{}", count(requests, "prompt"), part(&request), part(&answer))
}

/// Describes a session, in the background.
pub(super) fn about(said: Arc<UiInbox>, base: Base, id: String) {
    tokio::task::spawn_blocking(move || {
        let text = preview(&base, &id);
        said.push_input(Input::Preview { id, text });
    });
}

/// Changes sessions and lists them again, in the background. Reports a failure.
pub(super) fn change(
    said: Arc<UiInbox>,
    base: Base,
    list: Pick,
    change: impl FnOnce(&Base) -> Result<()> + Send + 'static,
) {
    tokio::task::spawn_blocking(move || {
        if let Err(failure) = change(&base) {
            let hint = failure.remedy().map(|hint| format!("; {hint}")).unwrap_or_default();
            said.push_input(Input::Remark(failure.message() + &hint));
        }
        said.push_input(Input::Relisted(list, lists::sessions(&base, list)));
    });
}

/// Returns the command that continues a session in its own directory.
///
/// # Errors
/// There is no such session.
pub(super) fn command(base: &Base, id: &str) -> Result<String> {
    let path = directory(base).find(id).map_err(Failure::from)?;
    let workspace = directory(base).workspace_of(&path).map_err(Failure::from)?;
    let place = workspace.map(|workspace| format!("cd {} && ", shell_word(&workspace.display().to_string())));
    Ok(format!("{}pinion -r {id}", place.unwrap_or_default()))
}

/// Names a session; an empty name removes the one that it has.
pub(super) fn rename(base: &Base, id: &str, name: &str) -> Result<()> {
    let path = directory(base).find(id).map_err(Failure::from)?;
    directory(base).rename(&path, &base.secrets.clean(name)).map_err(Failure::from)
}

/// Deletes a session with everything that belongs to it. Fails for a session in use.
pub(super) fn delete(base: &Base, id: &str) -> Result<()> {
    let path = directory(base).find(id).map_err(Failure::from)?;
    delete_whole(base, &path).map(drop)
}
