//! Settings of git, and what they name.

use super::*;
use crate::protected::tests::{directory, write};
use std::os::unix::fs::symlink;

/// Creates a repository and a worktree of it.
fn worktree(root: &Path) -> (PathBuf, PathBuf) {
    let (common, tree) = (root.join("main/.git"), root.join("tree"));
    for part in ["objects", "refs"] {
        fs::create_dir_all(common.join(part)).unwrap();
    }
    write(&common.join("HEAD"), "ref: refs/heads/main\n");
    write(&common.join("worktrees/tree/commondir"), "../..\n");
    write(&common.join("worktrees/tree/gitdir"), &format!("{}\n", tree.join(".git").display()));
    write(&tree.join(".git"), &format!("gitdir: {}\n", common.join("worktrees/tree").display()));
    (common, tree)
}

#[test]
fn repository_of_a_worktree_is_found() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    assert_eq!(Repository::of(&tree), Repository::Elsewhere(common));
    assert_eq!(Repository::of(&root.join("main")), Repository::Inside);
}

#[test]
fn forged_pointers_to_other_directories_count_as_none() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    let forged = root.join("forged");
    write(&forged.join(".git"), &fs::read_to_string(tree.join(".git")).unwrap());
    assert_eq!(Repository::of(&forged), Repository::Inside);
    write(&forged.join(".git"), &format!("gitdir: {}\n", common.display()));
    assert_eq!(Repository::of(&forged), Repository::Inside);
}

#[test]
fn values_are_read_as_git_reads_them() {
    let (_directory, root) = directory();
    let config = root.join("config");
    write(
        &config,
        "[core]hooksPath=a;b\n[Core \"]\"]\n\tHooksPath = \"c;d\" # x\n hookspath = e\\\nf \\\"g\n[a.b]\nflag\nlast = \\",
    );
    let expected = [("core.hookspath", "a"), ("core.hookspath", "c;d"), ("core.hookspath", "ef \"g")];
    let expected = expected.into_iter().chain([("a.flag", ""), ("a.last", "")]);
    let found = entries(&config);
    assert!(found.iter().map(|(key, value)| (key.as_str(), value.as_str())).eq(expected), "{found:?}");
}

/// Returns what is named in `tree`, relative to it.
fn names(git: &Path, tree: &Path, user: &GitUser) -> Vec<String> {
    let named = named(git, tree, &Settings::of_user(user)).into_iter();
    let mut names: Vec<String> =
        named.filter_map(|path| Some(path.strip_prefix(tree).ok()?.to_str()?.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn included_configs_are_protected_with_what_they_name() {
    let (_directory, root) = directory();
    let work = root.join("work");
    write(&work.join(".git/config"), "[include]\npath = ../shared/one\n[includeIf \"gitdir:x\"]\npath = ../missing\n");
    write(&work.join("shared/one"), "[include]\npath = two\npath = one\n");
    write(&work.join("shared/two"), "[core]\nhooksPath = tools/hooks\n");
    let expected = ["missing", "shared/one", "shared/two", "tools/hooks"];
    assert_eq!(names(&work.join(".git"), &work, &GitUser::default()), expected);
    let limit = |config: String| {
        write(&work.join(".git/config"), &config);
        assert!(names(&work.join(".git"), &work, &GitUser::default()).contains(&".git".to_owned()), "{config:.60}");
    };
    limit("[core]\nhooksPath = a\n".repeat(MAX_HOOK_DIRECTORIES + 1));
    limit("[a]\nb = x/y\n".repeat(MAX_WORDS));
    limit("[a]\nb = c\n".repeat(MAX_SETTINGS + 1) + "[include]\npath = shared/one\n");
    limit((0..20_000).fold("[include]\n".to_owned(), |config, at| config + &format!("path = {at}\n")));
    for empty in ["[core]\nhooksPath =\n", "[init]\ntemplateDir =\n", "[include]\npath =\n"] {
        write(&work.join(".git/config"), empty);
        assert_eq!(names(&work.join(".git"), &work, &GitUser::default()), [""; 0], "{empty}");
    }
    limit("#".repeat(MAX_GIT_BYTES as usize + 1));
    let branches = "[branch \"x\"]\nmerge = refs/heads/x\n".repeat(MAX_WORDS + 1);
    write(&work.join(".git/config"), &branches);
    assert_eq!(names(&work.join(".git"), &work, &GitUser::default()), [""; 0]);
    write(&work.join(".git/config"), "[include]\npath = ../shared/one\n");
    for at in 0..=MAX_CONFIGS {
        write(&work.join(format!("shared/{at}")), &format!("[include]\npath = {}\n", at + 1));
    }
    write(&work.join("shared/one"), "[include]\npath = 0\n");
    assert!(names(&work.join(".git"), &work, &GitUser::default()).contains(&".git".to_owned()));
}

#[test]
fn scripts_in_commands_of_settings_are_protected() {
    let (_directory, root) = directory();
    write(&root.join("tools/clean.sh"), "");
    write(&root.join("tools/alias.sh"), "");
    write(&root.join("pager"), "");
    write(
        &root.join(".git/config"),
        "[filter \"x\"]\nclean = sh 'tools/clean.sh' %f\n[alias]\nx = \"!f() { ./tools/alias.sh; }; f\"\n\
         [init]\ntemplateDir = templates\n[core]\npager = pager\n[remote \"o\"]\nurl = ./tools\n[diff]\nexternal = tools/missing\n",
    );
    assert_eq!(
        names(&root.join(".git"), &root, &GitUser::default()),
        ["templates", "tools/alias.sh", "tools/clean.sh"]
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
    let user = GitUser { home: Some(home.clone()), configs: vec![home.join(".gitconfig")] };
    assert_eq!(names(&work.join(".git"), &work, &user), [".hooks", "tools/watch"]);
}

#[test]
fn links_on_the_way_to_hooks_are_protected_with_their_targets() {
    let (_directory, root) = directory();
    write(&root.join(".git/config"), "[core]\nhooksPath = way/hooks\n");
    write(&root.join(".git/hooks/pre-push"), "");
    write(&root.join("real/scripts/check"), "");
    symlink("../../real/scripts/check", root.join(".git/hooks/pre-commit")).unwrap();
    symlink("other", root.join("way")).unwrap();
    symlink("real", root.join("other")).unwrap();
    let expected =
        [".git/hooks/pre-commit", "other", "other/hooks", "real/hooks", "real/scripts/check", "way", "way/hooks"];
    assert_eq!(names(&root.join(".git"), &root, &GitUser::default()), expected);
}

#[test]
fn worktree_has_the_settings_of_its_repository() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    write(&common.join("config"), "[core]\nhooksPath = .githooks\n");
    assert_eq!(names(&pointed(&tree.join(".git")).unwrap(), &tree, &GitUser::default()), [".githooks"]);
}

#[test]
fn repository_without_a_tree_is_known_by_its_config_alone() {
    let (_directory, root) = directory();
    write(&root.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    assert!(is_bare(&root));
    write(&root.join("config"), "[server]\nport = 1\n");
    assert!(!is_bare(&root));
}
