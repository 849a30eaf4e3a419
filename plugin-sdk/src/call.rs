//! What a running call knows about itself, and how it says that it is alive.

use crate::bindings::imports::pinion::plugin::types;
use crate::{Error, Output, Result};
use std::path::{Path, PathBuf};

/// One call of a tool or command.
#[derive(Debug, Clone)]
pub struct Call {
    context: types::CallContext,
}

impl Call {
    pub(crate) fn new(context: types::CallContext) -> Self {
        Self { context }
    }

    /// The id of the tool call or command invocation, unique in the session.
    pub fn id(&self) -> &str {
        &self.context.call_id
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.context.session_id
    }

    /// Absolute path of the workspace root.
    pub fn workspace(&self) -> &Path {
        Path::new(&self.context.workspace)
    }

    /// The absolute path of what a model or user names, relative to the workspace or absolute: for `std::fs`, instead of
    /// the name itself.
    ///
    /// `.` and `..` are resolved by their letters. WASI's C libraries take an absolute path outside all granted folders
    /// for one below the workspace (`/tmp/a` for `./tmp/a`): here it is refused.
    ///
    /// # Errors
    /// [`Error::InvalidArguments`] for what cannot be a path, [`Error::Denied`] for what is in no granted folder.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid_arguments("a path is not empty and holds no NUL"));
        }
        let path = absolute(&self.context.workspace, name);
        let below = path.strip_prefix(self.context.workspace.trim_end_matches('/'));
        if !below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
            host::require_granted(&path)?;
        }
        Ok(path.into())
    }

    /// Milliseconds that the host gave this call, counted from its start.
    pub fn deadline_ms(&self) -> u64 {
        self.context.deadline_ms
    }

    /// Has the call been cancelled? Cheap enough for inner loops.
    pub fn cancelled(&self) -> bool {
        host::cancelled()
    }

    /// For loops that end with `?` when the call is cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the call has been cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A short line for the user, such as "compiling 12 of 80".
    pub fn progress(&self, message: &str) {
        host::report(message);
    }

    /// The result so far; replaces what was shown before.
    pub fn update(&self, partial: impl Into<Output>) {
        host::update(&partial.into().content);
    }
}

/// `name` from `workspace` on, without `.` and `..`.
fn absolute(workspace: &str, name: &str) -> String {
    let base = if name.starts_with('/') { "" } else { workspace };
    let mut parts = Vec::new();
    for part in base.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(target_arch = "wasm32")]
mod host {
    use crate::workspace::{WalkOptions, WorkspaceError, walk};
    use crate::{Error, Result};

    pub(super) use crate::cancellation::cancelled;
    pub(super) use crate::progress::{report, update};

    /// Asks for as little as can be asked of a folder, for the sake of the refusal.
    pub(super) fn require_granted(path: &str) -> Result<()> {
        let options = WalkOptions {
            root: path.to_owned(),
            globs: Vec::new(),
            types: Vec::new(),
            max_depth: Some(1),
            hidden: false,
            ignore_files: false,
            limit: 1,
        };
        match walk(&options) {
            Err(WorkspaceError::Denied(_)) => Err(Error::Denied(format!("`{path}` is in no granted folder"))),
            Err(WorkspaceError::Cancelled) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}

/// Outside a host, as in an author's tests, nobody watches, and all is granted.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use super::types::Content;
    use crate::Result;

    pub(super) use crate::testing::cancelled;

    pub(super) fn require_granted(_path: &str) -> Result<()> {
        Ok(())
    }

    pub(super) fn report(_message: &str) {}

    pub(super) fn update(_partial: &[Content]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_absolute_by_its_letters() {
        let workspace = "/home/me/project";
        for (name, expected) in [
            ("src/lib.rs", "/home/me/project/src/lib.rs"),
            ("./src/../Cargo.toml", "/home/me/project/Cargo.toml"),
            (".", "/home/me/project"),
            ("../other/a", "/home/me/other/a"),
            ("/home/me/project/./a/", "/home/me/project/a"),
            ("/../..", "/"),
        ] {
            assert_eq!(absolute(workspace, name), expected, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        let call = crate::testing::call();
        assert!(matches!(call.path(""), Err(Error::InvalidArguments(_))));
        assert!(matches!(call.path("a\0"), Err(Error::InvalidArguments(_))));
    }
}
