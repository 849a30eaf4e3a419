//! The `write` tool.

use crate::paths::Target;
use crate::store;
use crate::text::{count, lines_in, size};
use pinion_plugin_sdk::prelude::*;
use std::fs;
use std::io::ErrorKind;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or absolute.
    path: String,
    /// The complete content.
    content: String,
}

pub(crate) fn tool() -> Tool {
    let description =
        "Creates or overwrites a file and creates missing parent directories. To change part of a file, use edit.";
    Tool::new("write", description, write).writes().destructive().sequential()
}

fn write(arguments: Arguments, call: &Call) -> Result<Output> {
    let target = Target::new(&arguments.path, call)?;
    let old_bytes = old_bytes(&target)?;
    call.check()?;
    store::replace(&target, arguments.content.as_bytes(), None)?;
    let (name, bytes, lines) = (target.name, arguments.content.len() as u64, lines_in(&arguments.content));
    let done = if old_bytes.is_some() { "overwrote" } else { "created" };
    let was = old_bytes.map(|bytes| format!("; previously {}", size(bytes))).unwrap_or_default();
    let text = format!("{done} {name} ({}, {}{was})", count(lines, "line"), size(bytes));
    let details =
        json!({ "path": name, "created": old_bytes.is_none(), "bytes": bytes, "lines": lines, "old_bytes": old_bytes });
    Ok(Output::text(text).details(details))
}

/// Returns the size of the existing file, or `None` if there is none or only a dangling link.
fn old_bytes(target: &Target<'_>) -> Result<Option<u64>> {
    match fs::metadata(&target.path) {
        Ok(old) => {
            target.require_file(&old, "overwritten")?;
            Ok(Some(old.len()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match target.name.ends_with('/') {
            true => Err(Error::invalid_input(format!("`{}` names a directory, not a file", target.name))),
            false => Ok(None),
        },
        Err(error) => Err(target.failure("write", &error)),
    }
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
    fn new_file_is_created_with_parent_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c.txt");
        let reply = write(&path, "one\ntwo").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo");
        assert_eq!(reply.text, format!("created {} (2 lines, 7 bytes)", path.display()));
        let expected = json!({ "path": path, "created": true, "bytes": 7, "lines": 2, "old_bytes": null });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn overwriting_reports_the_previous_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        fs::write(&path, "long old content").unwrap();
        let reply = write(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert!(reply.text.ends_with("(1 line, 4 bytes; previously 16 bytes)"), "{}", reply.text);
    }

    #[test]
    fn directory_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        assert!(
            matches!(write(directory.path(), ""), Err(Error::InvalidInput(text)) if text.contains("is a directory"))
        );
        let path = format!("{}/new/", directory.path().display());
        assert!(matches!(write(Path::new(&path), ""), Err(Error::InvalidInput(_))));
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn path_through_a_file_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        let Err(Error::NotFound(text)) = write(&directory.path().join("a/b"), "") else { panic!() };
        assert!(text.contains("is a file, not a directory"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn write_through_a_dangling_link_creates_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        write(&link, "text").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(directory.path().join("target")).unwrap(), "text");
    }

    #[test]
    fn cancelled_call_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (new, old) = (directory.path().join("new"), directory.path().join("old"));
        fs::write(&old, "old").unwrap();
        for questions in 0..2 {
            for path in [&new, &old] {
                testing::cancel_after(questions);
                assert_eq!(write(path, "text").unwrap_err(), Error::Cancelled, "{questions}");
            }
        }
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    }
}
