//! Files that settings name.

use super::*;
use crate::look_budget::MAX_FILE_BYTES;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

fn directory() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    (directory, path)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the files that the settings of a user and of a repository name in `tree`, relative to it.
fn names(git: &Path, tree: &Path, user: &GitUser) -> Vec<String> {
    let mut look = LookBudget::new(10_000);
    let mut named = GitSettings::of_user(user, &mut look).unwrap().named(git, tree, user, &mut look).unwrap();
    let settings = GitSettings::of_repository(git, user, &mut look).unwrap();
    named.extend(settings.named(git, tree, user, &mut look).unwrap());
    let paths = named.into_iter().map(|named| match named {
        Named::Hooks(path) | Named::Other(path) => path,
    });
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.strip_prefix(tree).ok()?.to_str()?.to_owned())).collect();
    names.retain(|name| name != ".git/hooks");
    names.sort();
    names.dedup();
    names
}

#[test]
fn included_configs_are_named_with_what_they_name() {
    let (_directory, root) = directory();
    let work = root.join("work");
    write(&work.join(".git/config"), "[include]\npath = ../shared/one\n[includeIf \"gitdir:x\"]\npath = ../missing\n");
    write(&work.join("shared/one"), "[include]\npath = two\npath = one\n");
    write(&work.join("shared/two"), "[core]\nhooksPath = tools/hooks\n");
    let expected = ["missing", "shared/one", "shared/two", "tools/hooks"];
    assert_eq!(names(&work.join(".git"), &work, &GitUser::default()), expected);
    for empty in ["[core]\nhooksPath =\n", "[init]\ntemplateDir =\n", "[include]\npath =\n"] {
        write(&work.join(".git/config"), empty);
        assert_eq!(names(&work.join(".git"), &work, &GitUser::default()), [""; 0], "{empty}");
    }
}

#[test]
fn scripts_in_commands_of_settings_are_named_and_data_is_not() {
    let (_directory, root) = directory();
    for path in ["tools/clean.sh", "tools/alias.sh", "pager", "data/template", "unknown/file"] {
        write(&root.join(path), "");
    }
    write(
        &root.join(".git/config"),
        "[filter \"x\"]\nclean = sh 'tools/clean.sh' %f\n[alias]\nx = \"!f() { ./tools/alias.sh; }; f\"\ny = log a/b\n\
         [init]\ntemplateDir = templates\n[core]\npager = pager\nexcludesFile = data/template\n[remote \"o\"]\n\
         url = ./tools\n[diff]\nexternal = tools/missing\n[commit]\ntemplate = data/template\n[new]\nx = unknown/file\n\
         y = unknown/missing\n",
    );
    assert_eq!(
        names(&root.join(".git"), &root, &GitUser::default()),
        ["templates", "tools/alias.sh", "tools/clean.sh", "tools/missing", "unknown/file"]
    );
}

#[test]
fn the_users_settings_name_files_in_every_repository() {
    let (_directory, root) = directory();
    let (home, work) = (root.join("home"), root.join("home/work"));
    fs::create_dir_all(&work).unwrap();
    write(&root.join("dotfiles/git"), "[core]\nhooksPath = .hooks\n[core]\nfsmonitor = ~/work/tools/watch\n");
    write(&work.join("tools/watch"), "");
    symlink("../dotfiles/git", home.join(".gitconfig")).unwrap();
    let environment = b"[core]\n\tsshCommand = \"./ssh.sh\"\n".to_vec();
    let user = GitUser { home: Some(home.clone()), configs: vec![home.join(".gitconfig")], environment };
    assert_eq!(names(&work.join(".git"), &work, &user), [".hooks", "ssh.sh", "tools/watch"]);
}

#[test]
fn links_on_the_way_to_hooks_are_named_with_their_targets() {
    let (_directory, root) = directory();
    write(&root.join(".git/config"), "[core]\nhooksPath = way/hooks\n");
    write(&root.join(".git/hooks/pre-push"), "");
    write(&root.join("real/scripts/check"), "");
    symlink("../../real/scripts/check", root.join(".git/hooks/pre-commit")).unwrap();
    symlink("other", root.join("way")).unwrap();
    symlink("real", root.join("other")).unwrap();
    let expected = [".git/hooks/pre-commit", "other", "real/hooks", "real/scripts/check", "way"];
    assert_eq!(names(&root.join(".git"), &root, &GitUser::default()), expected);
    fs::remove_dir_all(root.join(".git/hooks")).unwrap();
    symlink("../later", root.join(".git/hooks")).unwrap();
    assert!(names(&root.join(".git"), &root, &GitUser::default()).contains(&"later".to_owned()));
}

#[test]
fn worktree_has_the_settings_of_its_repository() {
    let (_directory, root) = directory();
    let (common, tree) = (root.join("main/.git"), root.join("tree"));
    write(&common.join("config"), "[core]\nhooksPath = .githooks\n");
    write(&common.join("worktrees/tree/commondir"), "../..\n");
    fs::create_dir(&tree).unwrap();
    assert_eq!(names(&common.join("worktrees/tree"), &tree, &GitUser::default()), [".githooks"]);
}

#[test]
fn settings_beyond_the_budget_are_an_error() {
    let (_directory, root) = directory();
    let git = root.join(".git");
    let user = GitUser::default();
    let is_exhausted = |config: String| {
        write(&git.join("config"), &config);
        let mut look = LookBudget::new(1_000);
        GitSettings::of_repository(&git, &user, &mut look)
            .and_then(|settings| settings.named(&git, &root, &user, &mut look))
            .is_err()
    };
    assert!(!is_exhausted("[core]\nhooksPath = a\n".repeat(1_000)), "the same path is one");
    assert!(is_exhausted((0..1_001).map(|at| format!("[core]\nhooksPath = {at}\n")).collect()));
    assert!(is_exhausted("[a]\nb = x/y\n".repeat(1_000)));
    assert!(is_exhausted((0..1_001).fold("[include]\n".to_owned(), |config, at| config + &format!("path = {at}\n"))));
    assert!(is_exhausted(
        (0..1_001).fold("[init]\n".to_owned(), |config, at| config + &format!("templateDir = {at}\n"))
    ));
    assert!(is_exhausted("#".repeat(MAX_FILE_BYTES as usize + 1)));
    assert!(!is_exhausted("[branch \"x\"]\nmerge = refs/heads/x\n".repeat(2_000)));
}

#[test]
fn chains_of_links_cost_what_they_are_long() {
    let (_directory, root) = directory();
    write(&root.join("real/file"), "");
    symlink("real", root.join("l0")).unwrap();
    (1..39).for_each(|at| symlink(format!("l{}", at - 1), root.join(format!("l{at}"))).unwrap());
    let mut look = LookBudget::new(100);
    let way = look.resolve(&root.join("l38/file")).unwrap();
    assert!(way.len() == 40 && way[39] == root.join("real/file"), "{way:?}");
    assert!((0..3).any(|_| look.resolve(&root.join("l38/file")).is_err()), "each time");
    symlink("loop", root.join("loop")).unwrap();
    assert!(!LookBudget::new(100).resolve(&root.join("loop/x")).unwrap().contains(&root.join("loop/x")));
}
