//! The `list` tool.

use crate::paths::Target;
use crate::text::{count, shown, size};
use crate::walk::{self, HERE};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, Entry, Kind, WalkOptions, WalkResult};
use std::path::Path;

/// Maximum number of entries to show.
const SHOWN: usize = 200;
/// Maximum number of entries to count.
const COUNTED: u32 = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory; default: the workspace.
    path: Option<String>,
    /// Maximum depth; default 1. Beyond 1, skips what .gitignore excludes.
    #[schemars(range(min = 1))]
    depth: Option<u32>,
}

pub(crate) fn tool() -> Tool {
    let description =
        "Lists a directory: subdirectories with a trailing slash, files with their size. At most 200 entries.";
    Tool::new("list", description, list).reads()
}

fn list(arguments: Arguments, call: &Call) -> Result<Output> {
    let root = arguments.path.as_deref().unwrap_or(HERE);
    let target = Target::new(root, call)?;
    target.require_directory()?;
    call.check()?;
    let result = workspace::walk(&options(&target.path, arguments.depth.unwrap_or(1).max(1)))?;
    Ok(output(root, &result))
}

fn options(root: &Path, depth: u32) -> WalkOptions {
    let deep = walk::options(root, None, COUNTED);
    if depth > 1 {
        return WalkOptions { max_depth: Some(depth), ..deep };
    }
    WalkOptions { max_depth: Some(1), globs: Vec::new(), ignore_files: false, ..deep }
}

fn output(root: &str, result: &WalkResult) -> Output {
    let entries = &result.entries;
    let mut lines: Vec<String> = entries.iter().take(SHOWN).map(line).collect();
    if entries.is_empty() {
        lines.push(format!("{root} is empty"));
    }
    let left_out = entries.len() > SHOWN || result.truncated;
    if left_out {
        let more = if result.truncated { "more than " } else { "" };
        let all = count(entries.len() as u64, "entry");
        lines.push(format!("[{SHOWN} of {more}{all}; list a subdirectory, or use find with a pattern]"));
    }
    let details =
        json!({ "path": root, "total": entries.len(), "shown": entries.len().min(SHOWN), "truncated": left_out });
    Output::text(lines.join("\n")).details(details)
}

fn line(entry: &Entry) -> String {
    let path = shown(&entry.path);
    match entry.kind {
        Kind::File => format!("{path}  {}", size(entry.size)),
        Kind::Directory => format!("{path}/"),
        Kind::Symlink => format!("{path}  (symbolic link)"),
        Kind::Other => format!("{path}  (pipe, socket or device)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{self, Reply};

    fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        Entry { path: path.to_owned(), kind, size, modified_ms: 0 }
    }

    #[test]
    fn entries_show_what_they_are() {
        let entries = vec![
            entry("src", Kind::Directory, 0),
            entry("a.rs", Kind::File, 2048),
            entry("link", Kind::Symlink, 0),
            entry("pipe", Kind::Other, 0),
        ];
        let reply = Reply::from(output(".", &WalkResult { entries, truncated: false }));
        assert_eq!(reply.text, "src/\na.rs  2.0 KB\nlink  (symbolic link)\npipe  (pipe, socket or device)");
        assert_eq!(reply.details, json!({ "path": ".", "total": 4, "shown": 4, "truncated": false }));
    }

    #[test]
    fn omitted_entries_are_counted() {
        let many = |number| (0..number).map(|i| entry(&i.to_string(), Kind::Symlink, 0)).collect::<Vec<_>>();
        let reply = Reply::from(output(".", &WalkResult { entries: many(201), truncated: false }));
        assert!(reply.text.ends_with("\n[200 of 201 entries; list a subdirectory, or use find with a pattern]"));
        assert_eq!(reply.text.lines().count(), 201);
        let reply = Reply::from(output(".", &WalkResult { entries: many(300), truncated: true }));
        assert!(reply.text.contains("[200 of more than 300 entries;"));
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn empty_directory_is_reported() {
        let reply = Reply::from(output("src", &WalkResult { entries: Vec::new(), truncated: false }));
        assert_eq!(reply.text, "src is empty");
    }

    #[test]
    fn ignored_files_are_skipped_beyond_one_level() {
        let (flat, deep) = (options(Path::new("src"), 1), options(Path::new("src"), 3));
        assert_eq!((flat.max_depth, flat.ignore_files, flat.globs.len()), (Some(1), false, 0));
        assert_eq!((deep.max_depth, deep.ignore_files, deep.globs.len()), (Some(3), true, 1));
    }

    #[test]
    fn missing_directory_and_file_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        let list = |path| testing::call_tool::<crate::Files>("list", json!({ "path": directory.path().join(path) }));
        assert!(matches!(list("none"), Err(Error::NotFound(_))));
        assert!(matches!(list("file"), Err(Error::InvalidInput(text)) if text.contains("is a file")));
    }
}
