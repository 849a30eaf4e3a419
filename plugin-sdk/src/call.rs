//! Context of a running call, cancellation and progress reports.

use crate::bindings::imports::pinion::plugin::types;
use crate::{Error, Output, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
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

    /// Returns the id of the tool call, unique in the session; in a command, `/` and its name.
    pub fn id(&self) -> &str {
        &self.context.call_id
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &str {
        &self.context.session_id
    }

    /// Returns the absolute path of the workspace root.
    pub fn workspace(&self) -> &Path {
        Path::new(&self.context.workspace)
    }

    /// Resolves a path that a model or user wrote to an absolute path for `std::fs`.
    ///
    /// Relative paths start at the workspace; `.` and `..` are resolved lexically.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the path is empty or contains NUL, [`Error::Denied`] if it is outside all granted
    /// directories.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid_input("a path must not be empty or contain NUL"));
        }
        let path = absolute(&self.context.workspace, name);
        let below = path.strip_prefix(self.context.workspace.trim_end_matches('/'));
        match below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
            true => Ok(path.into()),
            false => Ok(host::granted(path)?.into()),
        }
    }

    /// Returns the value that the tool was offered with, see [`Tool::route`](crate::Tool::route). None without one, or if it
    /// is of another type.
    pub fn route<T: DeserializeOwned>(&self) -> Option<T> {
        #[derive(Deserialize)]
        struct Extra<T> {
            route: T,
        }
        let extra: Extra<T> = serde_json::from_str(self.context.extra.as_deref()?).ok()?;
        Some(extra.route)
    }

    /// Returns the call's time limit in milliseconds, counted from its start.
    pub fn deadline_ms(&self) -> u32 {
        self.context.deadline_ms
    }

    /// Returns whether the call has been cancelled. Cheap enough for inner loops.
    pub fn cancelled(&self) -> bool {
        host::cancelled()
    }

    /// Fails if the call has been cancelled, for use with `?` in loops.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the call has been cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Reports progress to the user as one short line, such as "compiling 12 of 80".
    pub fn progress(&self, message: &str) {
        host::report(message);
    }

    /// Shows a partial result; it replaces the previous one.
    pub fn update(&self, partial: impl Into<Output>) {
        host::update(&partial.into().content);
    }
}

/// Resolves `name` against `workspace` and removes `.` and `..` lexically.
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
    use crate::Result;
    use crate::workspace::resolve;

    pub(super) use crate::cancellation::cancelled;
    pub(super) use crate::progress::{report, update};

    /// Asks the host for the name under which a granted directory contains `path`, which may lead through a link to it.
    pub(super) fn granted(path: String) -> Result<String> {
        Ok(resolve(&path)?)
    }
}

/// Stand-in for the host in native tests: grants every path and drops progress.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use super::types::Content;
    use crate::Result;

    pub(super) use crate::testing::cancelled;

    pub(super) fn granted(path: String) -> Result<String> {
        Ok(path)
    }

    pub(super) fn report(_message: &str) {}

    pub(super) fn update(_partial: &[Content]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_resolved_lexically() {
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
    fn empty_path_and_nul_are_rejected() {
        let call = crate::testing::call();
        assert!(matches!(call.path(""), Err(Error::InvalidInput(_))));
        assert!(matches!(call.path("a\0"), Err(Error::InvalidInput(_))));
    }
}
