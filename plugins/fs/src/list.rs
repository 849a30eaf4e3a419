//! The `list` tool.

use crate::paths::Target;
use crate::skipped::Skipped;
use crate::text::{count, shown, size};
use crate::tree::{Bounds, Tree};
use crate::walk::{self, HERE};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, Entry, Kind, WalkOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of entries to show.
const SHOWN: usize = 200;
/// Maximum number of entries to count.
const COUNTED: u32 = 10_000;
/// The time after which a list is returned as far as it got. Checked between directories.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let description = "Lists a directory: subdirectories with a trailing slash, files with their size. At most 200 entries. \
                       Leaves out .git, node_modules and build output in target.";
    Tool::new("list", description, list).reads()
}

fn list(arguments: Arguments, call: &Call) -> Result<Output> {
    let begun = Instant::now();
    let root = arguments.path.as_deref().unwrap_or(HERE);
    let target = Target::new(root, call)?;
    target.require_directory()?;
    let bounds = Bounds { depth: arguments.depth.unwrap_or(1).max(1), entries: COUNTED as usize };
    let mut skipped = Skipped::unless_named([root]);
    // Where ignore files count, the host leaves it out before anyone sees it.
    if bounds.depth > 1 && target.path.join(".git").exists() {
        skipped.skip(&target.path, ".git", ".git");
    }
    let list = |directory: &Path| {
        call.check()?;
        Ok(workspace::walk(&options(directory, bounds.depth))?)
    };
    let tree = Tree::collect(&target.path, &bounds, &mut skipped, list, || begun.elapsed() >= PATIENCE)?;
    call.check()?;
    Ok(output(root, &tree, &skipped))
}

/// Returns the options to list one directory of a list with `depth` levels.
fn options(directory: &Path, depth: u32) -> WalkOptions {
    WalkOptions { max_depth: Some(1), ignore_files: depth > 1, ..walk::all(directory, COUNTED) }
}

fn output(root: &str, tree: &Tree, skipped: &Skipped) -> Output {
    let entries = &tree.entries;
    let mut lines: Vec<String> = entries.iter().take(SHOWN).map(line).collect();
    let note = skipped.note();
    if entries.is_empty() && note.is_none() && !tree.is_late {
        lines.push(format!("{root} is empty"));
    }
    let is_cut = entries.len() > SHOWN || tree.is_cut;
    if is_cut {
        let more = if tree.is_cut || tree.is_late { "more than " } else { "" };
        let all = count(entries.len() as u64, "entry");
        lines.push(format!("[{SHOWN} of {more}{all}; list a subdirectory, or use find with a pattern]"));
    }
    if tree.is_late {
        let seconds = PATIENCE.as_secs();
        lines.push(format!(
            "[incomplete after {seconds} s; list a subdirectory, or less depth, or use find with a pattern]"
        ));
    }
    lines.extend(note);
    let is_truncated = is_cut || tree.is_late;
    let details =
        json!({ "path": root, "total": entries.len(), "shown": entries.len().min(SHOWN), "truncated": is_truncated });
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

    fn shown_as(root: &str, tree: Tree) -> Reply {
        Reply::from(output(root, &tree, &Skipped::default()))
    }

    #[test]
    fn entries_show_what_they_are() {
        let entries = vec![
            entry("src", Kind::Directory, 0),
            entry("a.rs", Kind::File, 2048),
            entry("link", Kind::Symlink, 0),
            entry("pipe", Kind::Other, 0),
        ];
        let reply = shown_as(".", Tree { entries, ..Tree::default() });
        assert_eq!(reply.text, "src/\na.rs  2.0 KB\nlink  (symbolic link)\npipe  (pipe, socket or device)");
        assert_eq!(reply.details, json!({ "path": ".", "total": 4, "shown": 4, "truncated": false }));
    }

    #[test]
    fn omitted_entries_are_counted() {
        let many = |number| (0..number).map(|i| entry(&i.to_string(), Kind::Symlink, 0)).collect::<Vec<_>>();
        let reply = shown_as(".", Tree { entries: many(201), ..Tree::default() });
        assert!(reply.text.ends_with("\n[200 of 201 entries; list a subdirectory, or use find with a pattern]"));
        assert_eq!(reply.text.lines().count(), 201);
        let reply = shown_as(".", Tree { entries: many(300), is_cut: true, ..Tree::default() });
        assert!(reply.text.contains("[200 of more than 300 entries;"));
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn empty_directory_is_reported() {
        assert_eq!(shown_as("src", Tree::default()).text, "src is empty");
    }

    #[test]
    fn late_list_shows_what_it_found() {
        let entries = vec![entry("a", Kind::Symlink, 0)];
        let reply = shown_as(".", Tree { entries, is_late: true, ..Tree::default() });
        let note = "[incomplete after 10 s; list a subdirectory, or less depth, or use find with a pattern]";
        assert_eq!(reply.text, format!("a  (symbolic link)\n{note}"));
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn directories_that_were_left_out_are_named() {
        let mut skipped = Skipped::unless_named([]);
        skipped.skip(Path::new(""), "node_modules", "node_modules");
        let reply = Reply::from(output(".", &Tree::default(), &skipped));
        assert_eq!(reply.text, "[left out: node_modules/; name one in the path to see it]");
    }

    #[test]
    fn ignored_files_are_skipped_beyond_one_level() {
        let (flat, deep) = (options(Path::new("src"), 1), options(Path::new("src"), 3));
        assert_eq!((flat.max_depth, flat.ignore_files, flat.globs.len()), (Some(1), false, 0));
        assert_eq!((deep.max_depth, deep.ignore_files, deep.globs.len()), (Some(1), true, 0));
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
