//! Paths that the model writes, and errors for paths that lead nowhere.

use crate::nearest::nearest_names;
use crate::store;
use pinion_plugin_sdk::{Call, Error, Result};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Maximum number of directory entries to consider for a suggestion.
const NAMES: usize = 1_000;

/// A path from the model.
pub(crate) struct Target<'a> {
    /// The path as the model wrote it, for messages.
    pub(crate) name: &'a str,
    /// The absolute path, for file access.
    pub(crate) path: PathBuf,
    /// The form in which the path leads somewhere, if nothing is at the path.
    meant: Option<Meant>,
}

/// Another form of a path that leads nowhere. It is only named and never used: rules about files decide on the path as the model
/// wrote it.
struct Meant {
    name: String,
    exists: bool,
}

impl<'a> Target<'a> {
    /// Resolves `name`.
    ///
    /// # Errors
    /// The errors of [`Call::path`], [`Error::InvalidInput`] for a home directory, and [`Error::Cancelled`].
    pub(crate) fn new(name: &'a str, call: &Call) -> Result<Self> {
        call.check()?;
        // A shell would expand it. Taken literally, it would create a directory named `~` in the workspace.
        if name == "~" || name.starts_with("~/") {
            return Err(Error::invalid_input(format!(
                "`~` is not expanded: name `{name}` relative to the workspace or by its absolute path (`./{name}` is a \
                 directory called `~`)"
            )));
        }
        let url = name.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
        if let Some(form) = forms(name).into_iter().next().filter(|_| url) {
            return Err(Error::invalid_input(format!("`{name}` is a URL; name the path: `{}`", form.name)));
        }
        let path = call.path(name)?;
        let meant = fs::symlink_metadata(&path).is_err().then(|| meant(name, call)).flatten();
        Ok(Self { name, path, meant })
    }

    /// Checks that a new file would not get a name that is only another form of a path.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the form that is meant.
    pub(crate) fn require_plain_name(&self) -> Result<()> {
        match &self.meant {
            None => Ok(()),
            Some(Meant { name, .. }) => {
                Err(Error::invalid_input(format!("`{}` does not exist; did you mean `{name}`?", self.name)))
            }
        }
    }

    /// Returns the metadata of the target and follows links.
    ///
    /// # Errors
    /// The errors of [`Target::failure`].
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        fs::metadata(&self.path).map_err(|e| self.failure("read", &e))
    }

    /// Like [`Target::metadata`], for a regular file: opening a pipe or a device could block forever.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if it is not a regular file; `done` names the operation, such as "read".
    pub(crate) fn regular_file(&self, done: &str) -> Result<Metadata> {
        let metadata = self.metadata()?;
        self.require_file(&metadata, done)?;
        Ok(metadata)
    }

    /// Checks that `metadata` describes a regular file.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] otherwise.
    pub(crate) fn require_file(&self, metadata: &Metadata, done: &str) -> Result<()> {
        if metadata.is_file() {
            return Ok(());
        }
        let what = match metadata.is_dir() {
            true if done == "read" => "is a directory; use list to see its content",
            true => "is a directory",
            false => "is neither a file nor a directory (a pipe, socket or device)",
        };
        Err(Error::invalid_input(format!("cannot be {done}: `{}` {what}", self.name)))
    }

    /// Checks that the target is a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing is there, [`Error::InvalidInput`] if it is a file.
    pub(crate) fn require_directory(&self) -> Result<()> {
        if self.metadata()?.is_file() {
            return Err(Error::invalid_input(format!("`{}` is a file, not a directory", self.name)));
        }
        Ok(())
    }

    /// Converts an I/O error to `cannot ACTION PATH` with a cause, or to a suggestion if nothing is there.
    pub(crate) fn failure(&self, action: &str, error: &io::Error) -> Error {
        let name = self.name;
        match error.kind() {
            ErrorKind::NotFound => self.not_found(),
            ErrorKind::PermissionDenied => Error::Denied(format!(
                "cannot {action} `{name}`: permission denied, or a link leaves the granted directories (every absolute \
                 link does)"
            )),
            ErrorKind::NotADirectory => {
                Error::NotFound(format!("`{name}` does not exist: part of the path is a file, not a directory"))
            }
            _ => Error::failed(format!("cannot {action} `{name}`: {}", reason(error))),
        }
    }

    /// Names the first missing directory of the path, if any, and similar names.
    fn not_found(&self) -> Error {
        if let Some(Meant { name, exists: true }) = &self.meant {
            return Error::NotFound(format!("`{}` does not exist; did you mean `{name}`?", self.name));
        }
        let mut missing = self.path.as_path();
        while let Some(directory) = missing.parent().filter(|directory| !directory.exists()) {
            missing = directory;
        }
        if missing.parent().is_none() {
            // Not even the granted directory is there: it was removed, or could not be opened.
            let why = store::why_unusable(&self.path).unwrap_or_else(|| "its directory no longer exists".to_owned());
            return Error::NotFound(format!("`{}` cannot be used: {why}", self.name));
        }
        let mut text = format!("`{}` does not exist", self.name);
        if missing != self.path {
            text.push_str(&format!(": no directory `{}`", missing.display()));
        }
        let near = similar_names(missing);
        if !near.is_empty() {
            text.push_str(&format!("; similar names: {}", near.join(", ")));
        }
        Error::NotFound(text)
    }
}

/// Another form of a path.
struct Form {
    name: String,
    /// No name of a file has the form of the whole.
    is_certain: bool,
}

/// Returns the forms that a path may be meant in: without the marks of a URL, of a quotation or of a mention, or with slashes.
fn forms(name: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    let mut add = |form: String, is_certain| {
        let is_other = !form.is_empty() && form != name;
        forms.extend(is_other.then_some(Form { name: form, is_certain }));
    };
    if let Some((scheme, rest)) = name.trim().split_once(':')
        && scheme.eq_ignore_ascii_case("file")
    {
        let path = rest.strip_prefix("//localhost").or(rest.strip_prefix("//")).unwrap_or(rest);
        add(percent_decoded(path), true);
    }
    let mut bare = name.trim();
    for (open, close) in [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('<', '>')] {
        bare = bare.strip_prefix(open).and_then(|bare| bare.strip_suffix(close)).unwrap_or(bare).trim();
    }
    if bare != name {
        add(bare.to_owned(), true);
    }
    if let Some(path) = bare.strip_prefix('@') {
        add(path.to_owned(), false);
    }
    if bare.contains('\\') {
        add(bare.replace("\\ ", " "), false);
        add(bare.replace("\\\\", "/").replace('\\', "/"), false);
    }
    forms
}

/// Decodes `%20` and the like; leaves invalid parts as they are.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Returns the form of a path that exists, or else the one that is certainly meant, or that names a new file in a directory that
/// exists.
fn meant(name: &str, call: &Call) -> Option<Meant> {
    let forms = forms(name);
    let path = |form: &Form| call.path(&form.name).ok();
    let exists = |form: &&Form| path(form).is_some_and(|path| fs::symlink_metadata(path).is_ok());
    let is_new = |form: &&Form| {
        let has_directory =
            form.name.contains('/') && path(form).and_then(|path| path.parent().map(Path::is_dir)).unwrap_or_default();
        form.is_certain || has_directory
    };
    let found = forms.iter().find(exists);
    let (form, exists) = found.map(|form| (form, true)).or_else(|| Some((forms.iter().find(is_new)?, false)))?;
    Some(Meant { name: form.name.clone(), exists })
}

/// Formats the error without its number, which differs between WASI and the machine.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn similar_names(missing: &Path) -> Vec<String> {
    let (Some(directory), Some(wanted)) = (missing.parent(), missing.file_name()) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
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
    fn missing_file_suggests_similar_names() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["main.rs", "Makefile", "zebra"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let path = directory.path().join("mian.rs");
        let expected = format!("`{}` does not exist; similar names: `main.rs`", path.display());
        assert_eq!(metadata(&path).unwrap_err(), Error::NotFound(expected));
    }

    #[test]
    fn first_missing_directory_of_a_path_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("source")).unwrap();
        let Error::NotFound(text) = metadata(&directory.path().join("sources/a/b.rs")).unwrap_err() else { panic!() };
        let missing = directory.path().join("sources");
        assert!(text.ends_with(&format!(": no directory `{}`; similar names: `source`", missing.display())), "{text}");
    }

    #[test]
    fn home_directory_is_not_taken_for_a_name() {
        for name in ["~", "~/x"] {
            let result = Target::new(name, &testing::call());
            assert!(matches!(result, Err(Error::InvalidInput(text)) if text.contains("not expanded")), "{name}");
        }
        assert!(Target::new("./~/x", &testing::call()).is_ok() && Target::new("~x", &testing::call()).is_ok());
    }

    #[test]
    fn other_forms_of_a_path_are_named_and_not_used() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a b.txt"), "").unwrap();
        let path = directory.path().join("a b.txt").display().to_string();
        let windows = path.replace('/', "\\");
        for name in [
            format!("\"{path}\""),
            format!("'{path}' "),
            format!("`{path}`"),
            format!(" {path}\n"),
            format!("@{path}"),
            format!("\"@{path}\""),
            path.replace(' ', "\\ "),
            windows,
        ] {
            let target = Target::new(&name, &testing::call()).unwrap();
            let text = target.metadata().unwrap_err().to_string();
            assert!(text.ends_with(&format!("; did you mean `{path}`?")), "{name}: {text}");
            assert!(target.require_plain_name().is_err(), "{name}");
        }
        for url in [format!("file://{}", path.replace(' ', "%20")), format!("FILE://localhost{path}")] {
            let Err(Error::InvalidInput(text)) = Target::new(&url, &testing::call()) else { panic!("{url}") };
            assert!(text.ends_with(&format!("name the path: `{path}`")), "{text}");
        }
    }

    #[test]
    fn names_of_new_files_may_have_any_letters() {
        let directory = tempfile::tempdir().unwrap();
        let in_it = |name: &str| directory.path().join(name).display().to_string();
        for name in ["@a", "a\\b", "it's", "a: b", "file", "100%25", "“a"] {
            let name = in_it(name);
            assert!(Target::new(&name, &testing::call()).unwrap().require_plain_name().is_ok(), "{name}");
        }
        fs::create_dir(directory.path().join("src")).unwrap();
        let name = format!("{}/src\\new.rs", directory.path().display());
        assert!(Target::new(&name, &testing::call()).unwrap().require_plain_name().is_err());
    }

    #[test]
    fn path_through_a_file_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        let Error::NotFound(text) = metadata(&directory.path().join("a/b")).unwrap_err() else { panic!() };
        assert!(text.contains("is a file, not a directory"), "{text}");
    }
}
