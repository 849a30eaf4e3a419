//! The tool `write`.

use crate::paths::Target;
use crate::store;
use crate::text::{count, lines_in, size};
use pinion_plugin_sdk::prelude::*;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};

/// Of a larger file the old content is not kept to be put back when writing fails.
const OLD_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or absolute.
    path: String,
    /// The whole content.
    content: String,
}

pub(crate) fn tool() -> Tool {
    let description =
        "Creates a file, with the folders it needs, or overwrites one. To change a part of a file, use edit.";
    Tool::new("write", description, write).writes().destructive().sequential()
}

fn write(arguments: Arguments, call: &Call) -> Result<Output> {
    let target = Target::new(&arguments.path, call)?;
    let content = arguments.content.as_bytes();
    let (done, old_bytes) = match fs::metadata(&target.path) {
        Ok(old) => {
            target.require_file(&old, "overwritten")?;
            overwrite(&target, &old, content, call)?;
            ("overwrote", Some(old.len()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create(&target, content, call)?;
            ("created", None)
        }
        Err(error) => return Err(target.failure("write", &error)),
    };
    let (name, lines) = (target.name, lines_in(&arguments.content));
    let was = old_bytes.map(|bytes| format!("; it was {}", size(bytes))).unwrap_or_default();
    let text = format!("{done} {name} ({}, {}{was})", count(lines, "line"), size(content.len() as u64));
    let created = old_bytes.is_none();
    let details =
        json!({ "path": name, "created": created, "bytes": content.len(), "lines": lines, "old_bytes": old_bytes });
    Ok(Output::text(text).details(details))
}

fn overwrite(target: &Target<'_>, metadata: &Metadata, content: &[u8], call: &Call) -> Result<()> {
    call.check()?;
    let old = old_content(target, metadata);
    call.check()?;
    store::overwrite(&target.path, content, old.as_deref()).map_err(|failure| not_overwritten(target, &failure))
}

/// None where it is too much, or may be written and not read; neither is a reason not to write.
fn old_content(target: &Target<'_>, metadata: &Metadata) -> Option<Vec<u8>> {
    let mut old = Vec::new();
    let read = File::open(&target.path).and_then(|file| file.take(OLD_BYTES + 1).read_to_end(&mut old));
    (read.is_ok() && old.len() as u64 == metadata.len()).then_some(old)
}

/// Tells what became of the file.
pub(crate) fn not_overwritten(target: &Target<'_>, failure: &store::Failure) -> Error {
    match target.failure("write", &failure.error) {
        Error::Failed { message, retryable } if !failure.restored => {
            Error::Failed { message: format!("{message}; its old content is lost in part"), retryable }
        }
        error => error,
    }
}

fn create(target: &Target<'_>, content: &[u8], call: &Call) -> Result<()> {
    let failure = |e| target.failure("write", &e);
    if target.name.ends_with('/') {
        return Err(Error::invalid_arguments(format!("`{}` names a folder, not a file", target.name)));
    }
    call.check()?;
    if fs::symlink_metadata(&target.path).is_ok() {
        // A link to nothing: what it points to is created, and the link stays.
        return fs::write(&target.path, content).map_err(failure);
    }
    if let Some(folder) = target.path.parent() {
        fs::create_dir_all(folder).map_err(|e| target.failure("create the folder of", &e))?;
    }
    call.check()?;
    store::create(&target.path, content).map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{self, Reply};
    use std::path::Path;

    fn write(path: &Path, content: &str) -> Result<Reply> {
        testing::call_tool::<crate::Files>("write", json!({ "path": path, "content": content }))
    }

    #[test]
    fn a_new_file_is_created_with_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.txt");
        let reply = write(&path, "one\ntwo").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo");
        assert_eq!(reply.text, format!("created {} (2 lines, 7 bytes)", path.display()));
        let expected = json!({ "path": path, "created": true, "bytes": 7, "lines": 2, "old_bytes": null });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn an_existing_file_is_overwritten_and_what_it_was_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "long old content").unwrap();
        let reply = write(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert!(reply.text.ends_with("(1 line, 4 bytes; it was 16 bytes)"), "{}", reply.text);
    }

    #[test]
    fn a_folder_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(write(folder.path(), ""), Err(Error::InvalidArguments(text)) if text.contains("is a folder")));
        let path = format!("{}/new/", folder.path().display());
        assert!(matches!(write(Path::new(&path), ""), Err(Error::InvalidArguments(_))));
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn a_path_through_a_file_is_told_as_such() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let Err(Error::NotFound(text)) = write(&folder.path().join("a/b"), "") else { panic!() };
        assert!(text.contains("is a file, not a folder"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_gets_something_to_point_to() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        write(&link, "text").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(folder.path().join("target")).unwrap(), "text");
    }

    #[test]
    fn a_cancelled_call_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "old").unwrap();
        for questions in 0..3 {
            for path in [&new, &old] {
                testing::cancel_after(questions);
                assert_eq!(write(path, "text").unwrap_err(), Error::Cancelled, "{questions}");
            }
        }
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    }
}
