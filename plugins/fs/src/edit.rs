//! The `edit` tool.

use crate::diff::Diff;
use crate::nearest::nearest_lines;
use crate::paths::Target;
use crate::replace::{self, Problem, Replaced};
use crate::store;
use crate::text::{count, lines_in, size};
use pinion_plugin_sdk::prelude::*;
use std::fs;

/// Size limit of an editable file in bytes.
const FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum size of the returned diff in bytes.
const DIFF_BYTES: usize = 16 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or absolute.
    path: String,
    /// All match the original file and must not overlap.
    #[schemars(length(min = 1))]
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// Exact text in the file, without line numbers, long enough to be unique.
    old_text: String,
    new_text: String,
    /// Replace every occurrence.
    replace_all: Option<bool>,
}

pub(crate) fn tool() -> Tool {
    let description = "Replaces exact text in a file and returns a diff. Applies all edits or none. Whitespace must \
                       match; the file's line endings are kept.";
    Tool::new("edit", description, edit)
        .writes()
        .sequential()
        .guideline("Make all changes to one file in one edit call.")
}

fn edit(arguments: Arguments, call: &Call) -> Result<Output> {
    if arguments.edits.is_empty() {
        return Err(Error::invalid_input("edits is empty"));
    }
    let target = Target::new(&arguments.path, call)?;
    let old = content(&target, call)?;
    let replaced = apply(&target, &old, &arguments.edits)?;
    call.check()?;
    store::replace(&target, replaced.content.as_bytes(), Some(old.as_bytes()))?;
    Ok(output(target.name, &old, &replaced, arguments.edits.len()))
}

fn content(target: &Target<'_>, call: &Call) -> Result<String> {
    let (name, bytes) = (target.name, target.regular_file("edited")?.len());
    if bytes > FILE_BYTES {
        let (found, most) = (size(bytes), size(FILE_BYTES));
        return Err(Error::failed(format!("`{name}` is {found}, over the edit limit of {most}")));
    }
    call.check()?;
    let bytes = fs::read(&target.path).map_err(|e| target.failure("read", &e))?;
    String::from_utf8(bytes).map_err(|e| {
        let line = memchr::memchr_iter(b'\n', &e.as_bytes()[..e.utf8_error().valid_up_to()]).count() + 1;
        Error::failed(format!("`{name}` is not UTF-8 (line {line}); an edit could damage it"))
    })
}

fn apply(target: &Target<'_>, content: &str, edits: &[Edit]) -> Result<Replaced> {
    let borrowed: Vec<replace::Edit<'_>> = edits
        .iter()
        .map(|edit| replace::Edit { old: &edit.old_text, new: &edit.new_text, all: edit.replace_all.unwrap_or(false) })
        .collect();
    replace::replace(content, &borrowed).map_err(|problem| {
        let hint = match problem {
            Problem::NotFound { edit } => nearest_lines(content, &edits[edit].old_text),
            _ => None,
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        Error::invalid_input(format!("cannot edit `{}`: {problem}{hint}", target.name))
    })
}

fn output(name: &str, old: &str, replaced: &Replaced, edits: usize) -> Output {
    let diff = Diff::new(old, &replaced.content);
    let details = json!({
        "path": name,
        "edits": edits,
        "replacements": replaced.places,
        "added": diff.as_ref().map(Diff::added),
        "removed": diff.as_ref().map(Diff::removed),
        "first_changed_line": diff.as_ref().and_then(Diff::first_changed_line),
        "old_lines": lines_in(old),
        "new_lines": lines_in(&replaced.content),
    });
    let output = match diff {
        Some(diff) => Output::text(diff.unified(name, DIFF_BYTES)).diff(),
        None => Output::text(format!(
            "edited {name} in {}; the diff is too large to show",
            count(replaced.places as u64, "place")
        )),
    };
    output.details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{self, Reply};
    use std::path::{Path, PathBuf};

    fn edit(path: &Path, edits: Value) -> Result<Reply> {
        testing::call_tool::<crate::Files>("edit", json!({ "path": path, "edits": edits }))
    }

    fn file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.txt");
        fs::write(&path, content).unwrap();
        (directory, path)
    }

    fn message(result: Result<Reply>) -> String {
        let Err(Error::InvalidInput(text) | Error::Failed { message: text, .. }) = result else { panic!() };
        text
    }

    #[test]
    fn several_edits_produce_one_diff() {
        let (_directory, path) = file("one\r\ntwo\r\nthree\r\n");
        let edits = json!([{ "old_text": "three", "new_text": "3" }, { "old_text": "one\n", "new_text": "1\n" }]);
        let reply = edit(&path, edits).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\r\ntwo\r\n3\r\n");
        let hunk = "@@ -1,3 +1,3 @@\n-one\r\n+1\r\n two\r\n-three\r\n+3\r\n";
        assert_eq!(reply.text, format!("--- {0}\n+++ {0}\n{hunk}", path.display()));
        let expected = json!({
            "path": path, "edits": 2, "replacements": 2, "added": 2, "removed": 2, "first_changed_line": 1,
            "old_lines": 3, "new_lines": 3,
        });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn missing_text_reports_nearest_lines_and_changes_nothing() {
        let (_directory, path) = file("fn main() {\n    run();\n}\n");
        let edits = json!([
            { "old_text": "fn main", "new_text": "fn start" },
            { "old_text": "fn main() {\n  run();", "new_text": "x" },
        ]);
        let expected = "edits[1]: old_text not found; same except for whitespace at lines 1 to 2:\n     1\tfn main() {";
        let text = message(edit(&path, edits));
        assert!(text.contains(expected), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "fn main() {\n    run();\n}\n");
    }

    #[test]
    fn non_utf8_file_is_rejected() {
        let (_directory, path) = file(b"a\ncaf\xe9 x\n");
        let text = message(edit(&path, json!([{ "old_text": "x", "new_text": "y" }])));
        assert!(text.ends_with("is not UTF-8 (line 2); an edit could damage it"), "{text}");
    }

    #[test]
    fn empty_edits_missing_file_and_directory_are_rejected() {
        let (directory, path) = file("a");
        assert_eq!(message(edit(&path, json!([]))), "edits is empty");
        let some = json!([{ "old_text": "x", "new_text": "y" }]);
        assert!(matches!(edit(&directory.path().join("none"), some.clone()), Err(Error::NotFound(_))));
        assert!(message(edit(directory.path(), some)).contains("is a directory"));
    }

    #[test]
    fn cancelled_call_changes_nothing() {
        let (_directory, path) = file("x");
        for questions in 0..3 {
            testing::cancel_after(questions);
            let result = edit(&path, json!([{ "old_text": "x", "new_text": "y" }]));
            assert_eq!(result.unwrap_err(), Error::Cancelled, "{questions}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    }
}
