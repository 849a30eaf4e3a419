//! Shows the last compaction, or undoes it.

use pinion_console::output::text;
use crate::actions::definition::{ConversationAction, choice};
use crate::chat::Chat;
use crate::compaction_report::compaction_report;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_agent::{Message, compaction};
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_session_store::{EntryId, History, Payload, Transcript};
use pinion_tui::PickChoice;
use std::path::Path;

/// The action.
pub(super) const ACTION: LastCompaction = LastCompaction;

/// The action `compaction`.
pub(super) struct LastCompaction;

impl ConversationAction for LastCompaction {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(vec![choice("show", "compare the conversation before and after"), choice("undo", "undo the last one")])
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let session = chat.ready.session.on_disk.clone();
            let session = session.ok_or_else(|| Failure::failed("this session is not saved"))?;
            if !session.path().exists() {
                return Err(no_compaction());
            }
            match arguments.trim() {
                "show" => {
                    let history = History::read(session.path()).map_err(Failure::from)?;
                    let page = compaction_report(&history.messages).ok_or_else(no_compaction)?;
                    chat.page(&page);
                }
                "undo" => {
                    let before = before_compaction(session.path())?;
                    let messages = session.go_back(before).map_err(Failure::from)?;
                    let snapshot = chat.ready.agent.snapshot().map_err(Failure::from)?;
                    chat.return_to(compaction::view(messages), snapshot.runs, snapshot.run_id).await?;
                    chat.write_line(&text!("undid the last compaction: the model sees the whole conversation again"));
                }
                _ => return Err(Failure::usage("this action takes `show` or `undo`")),
            }
            Ok(NextPrompt::default())
        })
    }
}

fn no_compaction() -> Failure {
    Failure::usage("this conversation was not compacted")
}

/// Returns the entry before the last compaction of a session.
///
/// # Errors
/// There is no compaction, or messages followed it.
fn before_compaction(path: &Path) -> Result<Option<EntryId>> {
    let mut transcript = Transcript::open(path).map_err(Failure::from)?;
    let mut found = None;
    for entry in transcript.branch().flatten() {
        match entry.payload {
            Payload::Message(Message::Extension(extension)) if extension.kind == compaction::COMPACTION_MESSAGE => {
                found = Some((entry.parent, false));
            }
            Payload::Message(_) => found = found.map(|(parent, _)| (parent, true)),
            _ => {}
        }
    }
    match found {
        None => Err(no_compaction()),
        Some((parent, false)) => Ok(parent),
        Some((_, true)) => Err(Failure::usage("messages followed the last compaction")
            .hint("`/rewind` undoes turns, and `/fork` or `pinion session fork --at ENTRY` continues from an earlier entry")),
    }
}
