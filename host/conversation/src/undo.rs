//! `/undo`, `/redo`, `/rewind` and `/diff`.

use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_app::failure::{Failure, Result};
use pinion_app::undo::rewind::{Conversation, RewindTarget, Wish, read, rewind};
use pinion_app::undo::show;
use pinion_console::output::{Text, text};
use pinion_session_store::Session;
use std::sync::Arc;

/// The most turns that a command may name.
const MAX_TURNS: usize = 1_000_000;

impl Chat<'_> {
    /// Shows the notices about checkpoints.
    pub(crate) fn say_gaps(&self) {
        let notices = self.ready.keeper.take_notices();
        notices.iter().for_each(|notice| self.write_line(&text!("! {}", Text::block(notice))));
    }

    fn saved(&self) -> Result<Arc<Session>> {
        let session = self.ready.session.on_disk.clone();
        session.ok_or_else(|| Failure::failed("this session is not saved, so it has no checkpoints"))
    }

    /// Undoes turns, or an undo.
    pub(crate) async fn rewind(&mut self, arguments: &str, target: RewindTarget) -> Result<NextPrompt> {
        let wish = wish(arguments, target)?;
        let (session, store) = (self.saved()?, self.ready.keeper.store());
        let done = blocking(move || rewind(store.as_ref(), &session, wish)).await?;
        let lines = show::report(&done, wish);
        let has_moved = done.conversation.is_some();
        let moved = match done.conversation {
            Some(conversation) => self.move_to(conversation).await,
            None => Ok(()),
        };
        lines.iter().for_each(|line| self.write_line(line));
        moved?;
        let prompt = done.prompt.filter(|_| has_moved).map(|prompt| self.base.secrets.clean(&prompt).into_owned());
        Ok(NextPrompt { offer: prompt, ..NextPrompt::default() })
    }

    /// Continues the conversation at another entry of the session.
    async fn move_to(&mut self, conversation: Conversation) -> Result<()> {
        let messages = pinion_agent::compaction::view(conversation.messages);
        self.return_to(messages, conversation.runs, conversation.last_run.into()).await
    }

    /// Lists the turns that can be undone.
    pub(crate) async fn list_turns(&mut self) -> Result<NextPrompt> {
        let (session, store) = (self.saved()?, self.ready.keeper.store());
        let lines = blocking(move || Ok(show::list(&read(&session)?, store.as_ref()))).await?;
        lines.iter().for_each(|line| self.write_line(line));
        Ok(NextPrompt::default())
    }

    /// Shows the changes of a turn or of the session.
    pub(crate) async fn diff(&mut self, arguments: &str) -> Result<NextPrompt> {
        let whole_session = match arguments {
            "" | "turn" => false,
            "session" => true,
            _ => return Err(Failure::usage("/diff takes `turn` or `session`")),
        };
        let (session, store) = (self.saved()?, self.ready.keeper.store());
        let store = store.ok_or_else(|| Failure::failed("checkpoints are off, so changes are not known"))?;
        let failed = |error| Failure::failed("cannot compare files").because(error);
        let diff = blocking(move || show::diff(&read(&session)?, &store, whole_session).map_err(failed)).await?;
        match diff {
            Some(diff) => self.page(&self.base.secrets.clean(&diff)),
            None => self.write_line(&text!("no files were changed")),
        }
        Ok(NextPrompt::default())
    }
}

/// Runs work that blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::failed("cannot undo").because(error)))
}

/// Parses the arguments of a command.
fn wish(arguments: &str, target: RewindTarget) -> Result<Wish> {
    let mut wish = Wish { target, files: true, conversation: true, force: false, dry_run: false };
    for word in arguments.split_whitespace() {
        match (word, word.parse::<usize>()) {
            ("--force", _) => wish.force = true,
            ("--dry-run", _) => wish.dry_run = true,
            ("--files-only", _) => wish.conversation = false,
            ("--conversation-only", _) => wish.files = false,
            (_, Ok(number @ 1..=MAX_TURNS)) if target != RewindTarget::Redo => wish.target = RewindTarget::Back(number),
            _ => {
                let known = "a number of turns, --files-only, --conversation-only, --dry-run and --force";
                return Err(
                    Failure::usage(format!("unknown argument `{word}`")).hint(format!("the arguments are {known}"))
                );
            }
        }
    }
    match wish.files || wish.conversation {
        true => Ok(wish),
        false => Err(Failure::usage("--files-only and --conversation-only exclude each other")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_select_what_is_undone() {
        let parsed = wish("3 --force --files-only", RewindTarget::Back(1)).unwrap();
        assert_eq!(
            (parsed.target, parsed.force, parsed.files, parsed.conversation),
            (RewindTarget::Back(3), true, true, false)
        );
        for wrong in ["0", "-1", "x", "--files-only --conversation-only"] {
            assert!(wish(wrong, RewindTarget::Back(1)).is_err(), "{wrong}");
        }
        assert!(wish("2", RewindTarget::Redo).is_err());
    }
}
