//! Writing a file under a temporary name, which becomes its name: one crate does it for all.

use super::sources::{crates, files, is_test_file, relative};
use std::collections::BTreeSet;
use std::fs;

/// Calls that give a file a name, and types of files that wait for one.
const NAMING: &[&str] = &[
    "fs::rename(",
    "fs::hard_link(",
    "renameat",
    "linkat(",
    ".persist(",
    ".persist_noclobber(",
    "NamedTempFile",
    "tempfile_in(",
];

/// Calls on an open directory that do the same, in files that use `cap_std` or `cap_primitives`.
const NAMING_IN_DIRECTORY: &[&str] = &[".rename(", ".hard_link(", "::rename(", "::hard_link("];

/// Files of other crates with such calls, and the reason.
const RENAMES: &[(&str, &str)] = &[
    ("host/app/src/approve/audit.rs", "moves the full log aside"),
    (
        "host/checkpoints/src/path_restoration.rs",
        "restores files, links and directories, and swaps them back if they differ",
    ),
    ("host/local-models/src/store.rs", "names a model of many GB, whose part stays for a later attempt"),
    ("host/sandbox/src/linux/places.rs", "moves a place of the sandbox aside"),
    ("host/sandbox/src/protection/place.rs", "moves aside files that a program put into a protected place"),
];

/// Returns the lines of a source that give files their names.
fn naming_lines(text: &str) -> Vec<&str> {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let has_directories = text.contains("cap_std") || text.contains("cap_primitives");
    let has = |line: &str, call: &str| {
        line.match_indices(call).any(|(at, _)| {
            // Another function, such as `unlinkat`, may end with the same letters.
            let is_word_before = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            !is_word_before || call.starts_with(['.', ':'])
        })
    };
    let names = |line: &str| {
        let in_directory = has_directories && NAMING_IN_DIRECTORY.iter().any(|call| has(line, call));
        let is_code = !line.starts_with("//") && !line.starts_with("use ");
        is_code && (in_directory || NAMING.iter().any(|call| has(line, call)))
    };
    text.lines().map(str::trim).filter(|line| names(line)).collect()
}

#[test]
fn files_get_their_names_in_one_crate() {
    let mut found = Vec::new();
    let mut unused: BTreeSet<&str> = RENAMES.iter().map(|(file, _)| *file).collect();
    let sources = crates().into_iter().filter(|path| !path.ends_with("files")).flat_map(|path| files(&path, &["rs"]));
    for path in sources.filter(|path| relative(path).contains("/src/") && !is_test_file(path)) {
        let text = fs::read_to_string(&path).unwrap();
        let (name, lines) = (relative(&path), naming_lines(&text));
        match RENAMES.iter().find(|(file, _)| name.starts_with(file)) {
            Some((file, _)) if !lines.is_empty() => drop(unused.remove(file)),
            Some(_) => {}
            None => found.extend(lines.into_iter().map(|line| format!("{name}: {line}"))),
        }
    }
    assert!(found.is_empty(), "write with `pinion_files`, or add a reason to `RENAMES`: {found:#?}");
    assert!(unused.is_empty(), "no longer needed in `RENAMES`: {unused:?}");
}

#[test]
fn calls_that_name_files_are_found() {
    for naming in
        ["std::fs::rename(&new, &path)?;", "file.persist(path)?;", "use cap_std::fs::Dir;\ndir.rename(a, b, c);"]
    {
        assert_eq!(naming_lines(naming).len(), 1, "{naming}");
    }
    for other in [
        "sessions.rename(&path, name)",
        "symlinkat(target, at, name)",
        "unlinkat(at, name)",
        "// fs::rename(",
        "fn f() {}\nmod tests {\nfs::rename(",
    ] {
        assert!(naming_lines(other).is_empty(), "{other}");
    }
}
