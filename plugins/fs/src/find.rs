//! The `find` tool.

use crate::paths::Target;
use crate::skipped::Skipped;
use crate::text::{count, shown};
use crate::walk::{self, HERE, joined};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, Entry, Kind, WalkOptions, WalkResult};
use std::path::Path;

/// Default number of paths to show, and its maximum.
const SHOWN: usize = 200;
const MOST_SHOWN: usize = 2_000;
/// Maximum number of paths to count.
const COUNTED: u32 = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Glob as in .gitignore: *.rs at any depth, src/**/*.ts, !*.min.js to exclude.
    pattern: String,
    /// Directory to search; default: the workspace.
    path: Option<String>,
    #[serde(rename = "type")]
    kind: Option<Wanted>,
    /// Maximum depth; default: unlimited.
    #[schemars(range(min = 1))]
    depth: Option<u32>,
    /// Include what is skipped.
    ignored: Option<bool>,
    /// Paths to show; default 200, maximum 2000.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    File,
    Directory,
    Symlink,
}

pub(crate) fn tool() -> Tool {
    let description = "Finds files and directories by a glob on their path, sorted by path. Skips what .gitignore \
                       excludes, node_modules and build output.";
    Tool::new("find", description, find).reads()
}

fn find(arguments: Arguments, call: &Call) -> Result<Output> {
    let root = arguments.path.as_deref().unwrap_or(HERE);
    let target = Target::new(root, call)?;
    target.require_directory()?;
    if arguments.pattern.trim().is_empty() {
        return Err(Error::invalid_input("the pattern is empty; use `*` to find everything"));
    }
    call.check()?;
    let mut skipped = Skipped::unless_named([root, &arguments.pattern]).with_ignored(arguments.ignored);
    let options = options(&target.path, &arguments, &skipped);
    let walk = |options: &WalkOptions| {
        call.check()?;
        Ok(workspace::walk(options)?)
    };
    let result = skipped.look(&target.path, &options, walk, |result| result.entries.iter().map(path).collect())?;
    Ok(output(root, &arguments, result, &skipped))
}

fn options(root: &Path, arguments: &Arguments, skipped: &Skipped) -> WalkOptions {
    let options = walk::filtered(root, Some(&arguments.pattern), arguments.ignored, skipped, COUNTED);
    WalkOptions { max_depth: arguments.depth, ..options }
}

/// Returns the path of an entry, with a final slash for a directory.
fn path(entry: &Entry) -> String {
    let slash = if entry.kind == Kind::Directory { "/" } else { "" };
    entry.path.clone() + slash
}

fn output(root: &str, arguments: &Arguments, result: WalkResult, skipped: &Skipped) -> Output {
    let WalkResult { mut entries, truncated } = result;
    entries.retain(|entry| arguments.kind.is_none_or(|wanted| is(entry, wanted)));
    let limit = arguments.limit.unwrap_or(SHOWN).clamp(1, MOST_SHOWN);
    let mut lines: Vec<String> = entries.iter().take(limit).map(|entry| line(root, entry)).collect();
    let left_out = truncated || entries.len() > limit;
    if left_out {
        lines.push(omitted(lines.len(), entries.len(), truncated));
    } else if lines.is_empty() {
        lines.push(nothing(root, arguments));
    }
    lines.extend(skipped.note());
    let shown = entries.len().min(limit);
    let details = json!({ "path": root, "total": entries.len(), "shown": shown, "truncated": left_out });
    Output::text(lines.join("\n")).details(details)
}

fn is(entry: &Entry, wanted: Wanted) -> bool {
    match wanted {
        Wanted::File => entry.kind == Kind::File,
        Wanted::Directory => entry.kind == Kind::Directory,
        Wanted::Symlink => entry.kind == Kind::Symlink,
    }
}

fn line(root: &str, entry: &Entry) -> String {
    shown(&joined(root, &path(entry))).into_owned()
}

fn omitted(shown: usize, total: usize, truncated: bool) -> String {
    let more = if truncated { "more than " } else { "" };
    format!("[{shown} of {more}{}; narrow with path, depth or a longer pattern]", count(total as u64, "match"))
}

fn nothing(root: &str, arguments: &Arguments) -> String {
    let place = if root == HERE { "the workspace" } else { root };
    let ignored = if arguments.ignored.unwrap_or_default() { "" } else { "; ignored=true includes what is skipped" };
    format!("nothing in {place} matches `{}`{ignored}", arguments.pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::Reply;

    fn arguments(json: Value) -> Arguments {
        pinion_plugin_sdk::serde_json::from_value(json).unwrap()
    }

    fn found(paths: &[(&str, Kind)], truncated: bool) -> WalkResult {
        let entry = |&(path, kind): &(&str, Kind)| Entry { path: path.into(), kind, size: 0, modified_ms: 0 };
        WalkResult { entries: paths.iter().map(entry).collect(), truncated }
    }

    fn shown_as(root: &str, arguments: &Arguments, result: WalkResult) -> Reply {
        Reply::from(output(root, arguments, result, &Skipped::default()))
    }

    #[test]
    fn read_accepts_the_returned_paths() {
        let result = found(&[("a/b.rs", Kind::File), ("a/c", Kind::Directory)], false);
        let reply = shown_as("src", &arguments(json!({ "pattern": "*" })), result);
        assert_eq!(reply.text, "src/a/b.rs\nsrc/a/c/");
        assert_eq!(reply.details, json!({ "path": "src", "total": 2, "shown": 2, "truncated": false }));
    }

    #[test]
    fn other_types_are_left_out() {
        let result = found(&[("a", Kind::File), ("b", Kind::Directory), ("c", Kind::Symlink)], false);
        let arguments = arguments(json!({ "pattern": "*", "type": "directory" }));
        assert_eq!(shown_as(".", &arguments, result).text, "b/");
    }

    #[test]
    fn paths_beyond_the_limit_are_counted() {
        let arguments = arguments(json!({ "pattern": "*", "limit": 1 }));
        let paths = [("a", Kind::File), ("b", Kind::File)];
        let reply = shown_as(".", &arguments, found(&paths, false));
        assert_eq!(reply.text, "a\n[1 of 2 matches; narrow with path, depth or a longer pattern]");
        let reply = shown_as(".", &arguments, found(&paths, true));
        assert!(reply.text.contains("[1 of more than 2 matches;"), "{}", reply.text);
    }

    #[test]
    fn empty_result_suggests_ignored_files() {
        let reply = shown_as(".", &arguments(json!({ "pattern": "*.x" })), found(&[], false));
        assert!(reply.text.starts_with("nothing in the workspace matches `*.x`; ignored=true"), "{}", reply.text);
        let all = arguments(json!({ "pattern": "*.x", "ignored": true }));
        assert_eq!(shown_as("a", &all, found(&[], false)).text, "nothing in a matches `*.x`");
    }

    #[test]
    fn arguments_become_walk_options() {
        let arguments = arguments(json!({ "pattern": "*.rs", "depth": 2, "ignored": true }));
        let options = options(Path::new("/src"), &arguments, &Skipped::unless_named([]));
        assert_eq!((options.root.as_str(), options.max_depth, options.ignore_files), ("/src", Some(2), false));
        assert_eq!(options.globs, ["*.rs", "!.git"]);
    }
}
