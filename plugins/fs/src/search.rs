//! The `search` tool.

use crate::paths::Target;
use crate::skipped::Skipped;
use crate::text::{count, shown};
use crate::walk::{self, HERE, joined};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, FileMatches, SearchOptions, SearchResult, WalkOptions};
use std::path::Path;

/// Default number of matching lines to show, and its maximum.
const LINES: u32 = 200;
const MOST_LINES: u32 = 2_000;
/// Maximum number of files and matching lines to examine for the outputs `files` and `counts`.
const COUNTED: u32 = 100_000;
/// Maximum number of files to show for the outputs `files` and `counts`.
const FILES: usize = 500;
/// Maximum bytes of a line; the host cuts the rest.
const LINE_BYTES: u32 = 500;
/// Maximum bytes of one result.
const BYTES: usize = 50 * 1024;
const MOST_CONTEXT: u32 = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust syntax).
    pattern: String,
    /// Treat the pattern as plain text.
    literal: Option<bool>,
    /// Directory or file; default: the workspace.
    path: Option<String>,
    /// Only matching files, such as *.rs or !*.min.js.
    glob: Option<String>,
    /// Only files of a type: rust, py, js, ...
    #[serde(rename = "type")]
    kind: Option<String>,
    ignore_case: Option<bool>,
    /// Lines around each match; maximum 20.
    context: Option<u32>,
    /// Let a match span lines.
    multiline: Option<bool>,
    /// Include what is skipped, but no binary files.
    ignored: Option<bool>,
    /// Default lines; or only matching files, or a count per file.
    output: Option<Mode>,
    /// Matching lines to show; default 200, maximum 2000.
    #[schemars(range(min = 1))]
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Lines,
    Files,
    Count,
}

impl Arguments {
    fn root(&self) -> &str {
        self.path.as_deref().unwrap_or(HERE)
    }

    fn mode(&self) -> Mode {
        self.output.unwrap_or(Mode::Lines)
    }
}

pub(crate) fn tool() -> Tool {
    let description = "Searches file contents. Groups results by file; `12:` marks a matching line, `12-` a context \
                       line. Skips binary files, what .gitignore excludes, node_modules and build output.";
    Tool::new("search", description, search).reads()
}

fn search(arguments: Arguments, call: &Call) -> Result<Output> {
    let target = Target::new(arguments.root(), call)?;
    target.metadata()?;
    if arguments.pattern.is_empty() {
        return Err(Error::invalid_input("the pattern is empty"));
    }
    call.check()?;
    let named = [arguments.root()].into_iter().chain(arguments.glob.as_deref());
    let mut skipped = Skipped::unless_named(named).with_ignored(arguments.ignored);
    let (files, what) = (files(&target.path, &arguments, &skipped), what(&arguments));
    let search = |files: &WalkOptions| {
        call.check()?;
        Ok(workspace::search(files, &what)?)
    };
    let paths = |result: &SearchResult| result.files.iter().map(|file| file.path.clone()).collect();
    let result = skipped.look(&target.path, &files, search, paths)?;
    call.check()?;
    Ok(output(&arguments, &result, &skipped))
}

fn files(root: &Path, arguments: &Arguments, skipped: &Skipped) -> WalkOptions {
    let options = walk::filtered(root, arguments.glob.as_deref(), arguments.ignored, skipped, COUNTED);
    WalkOptions { types: arguments.kind.iter().cloned().collect(), ..options }
}

fn what(arguments: &Arguments) -> SearchOptions {
    let limit = arguments.limit.unwrap_or(LINES).clamp(1, MOST_LINES);
    // Lines that are not shown need not cross the boundary.
    let (max_matches, max_matches_per_file, max_line_bytes) = match arguments.mode() {
        Mode::Lines => (limit, limit, LINE_BYTES),
        Mode::Files => (COUNTED, 1, 1),
        Mode::Count => (COUNTED, COUNTED, 1),
    };
    let context = if arguments.mode() == Mode::Lines { arguments.context.unwrap_or_default() } else { 0 };
    SearchOptions {
        pattern: arguments.pattern.clone(),
        regex: !arguments.literal.unwrap_or_default(),
        case_sensitive: !arguments.ignore_case.unwrap_or_default(),
        multiline: arguments.multiline.unwrap_or_default(),
        before: context.min(MOST_CONTEXT),
        after: context.min(MOST_CONTEXT),
        max_matches,
        max_matches_per_file,
        max_line_bytes,
    }
}

fn output(arguments: &Arguments, result: &SearchResult, skipped: &Skipped) -> Output {
    let root = arguments.root();
    let shown = match arguments.mode() {
        _ if result.files.is_empty() => Shown { text: nothing(arguments, result), left_out: None },
        Mode::Lines => grouped(root, &result.files),
        Mode::Files => listed(&result.files, |file| shown(&joined(root, &file.path)).into_owned()),
        Mode::Count => listed(&result.files, |file| format!("{}: {}", shown(&joined(root, &file.path)), file.matches)),
    };
    let mut text = shown.text;
    let mut notes: Vec<String> = shown.left_out.clone().into_iter().collect();
    if result.truncated {
        notes.push(format!("stopped after {}", count(result.matches.into(), "match")));
    }
    if !notes.is_empty() {
        text.push_str(&format!("\n[{}; narrow with path, glob, type or a longer pattern]", notes.join("; ")));
    }
    if let Some(note) = skipped.note() {
        text.push_str(&format!("\n{note}"));
    }
    let details = json!({
        "path": root,
        "files": result.files.len(),
        "matches": result.matches,
        "searched": result.searched,
        "truncated": result.truncated || shown.left_out.is_some(),
    });
    Output::text(text).details(details)
}

struct Shown {
    text: String,
    /// Description of the omitted parts.
    left_out: Option<String>,
}

fn nothing(arguments: &Arguments, result: &SearchResult) -> String {
    let kind = if arguments.literal.unwrap_or_default() { "text" } else { "expression" };
    format!("no match for the {kind} `{}` in {}", arguments.pattern, count(result.searched.into(), "file"))
}

fn listed(files: &[FileMatches], line: impl Fn(&FileMatches) -> String) -> Shown {
    let text = files.iter().take(FILES).map(line).collect::<Vec<_>>().join("\n");
    let left_out = (files.len() > FILES).then(|| format!("{FILES} of {} shown", count(files.len() as u64, "file")));
    Shown { text, left_out }
}

/// Formats each file as its path and its lines; `--` marks a gap, as in grep.
fn grouped(root: &str, files: &[FileMatches]) -> Shown {
    let mut text = String::new();
    let mut matches = 0;
    for file in files {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}{}\n", shown(&joined(root, &file.path))));
        for (line, before) in file.lines.iter().zip(befores(file)) {
            let mark = if line.is_match { ':' } else { '-' };
            let written = format!("{before}{}{mark} {}\n", line.number, line.text);
            if text.len() + written.len() > BYTES {
                let all: u32 = files.iter().map(|file| file.matches).sum();
                let left_out = format!("cut at {} KB, after {matches} of {}", BYTES / 1024, count(all.into(), "match"));
                return Shown { text: text.trim_end().to_owned(), left_out: Some(left_out) };
            }
            text.push_str(&written);
            matches += u32::from(line.is_match);
        }
    }
    Shown { text: text.trim_end_matches('\n').to_owned(), left_out: None }
}

/// Returns the prefix of each line: a gap marker or nothing.
fn befores(file: &FileMatches) -> impl Iterator<Item = &'static str> {
    let has_context = file.lines.iter().any(|line| !line.is_match);
    let mut last = None;
    file.lines.iter().map(move |line| {
        let gap = last.is_some_and(|last: u32| line.number > last.saturating_add(1));
        last = Some(line.number);
        if has_context && gap { "--\n" } else { "" }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{self, Reply};
    use pinion_plugin_sdk::workspace::Line;

    fn arguments(json: Value) -> Arguments {
        pinion_plugin_sdk::serde_json::from_value(json).unwrap()
    }

    fn line(number: u32, text: &str, is_match: bool) -> Line {
        Line { number, text: text.to_owned(), is_match }
    }

    fn file(path: &str, lines: Vec<Line>) -> FileMatches {
        let matches = lines.iter().filter(|line| line.is_match).count() as u32;
        FileMatches { path: path.to_owned(), lines, matches }
    }

    fn result(files: Vec<FileMatches>) -> SearchResult {
        let matches = files.iter().map(|file| file.matches).sum();
        SearchResult { files, matches, searched: 7, truncated: false }
    }

    fn two_files() -> SearchResult {
        let a = vec![line(1, "x", true), line(2, "near", false), line(9, "x y", true)];
        result(vec![file("a.rs", a), file("b.rs", vec![line(3, "x", true), line(5, "x", true)])])
    }

    fn shown_as(arguments: &Arguments, result: &SearchResult) -> Reply {
        Reply::from(output(arguments, result, &Skipped::default()))
    }

    #[test]
    fn matches_are_grouped_by_file_with_context() {
        let reply = shown_as(&arguments(json!({ "pattern": "x", "path": "src" })), &two_files());
        assert_eq!(reply.text, "src/a.rs\n1: x\n2- near\n--\n9: x y\n\nsrc/b.rs\n3: x\n5: x");
        let expected = json!({ "path": "src", "files": 2, "matches": 4, "searched": 7, "truncated": false });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn output_mode_selects_files_or_counts() {
        let files = shown_as(&arguments(json!({ "pattern": "x", "output": "files" })), &two_files());
        assert_eq!(files.text, "a.rs\nb.rs");
        let counts = shown_as(&arguments(json!({ "pattern": "x", "output": "count" })), &two_files());
        assert_eq!(counts.text, "a.rs: 2\nb.rs: 2");
    }

    #[test]
    fn search_in_one_file_names_it() {
        let found = result(vec![file("", vec![line(1, "x", true)])]);
        let reply = shown_as(&arguments(json!({ "pattern": "x", "path": "a/b.rs" })), &found);
        assert_eq!(reply.text, "a/b.rs\n1: x");
    }

    #[test]
    fn empty_result_says_what_was_searched() {
        let reply = shown_as(&arguments(json!({ "pattern": "x+" })), &result(Vec::new()));
        assert_eq!(reply.text, "no match for the expression `x+` in 7 files");
    }

    #[test]
    fn early_stop_is_reported() {
        let found = SearchResult { truncated: true, ..two_files() };
        let reply = shown_as(&arguments(json!({ "pattern": "x" })), &found);
        assert!(reply.text.ends_with("\n[stopped after 4 matches; narrow with path, glob, type or a longer pattern]"));
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn output_is_bounded() {
        let long = "x".repeat(400);
        let files = (0..50).map(|i| file(&format!("{i}"), (1..100).map(|n| line(n, &long, true)).collect())).collect();
        let reply = shown_as(&arguments(json!({ "pattern": "x" })), &result(files));
        assert!(reply.text.len() <= BYTES + 200);
        assert!(
            reply.text.contains("\n[cut at 50 KB, after 126 of 4950 matches; narrow"),
            "{}",
            &reply.text[BYTES - 200..]
        );
    }

    #[test]
    fn omitted_files_are_counted() {
        let files = (0..600).map(|i| file(&format!("{i}"), vec![line(1, "", true)])).collect();
        let reply = shown_as(&arguments(json!({ "pattern": "x", "output": "files" })), &result(files));
        assert!(reply.text.contains("\n[500 of 600 files shown; narrow"), "{}", reply.text);
    }

    #[test]
    fn arguments_become_search_options() {
        let arguments = arguments(json!({
            "pattern": "a.b", "literal": true, "path": "src", "glob": "*.rs", "type": "rust", "ignore_case": true,
            "context": 3, "multiline": true, "ignored": true, "limit": 9_000,
        }));
        let (files, what) = (files(Path::new("/ws/src"), &arguments, &Skipped::unless_named([])), what(&arguments));
        assert_eq!((files.root.as_str(), files.ignore_files), ("/ws/src", false));
        assert_eq!((files.globs, files.types), (vec!["*.rs".to_owned(), "!.git".to_owned()], vec!["rust".to_owned()]));
        assert_eq!((what.regex, what.case_sensitive, what.multiline), (false, false, true));
        assert_eq!((what.before, what.after, what.max_matches), (3, 3, MOST_LINES));
    }

    #[test]
    fn missing_path_and_empty_pattern_are_rejected() {
        let search = |arguments| testing::call_tool::<crate::Files>("search", arguments).unwrap_err();
        let directory = tempfile::tempdir().unwrap();
        let missing = search(json!({ "pattern": "x", "path": directory.path().join("none") }));
        assert!(matches!(missing, Error::NotFound(_)));
        let empty = search(json!({ "pattern": "", "path": directory.path() }));
        assert_eq!(empty, Error::InvalidInput("the pattern is empty".into()));
    }
}
