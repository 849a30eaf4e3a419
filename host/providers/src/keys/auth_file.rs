//! The user's key file, `auth.toml`.

use super::error::KeyError;
use pinion_files::open::open_file;
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The limit on the size of the file: 1 MiB.
const MAX_FILE: u64 = 1 << 20;

/// The user's key file, with one table per provider:
/// ```toml
/// [anthropic]
/// key = "sk-ant-…"
/// ```
/// Only its owner may have access: a mode other than 0600 or 0400 is an error. The file is read before every request,
/// so that changes take effect immediately.
#[derive(Debug)]
pub struct AuthFile {
    path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthFileEntry {
    key: SecretString,
}

impl AuthFile {
    /// The file at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all keys; an empty list when the file does not exist.
    ///
    /// # Errors
    /// The same as for [`Self::key`].
    pub fn keys(&self) -> Result<Vec<SecretString>, KeyError> {
        Ok(self.read()?.into_values().map(|entry| entry.key).collect())
    }

    /// Returns the key of a provider; `None` when the file or the provider's table does not exist.
    ///
    /// # Errors
    /// The file cannot be read, is accessible to other users, or is malformed.
    pub fn key(&self, provider: &str) -> Result<Option<SecretString>, KeyError> {
        Ok(self.read()?.remove(provider).map(|entry| entry.key))
    }

    fn read(&self) -> Result<BTreeMap<String, AuthFileEntry>, KeyError> {
        let failed = |source| KeyError::File { path: self.path.clone(), source };
        let file = match open_file(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(failed(error)),
        };
        self.check_mode(&file)?;
        let text = limited(file).map_err(failed)?;
        toml::from_str(&text).map_err(|error| self.malformed(&text, &error))
    }

    /// Checks the open file rather than its path, which could be replaced in between.
    #[cfg(unix)]
    fn check_mode(&self, file: &File) -> Result<(), KeyError> {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = file.metadata().map_err(|source| KeyError::File { path: self.path.clone(), source })?;
        match metadata.permissions().mode() & 0o7777 {
            0o600 | 0o400 => Ok(()),
            mode => Err(KeyError::Mode { path: self.path.clone(), mode }),
        }
    }

    #[cfg(not(unix))]
    fn check_mode(&self, _: &File) -> Result<(), KeyError> {
        Ok(())
    }

    /// The parser's message would repeat the line, which may contain a key.
    fn malformed(&self, text: &str, error: &toml::de::Error) -> KeyError {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        KeyError::Malformed { path: self.path.clone(), line }
    }
}

/// Reads a key file, up to the size limit.
pub(super) fn read_limited(path: &Path) -> io::Result<SecretString> {
    Ok(SecretString::from(limited(open_file(path)?)?.as_str()))
}

fn limited(file: File) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB")),
        false => Ok(text),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipe_in_the_place_of_a_file_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("auth.toml");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(AuthFile::new(path.clone()).key("anthropic"), Err(KeyError::File { .. })));
        assert!(read_limited(&path).is_err());
    }
}
