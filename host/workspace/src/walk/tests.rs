//! Results of walks, on their own and compared with results of the crate `ignore`.

use super::walk;
use crate::paths::beneath::{self, AtEnd, Spot};
use crate::threads::{Interrupt, Limit};
use crate::types::WalkRoot;
use crate::types::{Kind, WalkOptions, WorkspaceError};
use cap_std::fs::Dir;
use ignore::WalkBuilder;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Creates a directory with these files, each with its text.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (path, text) in files {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    directory
}

fn place(directory: &Path, relative: &str) -> std::io::Result<Spot> {
    let path = if relative.is_empty() { "." } else { relative };
    beneath::find(&Arc::new(std::fs::File::open(directory)?), Path::new("/"), Path::new(path), AtEnd::Follow)
}

fn root(directory: &Path, relative: &str) -> WalkRoot {
    let spot = place(directory, relative).unwrap();
    WalkRoot {
        directory: Dir::open_ambient_dir(directory, cap_std::ambient_authority()).unwrap(),
        relative: spot.target().strip_prefix("/").unwrap().to_owned(),
        spot,
        denied: Vec::new(),
        exclusions: Arc::default(),
        path: relative.to_owned(),
    }
}

fn all() -> WalkOptions {
    WalkOptions {
        globs: Vec::new(),
        types: Vec::new(),
        max_depth: None,
        hidden: true,
        ignore_files: true,
        limit: 10_000,
    }
}

fn deadline() -> Limit {
    ends_in(600_000)
}

fn ends_in(deadline_ms: u64) -> Limit {
    Limit::new(Duration::from_millis(deadline_ms))
}

fn found_in(directory: &Path, relative: &str, options: &WalkOptions) -> Vec<String> {
    let found = walk(&root(directory, relative), options, &deadline()).unwrap();
    assert!(!found.truncated);
    found.entries.into_iter().map(|entry| entry.path).collect()
}

fn found(directory: &TempDir, options: &WalkOptions) -> Vec<String> {
    found_in(directory.path(), "", options)
}

#[test]
fn deeper_ignore_file_overrides_a_higher_one() {
    let directory =
        tree(&[(".gitignore", "*.log\n"), ("a.log", ""), ("sub/.gitignore", "!a.log\nb\n"), ("sub/a.log", "")]);
    std::fs::write(directory.path().join("sub/b"), "").unwrap();
    assert_eq!(found(&directory, &all()), [".gitignore", "sub", "sub/.gitignore", "sub/a.log"]);
}

#[test]
fn dot_ignore_overrides_gitignore_in_one_directory() {
    let directory = tree(&[(".gitignore", "a\n"), (".ignore", "!a\nb\n"), ("a", ""), ("b", "")]);
    assert_eq!(found(&directory, &all()), [".gitignore", ".ignore", "a"]);
}

#[test]
fn anchored_and_directory_patterns_match_as_in_git() {
    let directory = tree(&[("x/.gitignore", "/a\nb/\n"), ("x/a", ""), ("x/y/a", ""), ("x/b/c", ""), ("x/y/b", "")]);
    assert_eq!(found(&directory, &all()), ["x", "x/.gitignore", "x/y", "x/y/a", "x/y/b"]);
}

#[test]
fn files_in_an_ignored_directory_stay_ignored() {
    let directory = tree(&[(".gitignore", "out/\n!out/keep\n"), ("out/keep", ""), ("out/.gitignore", "!*\n")]);
    assert_eq!(found(&directory, &all()), [".gitignore"]);
}

#[test]
fn ignore_files_apply_from_the_granted_directory_down() {
    let directory =
        tree(&[(".gitignore", "/grant/x/b\n"), ("grant/.gitignore", "/x/a\n"), ("grant/x/a", ""), ("grant/x/b", "")]);
    assert_eq!(found_in(&directory.path().join("grant"), "x", &all()), ["b"]);
}

#[test]
fn dot_git_is_skipped_and_its_exclude_file_respected() {
    let directory = tree(&[(".git/info/exclude", "/private\n"), (".git/HEAD", ""), ("private", ""), ("a/private", "")]);
    assert_eq!(found(&directory, &all()), ["a", "a/private"]);
}

#[test]
fn hidden_and_ignored_files_are_found_on_request() {
    let directory = tree(&[(".gitignore", "a\n"), ("a", ""), (".h/b", ""), ("c/.d", "")]);
    let everything = WalkOptions { ignore_files: false, ..all() };
    assert_eq!(found(&directory, &everything), [".gitignore", ".h", ".h/b", "a", "c", "c/.d"]);
    assert_eq!(found(&directory, &WalkOptions { hidden: false, ..everything }), ["a", "c"]);
}

#[test]
fn glob_does_not_override_ignore_files() {
    let directory = tree(&[(".gitignore", "b.rs\n"), ("a.rs", ""), ("b.rs", ""), ("c.py", ""), ("d/e.rs", "")]);
    let with = |globs: &[&str]| WalkOptions { globs: globs.iter().map(ToString::to_string).collect(), ..all() };
    assert_eq!(found(&directory, &with(&["*.rs"])), ["a.rs", "d/e.rs"]);
    assert_eq!(found(&directory, &with(&["*.rs", "!d"])), ["a.rs"]);
    assert_eq!(found(&directory, &WalkOptions { types: vec!["py".into()], ..all() }), ["c.py", "d"]);
}

#[cfg(unix)]
#[test]
fn links_are_listed_and_not_followed() {
    use std::os::unix::fs::symlink;
    let outside = tree(&[("secret/a", ""), ("rules", "*\n")]);
    let directory = tree(&[("b", "")]);
    symlink(outside.path().join("secret"), directory.path().join("out")).unwrap();
    symlink(".", directory.path().join("loop")).unwrap();
    symlink(outside.path().join("rules"), directory.path().join(".gitignore")).unwrap();
    let entries = walk(&root(directory.path(), ""), &all(), &deadline()).unwrap().entries;
    let entries: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    let expected = [(".gitignore", Kind::Symlink), ("b", Kind::File), ("loop", Kind::Symlink), ("out", Kind::Symlink)];
    assert_eq!(entries, expected);
    assert!(place(directory.path(), "out").is_err());
}

#[test]
fn depth_is_limited_by_the_option_and_by_the_host() {
    let directory = tree(&[("a/b/c", "")]);
    assert_eq!(found(&directory, &WalkOptions { max_depth: Some(2), ..all() }), ["a", "a/b"]);
    std::fs::create_dir_all(directory.path().join("d/".repeat(200))).unwrap();
    let deep = walk(&root(directory.path(), ""), &all(), &deadline()).unwrap();
    assert!(deep.truncated);
    assert_eq!(deep.entries.iter().filter(|entry| entry.path.starts_with('d')).count(), 128);
}

#[test]
fn limit_keeps_the_first_entries_by_path() {
    let directory = TempDir::new().unwrap();
    for n in 0..50 {
        let place = directory.path().join(format!("{:02}", 49 - n));
        std::fs::create_dir(&place).unwrap();
        (0..10).for_each(|file| std::fs::write(place.join(file.to_string()), "").unwrap());
    }
    let whole = found(&directory, &all());
    for limit in [1, 7, 200, 549] {
        let cut = walk(&root(directory.path(), ""), &WalkOptions { limit, ..all() }, &deadline()).unwrap();
        let paths: Vec<_> = cut.entries.iter().map(|entry| &entry.path).collect();
        assert_eq!((paths, cut.truncated), (whole[..limit as usize].iter().collect(), true));
    }
    assert_eq!(found(&directory, &WalkOptions { limit: 550, ..all() }).len(), 550);
}

#[test]
fn file_can_be_the_root() {
    let directory = tree(&[("a/b", "12345")]);
    let entry = walk(&root(directory.path(), "a/b"), &all(), &deadline()).unwrap().entries.remove(0);
    assert_eq!((entry.path.as_str(), entry.kind, entry.size), ("", Kind::File, 5));
}

/// The end of a call that was cancelled.
struct Cancelled;

impl Interrupt for Cancelled {
    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn walk_ends_with_the_call() {
    let directory = tree(&[("a/b", "")]);
    let ends: [&dyn Interrupt; 2] = [&Cancelled, &ends_in(0)];
    for deadline in ends {
        for relative in ["", "a/b"] {
            let ended = walk(&root(directory.path(), relative), &all(), deadline);
            assert!(matches!(ended, Err(WorkspaceError::Cancelled)), "{relative}");
        }
    }
}

/// Walks with the crate `ignore`, under the rules that the `workspace` interface promises.
fn found_by_ignore(directory: &Path) -> Vec<String> {
    let mut builder = WalkBuilder::new(directory);
    builder.hidden(false).parents(false).git_global(false).require_git(false);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    let paths = builder.build().map(|entry| entry.unwrap().into_path()).filter(|path| path != directory);
    let mut paths: Vec<_> =
        paths.map(|path| path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned()).collect();
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
    fn walk_finds_the_same_as_the_crate_ignore(
        paths in prop::collection::vec(path(), 1..25),
        ignores in prop::collection::vec((path(), prop::sample::select(&[".ignore", ".gitignore"][..]), rules()), 0..4),
        top in rules(),
        exclude in prop::option::of(rules()),
    ) {
        let directory = TempDir::new().unwrap();
        let write = |path: &Path, text: &str| {
            // A path cannot be a file and a directory: the first one wins.
            let _ = std::fs::create_dir_all(path.parent().unwrap()).and_then(|()| std::fs::write(path, text));
        };
        write(&directory.path().join(".gitignore"), &top);
        paths.iter().for_each(|path| write(&directory.path().join(path), ""));
        ignores.iter().for_each(|(path, name, rules)| write(&directory.path().join(path).with_file_name(name), rules));
        if let Some(exclude) = &exclude {
            write(&directory.path().join(".git/info/exclude"), exclude);
        }
        prop_assert_eq!(found(&directory, &all()), found_by_ignore(directory.path()));
    }
}
