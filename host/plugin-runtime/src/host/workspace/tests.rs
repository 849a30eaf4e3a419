//! What a walk finds, by itself and beside what the crate `ignore` finds.

use super::Root;
use super::walk::walk;
use crate::bindings::pinion::plugin::workspace::{Kind, WalkOptions, WorkspaceError};
use crate::calls::deadline::Deadline;
use crate::limits::Limits;
use crate::paths::beneath::{self, AtEnd, Spot};
use cap_std::fs::Dir;
use ignore::WalkBuilder;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A folder with these files, each with this text.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    folder
}

fn place(folder: &Path, relative: &str) -> std::io::Result<Spot> {
    let path = if relative.is_empty() { "." } else { relative };
    beneath::find(&Arc::new(std::fs::File::open(folder)?), Path::new("/"), Path::new(path), AtEnd::Follow)
}

fn root(folder: &Path, relative: &str) -> Root {
    let spot = place(folder, relative).unwrap();
    Root {
        folder: Dir::open_ambient_dir(folder, cap_std::ambient_authority()).unwrap(),
        relative: spot.target().strip_prefix("/").unwrap().to_owned(),
        spot,
        denied: Vec::new(),
        path: relative.to_owned(),
    }
}

fn all() -> WalkOptions {
    WalkOptions {
        root: String::new(),
        globs: Vec::new(),
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit: 10_000,
    }
}

fn deadline() -> Deadline {
    ends_in(600_000)
}

fn ends_in(deadline_ms: u64) -> Deadline {
    Deadline::new(&Limits { deadline_ms, ..Limits::default() }, CancellationToken::new(), None)
}

fn found_in(folder: &Path, relative: &str, options: &WalkOptions) -> Vec<String> {
    let found = walk(&root(folder, relative), options, &deadline()).unwrap();
    assert!(!found.truncated);
    found.entries.into_iter().map(|entry| entry.path).collect()
}

fn found(folder: &TempDir, options: &WalkOptions) -> Vec<String> {
    found_in(folder.path(), "", options)
}

#[test]
fn a_deeper_ignore_file_wins_and_can_take_back() {
    let folder =
        tree(&[(".gitignore", "*.log\n"), ("a.log", ""), ("sub/.gitignore", "!a.log\nb\n"), ("sub/a.log", "")]);
    std::fs::write(folder.path().join("sub/b"), "").unwrap();
    assert_eq!(found(&folder, &all()), [".gitignore", "sub", "sub/.gitignore", "sub/a.log"]);
}

#[test]
fn of_two_in_one_folder_dot_ignore_wins() {
    let folder = tree(&[(".gitignore", "a\n"), (".ignore", "!a\nb\n"), ("a", ""), ("b", "")]);
    assert_eq!(found(&folder, &all()), [".gitignore", ".ignore", "a"]);
}

#[test]
fn an_anchored_pattern_is_for_its_own_folder_and_one_with_a_slash_at_the_end_for_folders() {
    let folder = tree(&[("x/.gitignore", "/a\nb/\n"), ("x/a", ""), ("x/y/a", ""), ("x/b/c", ""), ("x/y/b", "")]);
    assert_eq!(found(&folder, &all()), ["x", "x/.gitignore", "x/y", "x/y/a", "x/y/b"]);
}

#[test]
fn what_is_in_an_ignored_folder_cannot_be_taken_back() {
    let folder = tree(&[(".gitignore", "out/\n!out/keep\n"), ("out/keep", ""), ("out/.gitignore", "!*\n")]);
    assert_eq!(found(&folder, &all()), [".gitignore"]);
}

#[test]
fn ignore_files_above_the_root_count_up_to_the_granted_folder() {
    let folder =
        tree(&[(".gitignore", "/grant/x/b\n"), ("grant/.gitignore", "/x/a\n"), ("grant/x/a", ""), ("grant/x/b", "")]);
    assert_eq!(found_in(&folder.path().join("grant"), "x", &all()), ["b"]);
}

#[test]
fn what_git_keeps_for_itself_is_left_out_and_its_exclude_file_is_respected() {
    let folder = tree(&[(".git/info/exclude", "/private\n"), (".git/HEAD", ""), ("private", ""), ("a/private", "")]);
    assert_eq!(found(&folder, &all()), ["a", "a/private"]);
}

#[test]
fn without_ignore_files_all_is_found_and_hidden_files_only_when_asked_for() {
    let folder = tree(&[(".gitignore", "a\n"), ("a", ""), (".h/b", ""), ("c/.d", "")]);
    let everything = WalkOptions { ignore_files: false, ..all() };
    assert_eq!(found(&folder, &everything), [".gitignore", ".h", ".h/b", "a", "c", "c/.d"]);
    assert_eq!(found(&folder, &WalkOptions { hidden: false, ..everything }), ["a", "c"]);
}

#[test]
fn a_glob_does_not_bring_back_what_is_ignored() {
    let folder = tree(&[(".gitignore", "b.rs\n"), ("a.rs", ""), ("b.rs", ""), ("c.py", ""), ("d/e.rs", "")]);
    let with = |globs: &[&str]| WalkOptions { globs: globs.iter().map(ToString::to_string).collect(), ..all() };
    assert_eq!(found(&folder, &with(&["*.rs"])), ["a.rs", "d/e.rs"]);
    assert_eq!(found(&folder, &with(&["*.rs", "!d"])), ["a.rs"]);
    assert_eq!(found(&folder, &WalkOptions { types: vec!["py".into()], ..all() }), ["c.py", "d"]);
}

#[cfg(unix)]
#[test]
fn links_are_told_and_not_followed() {
    use std::os::unix::fs::symlink;
    let outside = tree(&[("secret/a", ""), ("rules", "*\n")]);
    let folder = tree(&[("b", "")]);
    symlink(outside.path().join("secret"), folder.path().join("out")).unwrap();
    symlink(".", folder.path().join("loop")).unwrap();
    symlink(outside.path().join("rules"), folder.path().join(".gitignore")).unwrap();
    let entries = walk(&root(folder.path(), ""), &all(), &deadline()).unwrap().entries;
    let entries: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    let expected = [(".gitignore", Kind::Symlink), ("b", Kind::File), ("loop", Kind::Symlink), ("out", Kind::Symlink)];
    assert_eq!(entries, expected);
    assert!(place(folder.path(), "out").is_err());
}

#[test]
fn a_walk_goes_as_deep_as_it_is_asked_to_and_never_deeper_than_it_may() {
    let folder = tree(&[("a/b/c", "")]);
    assert_eq!(found(&folder, &WalkOptions { max_depth: Some(2), ..all() }), ["a", "a/b"]);
    std::fs::create_dir_all(folder.path().join("d/".repeat(200))).unwrap();
    let deep = walk(&root(folder.path(), ""), &all(), &deadline()).unwrap();
    assert!(deep.truncated);
    assert_eq!(deep.entries.iter().filter(|entry| entry.path.starts_with('d')).count(), 128);
}

#[test]
fn of_too_many_entries_the_first_by_path_are_told() {
    let folder = TempDir::new().unwrap();
    for n in 0..50 {
        let place = folder.path().join(format!("{:02}", 49 - n));
        std::fs::create_dir(&place).unwrap();
        (0..10).for_each(|file| std::fs::write(place.join(file.to_string()), "").unwrap());
    }
    let whole = found(&folder, &all());
    for limit in [1, 7, 200, 549] {
        let cut = walk(&root(folder.path(), ""), &WalkOptions { limit, ..all() }, &deadline()).unwrap();
        let paths: Vec<_> = cut.entries.iter().map(|entry| &entry.path).collect();
        assert_eq!((paths, cut.truncated), (whole[..limit as usize].iter().collect(), true));
    }
    assert_eq!(found(&folder, &WalkOptions { limit: 550, ..all() }).len(), 550);
}

#[test]
fn one_file_can_be_the_root() {
    let folder = tree(&[("a/b", "12345")]);
    let entry = walk(&root(folder.path(), "a/b"), &all(), &deadline()).unwrap().entries.remove(0);
    assert_eq!((entry.path.as_str(), entry.kind, entry.size), ("", Kind::File, 5));
}

#[test]
fn a_walk_ends_when_the_call_is_cancelled_or_too_late() {
    let folder = tree(&[("a/b", "")]);
    let cancelled = deadline();
    cancelled.token().cancel();
    for deadline in [cancelled, ends_in(0)] {
        for relative in ["", "a/b"] {
            let ended = walk(&root(folder.path(), relative), &all(), &deadline);
            assert!(matches!(ended, Err(WorkspaceError::Cancelled)), "{relative}");
        }
    }
}

/// The paths that the crate `ignore` finds, with the rules that the `workspace` interface promises.
fn found_by_ignore(folder: &Path) -> Vec<String> {
    let mut builder = WalkBuilder::new(folder);
    builder.hidden(false).parents(false).git_global(false).require_git(false);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    let paths = builder.build().map(|entry| entry.unwrap().into_path()).filter(|path| path != folder);
    let mut paths: Vec<_> = paths.map(|path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned()).collect();
    paths.sort_unstable();
    paths
}

const NAMES: [&str; 6] = ["a", "b", "c.txt", "d.log", ".h", "e f"];
const PATTERNS: [&str; 24] = [
    "a", "/a", "a/", "/a/", "!a", "b", "!b/", "a/b", "/a/b", "**/b", "a/**", "a/**/b", "*.log", "!*.log", "*.txt", "*",
    "!*", "/*", "!*/", "[ab]", "e f  ", "\\#x", "# a", ".h",
];

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4).prop_map(|parts| parts.join("/"))
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PATTERNS[..]), 1..4).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_is_found_as_by_the_crate_ignore(
        paths in prop::collection::vec(path(), 1..25),
        ignores in prop::collection::vec((path(), prop::sample::select(&[".ignore", ".gitignore"][..]), rules()), 0..4),
        top in rules(),
        exclude in prop::option::of(rules()),
    ) {
        let folder = TempDir::new().unwrap();
        let write = |path: &Path, text: &str| {
            // What is a file cannot be a folder as well: the first one wins.
            let _ = std::fs::create_dir_all(path.parent().unwrap()).and_then(|()| std::fs::write(path, text));
        };
        write(&folder.path().join(".gitignore"), &top);
        paths.iter().for_each(|path| write(&folder.path().join(path), ""));
        ignores.iter().for_each(|(path, name, rules)| write(&folder.path().join(path).with_file_name(name), rules));
        if let Some(exclude) = &exclude {
            write(&folder.path().join(".git/info/exclude"), exclude);
        }
        prop_assert_eq!(found(&folder, &all()), found_by_ignore(folder.path()));
    }
}
