//! The tool `write`.

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
    let old_bytes = old_bytes(&target)?;
    call.check()?;
    store::replace(&target, arguments.content.as_bytes())?;
    let (name, bytes, lines) = (target.name, arguments.content.len() as u64, lines_in(&arguments.content));
    let done = if old_bytes.is_some() { "overwrote" } else { "created" };
    let was = old_bytes.map(|bytes| format!("; it was {}", size(bytes))).unwrap_or_default();
    let text = format!("{done} {name} ({}, {}{was})", count(lines, "line"), size(bytes));
    let details =
        json!({ "path": name, "created": old_bytes.is_none(), "bytes": bytes, "lines": lines, "old_bytes": old_bytes });
    Ok(Output::text(text).details(details))
}

/// None where nothing is there, or only a link to nothing.
fn old_bytes(target: &Target<'_>) -> Result<Option<u64>> {
    match fs::metadata(&target.path) {
        Ok(old) => {
            target.require_file(&old, "overwritten")?;
            Ok(Some(old.len()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match target.name.ends_with('/') {
            true => Err(Error::invalid_arguments(format!("`{}` names a folder, not a file", target.name))),
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
