//! Replacement of file contents, unless they changed since the model read them.
//!
//! The host writes, with a new file that takes the place of the old one. WASI alone has no file modes: a script would lose
//! its executable bit, and a private file would become readable for everyone. The host also remembers which version of a
//! file the session has read: `write` fails if the file is another one now. It overwrites a file that the session has not
//! read, because a model may know it through `bash` or want to discard it. `edit` finds its place in the present content,
//! whatever was read before, so it fails only if the content changes while it works.

use crate::paths::Target;
use pinion_plugin_sdk::Result;
use std::path::Path;

/// Notes that the file is about to be read for the model.
pub(crate) fn note_read(target: &Target<'_>) {
    host::note_read(target);
}

/// Returns why the host cannot use the directory of a path, if it says so.
pub(crate) fn why_unusable(path: &Path) -> Option<String> {
    host::why_unusable(path)
}

/// Replaces or creates a file and creates missing parent directories. An existing file keeps its mode, and a link to it
/// stays.
///
/// # Errors
/// The errors of the file system, and that the file has changed: since this session last read it, or, if `old` is its content
/// so far, since then. The file is unchanged then.
pub(crate) fn replace(target: &Target<'_>, content: &[u8], old: Option<&[u8]>) -> Result<()> {
    host::replace(target, content, old)
}

#[cfg(target_arch = "wasm32")]
mod host {
    use crate::paths::Target;
    use pinion_plugin_sdk::workspace::{self, ReplaceError, WorkspaceError};
    use pinion_plugin_sdk::{Error, Result};
    use std::path::Path;

    pub(super) fn why_unusable(path: &Path) -> Option<String> {
        // The host keeps the cause, of which a guest sees only that the directory is missing.
        match workspace::note_read(&path.to_string_lossy()) {
            Err(WorkspaceError::Io(why) | WorkspaceError::Denied(why)) => Some(why),
            _ => None,
        }
    }

    pub(super) fn note_read(target: &Target<'_>) {
        // Where this fails, reading fails too, and says why.
        let _ = workspace::note_read(&target.path.to_string_lossy());
    }

    pub(super) fn replace(target: &Target<'_>, content: &[u8], old: Option<&[u8]>) -> Result<()> {
        let (path, name) = (target.path.to_string_lossy(), target.name);
        workspace::replace_unchanged(&path, content, old).map_err(|error| match error {
            ReplaceError::Changed if old.is_some() => {
                Error::failed(format!("`{name}` changed during the edit and was not written; edit it again"))
            }
            ReplaceError::Changed => Error::failed(format!(
                "`{name}` changed since you last read it and was not written; read it again and keep the other changes"
            )),
            // The host's message has the absolute path; the model knows the path it wrote.
            ReplaceError::Other(WorkspaceError::Io(text)) => {
                Error::failed(format!("cannot write {}", text.replace(&*path, name)))
            }
            ReplaceError::Other(other) => other.into(),
        })
    }
}

/// Native replacement for tests, which have no host.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use crate::paths::Target;
    use pinion_plugin_sdk::Result;
    use std::path::Path;
    use std::{fs, io};

    pub(super) fn why_unusable(_path: &Path) -> Option<String> {
        None
    }

    pub(super) fn note_read(_target: &Target<'_>) {}

    pub(super) fn replace(target: &Target<'_>, content: &[u8], _old: Option<&[u8]>) -> Result<()> {
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
