//! `workspace`: bulk work on granted folders, on all cores.
//!
//! [`walk`] finds files, [`search`] looks into them, [`replace`] writes one whole. The first two run on the calling thread
//! and, where there is work for more, some helpers that end with the call; the calling thread is one that may block.
//! Every folder and file is opened relative to the handle of the folder that holds it, so that no link, `..` or rename
//! race leads out of the granted folder. What they find is the [`least`] by path, and the same each time.

mod budget;
mod ignores;
mod large;
mod least;
mod patterns;
mod queue;
mod replace;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use crate::bindings::pinion::plugin::workspace::{
    self, SearchOptions, SearchResult, WalkOptions, WalkResult, WorkspaceError,
};
use crate::manifest::Access;
use crate::state::State;
use cap_std::fs::Dir;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Threads that work on one call, the calling one among them.
const MAX_THREADS: usize = 8;

impl workspace::Host for State {
    async fn replace_file(&mut self, path: String, content: Vec<u8>) -> wasmtime::Result<Result<(), WorkspaceError>> {
        self.account.written.spend_at(0, content.len() as u64)?;
        let replaced = self.root(&path, Access::Write).and_then(|root| replace::replace_file(&root, &content));
        if replaced.is_ok() {
            self.account.files += 1;
        }
        Ok(replaced)
    }

    async fn walk(&mut self, options: WalkOptions) -> wasmtime::Result<Result<WalkResult, WorkspaceError>> {
        let result = self.root(&options.root, Access::Read).and_then(|root| walk::walk(&root, &options, &self.stop()));
        if let Ok(result) = &result {
            self.account.files += result.entries.len() as u64;
        }
        Ok(result)
    }

    async fn search(
        &mut self,
        files: WalkOptions,
        what: SearchOptions,
    ) -> wasmtime::Result<Result<SearchResult, WorkspaceError>> {
        let found =
            self.root(&files.root, Access::Read).and_then(|root| search::search(&root, &files, &what, &self.stop()));
        Ok(found.map(|found| {
            self.account.files += found.result.searched;
            self.account.searched += found.bytes;
            found.result
        }))
    }
}

impl State {
    fn root(&self, path: &str, access: Access) -> Result<Root, WorkspaceError> {
        let place =
            self.call.authority.place(path, access).map_err(|denied| WorkspaceError::Denied(denied.to_string()))?;
        let folder = Dir::open_ambient_dir(&place.folder, cap_std::ambient_authority())
            .map_err(|error| io_error(&place.folder.to_string_lossy(), &error))?;
        Ok(Root { folder, relative: place.relative, path: path.to_owned() })
    }

    fn stop(&self) -> Stop {
        Stop { token: self.call.token.clone(), deadline: self.call.deadline }
    }
}

/// Where a walk begins.
struct Root {
    /// The granted folder.
    folder: Dir,
    /// The place in it.
    relative: PathBuf,
    /// As the plugin wrote it.
    path: String,
}

/// When to give up.
struct Stop {
    token: CancellationToken,
    deadline: Instant,
}

impl Stop {
    /// Asked between files, and between reads of a large one.
    fn now(&self) -> bool {
        self.token.is_cancelled() || Instant::now() >= self.deadline
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS))
}

fn io_error(path: &str, error: &std::io::Error) -> WorkspaceError {
    match error.kind() {
        std::io::ErrorKind::NotFound => WorkspaceError::NotFound(format!("no such file or folder: `{path}`")),
        _ => WorkspaceError::Io(format!("`{path}`: {error}")),
    }
}
