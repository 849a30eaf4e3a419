//! How a file's new content gets to disk: whole, so that nobody ever sees a part of it.
//!
//! It is the host that writes, by a temporary file and a rename: WASI alone knows no modes, and would leave a script
//! without its executable bit and a private file open to everyone.

use crate::paths::Target;
use pinion_plugin_sdk::Result;

/// Gives a file, new or old, this content. Its folders are made; an old one keeps its mode, and a link to it stays.
///
/// # Errors
/// Those of the file system; the file is as it was then.
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
            // It names the place in full; the model knows it by another name.
            WorkspaceError::Io(text) => Error::failed(format!("cannot write {}", text.replace(&*path, target.name))),
            other => other.into(),
        })
    }
}

/// For tests, which have no host: the same by the machine's own means.
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
