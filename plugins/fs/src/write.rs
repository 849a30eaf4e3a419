//! The `write` tool.

use crate::overwrite::{Overwrite, overwrite};
use crate::paths::Target;
use crate::store;
use crate::text::{count, lines_in, size};
use pinion_plugin_sdk::prelude::*;
use std::fs;
use std::io::ErrorKind;

/// Maximum size of a file whose line endings and encoding are kept, in bytes.
const COMPARED_BYTES: u64 = 10 * 1024 * 1024;

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
    let Overwrite { content, notes } = match old_bytes {
        Some(1..=COMPARED_BYTES) => {
            let old = fs::read(&target.path).map_err(|e| target.failure("read", &e))?;
            let refused = |why| Error::failed(format!("`{}` was not overwritten: {why}", target.name));
            overwrite(&old, arguments.content).map_err(refused)?
        }
        _ => Overwrite { content: arguments.content, notes: Vec::new() },
    };
    call.check()?;
    store::replace(&target, content.as_bytes(), None)?;
    let (name, bytes, lines) = (target.name, content.len() as u64, lines_in(&content));
    let done = if old_bytes.is_some() { "overwrote" } else { "created" };
    let was = old_bytes.map(|bytes| format!("; previously {}", size(bytes))).unwrap_or_default();
    let mut text = format!("{done} {name} ({}, {}{was})", count(lines, "line"), size(bytes));
    notes.iter().for_each(|note| text.push_str(&format!("; {note}")));
    let mut details =
        json!({ "path": name, "created": old_bytes.is_none(), "bytes": bytes, "lines": lines, "old_bytes": old_bytes });
    if !notes.is_empty() {
        details["notes"] = json!(notes);
    }
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
            false => target.require_plain_name().map(|()| None),
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
    fn line_endings_and_byte_order_mark_are_kept_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("unit.cs");
        fs::write(&path, "\u{feff}a\r\nb\r\n").unwrap();
        let reply = write(&path, "x\ny\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}x\r\ny\r\n");
        let expected = "(2 lines, 9 bytes; previously 9 bytes); kept its byte order mark; kept its CRLF line endings";
        assert!(reply.text.ends_with(expected), "{}", reply.text);
        assert_eq!(reply.details["notes"], json!(["kept its byte order mark", "kept its CRLF line endings"]));
    }

    #[test]
    fn text_in_another_encoding_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("latin.txt");
        fs::write(&path, b"caf\xe9\n").unwrap();
        let Err(Error::Failed { message, .. }) = write(&path, "caf\u{e9}\n") else { panic!() };
        assert!(message.contains("is not UTF-8 (line 1)") && message.contains("iconv"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"caf\xe9\n");
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
