//! Paths as the model writes them, and what to tell it where one leads nowhere.

use crate::nearest::nearest_names;
use pinion_plugin_sdk::{Call, Error, Result};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Names of a folder that are looked at for a hint.
const NAMES: usize = 1_000;

/// A path of the model's.
pub(crate) struct Target<'a> {
    /// As the model wrote it, for all that it reads.
    pub(crate) name: &'a str,
    /// Where it is, for all that touches files.
    pub(crate) path: PathBuf,
}

impl<'a> Target<'a> {
    /// # Errors
    /// Those of [`Call::path`], and of a call that is cancelled.
    pub(crate) fn new(name: &'a str, call: &Call) -> Result<Self> {
        call.check()?;
        Ok(Self { name, path: call.path(name)? })
    }

    /// What is there, links followed.
    ///
    /// # Errors
    /// Those of [`Target::failure`].
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        fs::metadata(&self.path).map_err(|e| self.failure("read", &e))
    }

    /// As [`Target::metadata`], of a regular file: to open a pipe or a device could take for ever.
    ///
    /// # Errors
    /// [`Error::InvalidArguments`] where something else is there; `done` is what it cannot be, such as "read".
    pub(crate) fn regular_file(&self, done: &str) -> Result<Metadata> {
        let metadata = self.metadata()?;
        self.require_file(&metadata, done)?;
        Ok(metadata)
    }

    /// # Errors
    /// [`Error::InvalidArguments`] where `metadata` is not that of a regular file.
    pub(crate) fn require_file(&self, metadata: &Metadata, done: &str) -> Result<()> {
        if metadata.is_file() {
            return Ok(());
        }
        let what = match metadata.is_dir() {
            true if done == "read" => "is a folder; use list to see what is in it",
            true => "is a folder",
            false => "is neither a file nor a folder (a pipe, socket or device)",
        };
        Err(Error::invalid_arguments(format!("cannot be {done}: `{}` {what}", self.name)))
    }

    /// # Errors
    /// [`Error::NotFound`] where nothing is there, [`Error::InvalidArguments`] where a file is.
    pub(crate) fn require_folder(&self) -> Result<()> {
        if self.metadata()?.is_file() {
            return Err(Error::invalid_arguments(format!("`{}` is a file, not a folder", self.name)));
        }
        Ok(())
    }

    /// `cannot ACTION PATH` and why; with a hint where nothing is there.
    pub(crate) fn failure(&self, action: &str, error: &io::Error) -> Error {
        let name = self.name;
        match error.kind() {
            ErrorKind::NotFound => self.not_found(),
            ErrorKind::PermissionDenied => Error::Denied(format!(
                "cannot {action} `{name}`: its permissions forbid it, or a link leads out of the granted folders, as \
                 any absolute link does"
            )),
            ErrorKind::NotADirectory => {
                Error::NotFound(format!("`{name}` does not exist: a part of the path is a file, not a folder"))
            }
            _ => Error::failed(format!("cannot {action} `{name}`: {}", reason(error))),
        }
    }

    /// Names the first folder of the path that is missing, if one is, and what comes near.
    fn not_found(&self) -> Error {
        let mut missing = self.path.as_path();
        while let Some(folder) = missing.parent().filter(|folder| !folder.exists()) {
            missing = folder;
        }
        let mut text = format!("`{}` does not exist", self.name);
        if missing != self.path {
            text.push_str(&format!(": there is no folder `{}`", missing.display()));
        }
        let near = similar_names(missing);
        if !near.is_empty() {
            text.push_str(&format!("; near it: {}", near.join(", ")));
        }
        Error::NotFound(text)
    }
}

/// The error without its number, which WASI and the machine count differently.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn similar_names(missing: &Path) -> Vec<String> {
    let (Some(folder), Some(wanted)) = (missing.parent(), missing.file_name()) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names: Vec<String> =
        entries.take(NAMES).flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    nearest_names(&wanted.to_string_lossy(), &names).into_iter().map(|name| format!("`{name}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    fn metadata(path: &Path) -> Result<Metadata> {
        Target::new(path.to_str().unwrap(), &testing::call()).unwrap().metadata()
    }

    #[test]
    fn a_missing_file_is_told_with_the_nearest_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["main.rs", "Makefile", "zebra"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let path = folder.path().join("mian.rs");
        let expected = format!("`{}` does not exist; near it: `main.rs`", path.display());
        assert_eq!(metadata(&path).unwrap_err(), Error::NotFound(expected));
    }

    #[test]
    fn the_first_missing_folder_of_a_path_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        let Error::NotFound(text) = metadata(&folder.path().join("sources/a/b.rs")).unwrap_err() else { panic!() };
        let missing = folder.path().join("sources");
        assert!(text.ends_with(&format!(": there is no folder `{}`; near it: `source`", missing.display())), "{text}");
    }

    #[test]
    fn a_path_through_a_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let Error::NotFound(text) = metadata(&folder.path().join("a/b")).unwrap_err() else { panic!() };
        assert!(text.contains("is a file, not a folder"), "{text}");
    }
}
