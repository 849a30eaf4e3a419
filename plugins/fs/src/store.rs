//! Atomic replacement of file contents.
//!
//! The host writes, with a temporary file and a rename. WASI alone has no file modes: a script would lose its
//! executable bit, and a private file would become readable for everyone.

use crate::paths::Target;
use pinion_plugin_sdk::Result;

/// Replaces or creates a file and creates missing parent directories. An existing file keeps its mode, and a link to it
/// stays.
///
/// # Errors
/// Those of the file system; the file is unchanged then.
pub(crate) fn replace(target: &Target<'_>, content: &[u8]) -> Result<()> {
    host::replace(target, content)
}

#[cfg(target_arch = "wasm32")]
mod host {
    use crate::paths::Target;
    use pinion_plugin_sdk::workspace::{self, WorkspaceError};
    use pinion_plugin_sdk::{Error, Result};

    pub(super) fn replace(target: &Target<'_>, content: &[u8]) -> Result<()> {
        let path = target.path.to_string_lossy();
        workspace::replace_file(&path, content).map_err(|error| match error {
            // The host's message has the absolute path; the model knows the path it wrote.
            WorkspaceError::Io(text) => Error::failed(format!("cannot write {}", text.replace(&*path, target.name))),
            other => other.into(),
        })
    }
}

/// Native replacement for tests, which have no host.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use crate::paths::Target;
    use pinion_plugin_sdk::Result;
    use std::{fs, io};

    pub(super) fn replace(target: &Target<'_>, content: &[u8]) -> Result<()> {
        write(target, content).map_err(|e| target.failure("write", &e))
    }

    fn write(target: &Target<'_>, content: &[u8]) -> io::Result<()> {
        let mut path = target.path.clone();
        while let Ok(next) = fs::read_link(&path) {
            path = path.with_file_name("").join(next);
        }
        fs::create_dir_all(path.with_file_name(""))?;
        let temporary = path.with_extension("pinion-tmp");
        fs::write(&temporary, content)?;
        if let Ok(old) = fs::metadata(&path) {
            fs::set_permissions(&temporary, old.permissions())?;
        }
        fs::rename(temporary, path)
    }
}
