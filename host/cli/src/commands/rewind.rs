//! `pinion session rewind`: undoes turns of a session.

use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::undo::keeper::recovered;
use pinion_app::undo::rewind::{Done, RewindTarget, Wish, preview, recover, rewind};
use pinion_app::undo::show;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, note, print, text};
use pinion_session_store::{SessionDirectory, Transcript, open_to_continue};
use std::path::Path;

/// The arguments of `pinion session rewind`.
#[derive(Debug, Args)]
pub(crate) struct Rewind {
    /// ID of the session, or a unique prefix of it [default: the last session of this directory]
    id: Option<String>,
    /// Undo this many turns: prompts with everything that the agent did for them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Restore files and leave the conversation as it is
    #[arg(long, conflicts_with = "conversation_only")]
    files_only: bool,
    /// Rewind the conversation and leave files as they are
    #[arg(long)]
    conversation_only: bool,
    /// Also restore files that someone else changed after the agent
    #[arg(long)]
    force: bool,
    /// Undo the last rewind
    #[arg(long, conflicts_with = "turns")]
    redo: bool,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
}

impl Rewind {
    pub(crate) fn run(self, base: &Base, directory: &SessionDirectory) -> Result<()> {
        let path = match &self.id {
            Some(id) => directory.find(id).map_err(Failure::from)?,
            None => {
                let latest = directory.latest(&base.workspace).map_err(Failure::from)?;
                let hint = "if the directory was moved, its sessions have the old path: `pinion session list --all`";
                latest.ok_or_else(|| Failure::usage("no session in this directory").hint(hint))?.path
            }
        };
        if self.dry_run {
            return self.preview(base, &path);
        }
        let opened = open_to_continue(&path, &base.workspace).map_err(Failure::from)?;
        opened.recovery.notices().iter().for_each(|notice| note(&text!("! {}", Text::block(notice))));
        let session = opened.session;
        let workspace = session.header().workspace.clone();
        let store = base.checkpoints(&workspace, session.path(), &[]);
        if let Some(store) = store.as_ref().filter(|_| !self.conversation_only) {
            let completed = recover(store, &session);
            if let Some(report) = completed.map_err(|error| Failure::failed("cannot restore files").because(error))? {
                note(&text!("! {}", recovered(&report)));
            }
        }
        let done = rewind(store.as_ref(), &session, self.wish())?;
        session.sync().map_err(Failure::from)?;
        self.report(base, &workspace, &done)?;
        match done.is_incomplete() {
            true => Err(Failure::failed("not all files could be restored")),
            false => Ok(()),
        }
    }

    /// Shows the changes that an undo would make. Neither repairs the session nor completes an undo that was killed.
    fn preview(&self, base: &Base, path: &Path) -> Result<()> {
        let transcript = Transcript::open(path).map_err(Failure::from)?;
        let workspace = transcript.header().map_or_else(|| base.workspace.clone(), |header| header.workspace.clone());
        let store = base.checkpoints(&workspace, path, &[]);
        let done = preview(store.as_ref(), path, self.wish())?;
        self.report(base, &workspace, &done)
    }

    fn wish(&self) -> Wish {
        Wish {
            target: if self.redo { RewindTarget::Redo } else { RewindTarget::Back(self.turns as usize) },
            files: !self.conversation_only,
            conversation: !self.files_only,
            force: self.force,
            dry_run: self.dry_run,
        }
    }

    fn report(&self, base: &Base, workspace: &Path, done: &Done) -> Result<()> {
        if workspace != base.workspace {
            note(&text!("in `{}`:", workspace.display().to_string()));
        }
        let mut lines = Text::default();
        show::report(done, self.wish()).into_iter().for_each(|line| lines.line(line));
        print(&lines)
    }
}
