//! `pinion eval record`: a case made of a session.

use super::failure;
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::undo::patch::{WrittenPatch, session_files};
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, note, print, text};
use pinion_eval::case::is_id;
use pinion_eval::record::{FileOutcome, case_text, scripts};
use pinion_eval::trajectory::from_session;
use pinion_eval::workspace::apply_patch;
use pinion_session_store::SessionDirectory;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The arguments of `pinion eval record`.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// ID of the session, or a unique prefix of it, or the path of its file
    #[arg(value_name = "SESSION")]
    session: String,
    /// Create this directory for the case [default: the ID of the case]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// ID of the case [default: from the session]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Replace the model with the replies of the session, so that the case runs offline
    #[arg(long)]
    replay: bool,
}

impl RecordArgs {
    pub(super) fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let sessions = SessionDirectory::new(base.paths.sessions());
        let path = match self.session.ends_with(".jsonl") {
            true => base.workspace.join(&self.session),
            false => sessions.find(&self.session).map_err(Failure::from)?,
        };
        let trajectory = from_session(&path, &|id: &str| sessions.find(id).ok()).map_err(failure)?;
        if trajectory.turns.is_empty() {
            return Err(Failure::usage(format!("the session `{}` has no reply", self.session)));
        }
        let id = match self.id {
            Some(id) if is_id(&id) => id,
            Some(id) => return Err(Failure::usage(format!("`{id}` is not an id of a case"))),
            None => trajectory.session_id.chars().filter(char::is_ascii_alphanumeric).take(64).collect(),
        };
        let directory = base.workspace.join(self.out.unwrap_or_else(|| PathBuf::from(&id)));
        create(&directory)?;
        let files = match recorded_files(&base, &path, &directory.join("workspace")) {
            Ok(files) => Some(files),
            Err(problem) => {
                note(&text!("! the case has no workspace: {}", problem.message()));
                None
            }
        };
        let replies = if self.replay { Some(scripts(&trajectory)) } else { None };
        if let Some(None) = replies {
            return Err(Failure::usage("the replies of a session with sub-agents cannot replace the model"));
        }
        let mut names = Vec::new();
        for (number, script) in replies.flatten().unwrap_or_default().iter().enumerate() {
            let name = format!("replies-{}.jsonl", number + 1);
            write(&directory.join(&name), &base.secrets.clean(script))?;
            names.push(name);
        }
        let case = directory.join("case.yaml");
        write(&case, &base.secrets.clean(&case_text(&id, &trajectory, files.as_ref(), &names)))?;
        print(&text!("{}\n", case))
    }
}

fn create(directory: &Path) -> Result<()> {
    let failed = |error: io::Error| {
        let failure = Failure::failed(format!("could not create `{}`", directory.display()));
        failure.because(error).hint("name another directory with --out")
    };
    directory.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::create_dir(directory)).map_err(failed)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |error: io::Error| Failure::failed(format!("could not write `{}`", path.display())).because(error);
    pinion_eval::files::create(path, text.as_bytes()).map_err(failed)
}

/// Writes the files from the start of a session to a directory, and returns those that its work left.
fn recorded_files(base: &Base, session: &Path, start: &Path) -> Result<FileOutcome> {
    let failed = |error: io::Error| Failure::failed("could not write the workspace").because(error);
    let [before, work] = session_files(base, session)?;
    for notice in before.notices().into_iter().chain(work.notices()) {
        note(&text!("! {}", Text::block(notice)));
    }
    let scratch = tempfile::tempdir().map_err(failed)?;
    let end = scratch.path().join("end");
    let mut patches = Vec::new();
    for (number, patch) in [before, work].into_iter().enumerate() {
        let is_empty = patch.is_empty();
        let path = scratch.path().join(format!("{number}.patch"));
        put(patch, &path).map_err(failed)?;
        patches.push((path, is_empty));
    }
    for (directory, patches) in [(start, &patches[..1]), (&end, &patches[..])] {
        fs::create_dir(directory).map_err(failed)?;
        for (patch, _) in patches.iter().filter(|(_, is_empty)| !is_empty) {
            apply_patch(directory, patch)
                .map_err(|problem| Failure::failed("could not write the workspace").because(problem))?;
        }
    }
    FileOutcome::from_directories(start, &end).map_err(failed)
}

fn put(patch: WrittenPatch, path: &Path) -> io::Result<()> {
    patch.put(&mut fs::File::create_new(path)?)
}
