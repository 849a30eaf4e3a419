//! Repositories, worktrees and the files that lead to them.

use super::*;
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

/// Creates a repository and a worktree of it.
fn worktree(root: &Path) -> (PathBuf, PathBuf) {
    let (common, tree) = (root.join("main/.git"), root.join("tree"));
    for part in ["objects", "refs"] {
        fs::create_dir_all(common.join(part)).unwrap();
    }
    write(&common.join("HEAD"), "ref: refs/heads/main\n");
    write(&common.join("worktrees/tree/HEAD"), "ref: refs/heads/tree\n");
    write(&common.join("worktrees/tree/commondir"), "../..\n");
    write(&common.join("worktrees/tree/gitdir"), &format!("{}\n", tree.join(".git").display()));
    write(&tree.join(".git"), &format!("gitdir: {}\n", common.join("worktrees/tree").display()));
    (common, tree)
}

#[test]
fn repository_of_a_worktree_is_found() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    assert_eq!(Repository::for_workspace(&tree), Repository::Elsewhere(common.clone()));
    assert_eq!(Repository::for_workspace(&root.join("main")), Repository::Inside);
    // As git writes it since 2.48.
    write(&common.join("worktrees/tree/gitdir"), "../../../../tree/.git\n");
    write(&tree.join(".git"), "gitdir: ../main/.git/worktrees/tree\n");
    assert_eq!(Repository::for_workspace(&tree), Repository::Elsewhere(common));
}

#[test]
fn forged_pointers_to_other_directories_count_as_none() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    let forged = root.join("forged");
    write(&forged.join(".git"), &fs::read_to_string(tree.join(".git")).unwrap());
    assert_eq!(Repository::for_workspace(&forged), Repository::Inside);
    write(&forged.join(".git"), &format!("gitdir: {}\n", common.display()));
    assert_eq!(Repository::for_workspace(&forged), Repository::Inside);
}

#[test]
fn repository_without_a_tree_is_known_by_its_config_alone() {
    let (_directory, root) = directory();
    write(&root.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    assert!(is_repository(&root));
    write(&root.join("config"), "[server]\nport = 1\n");
    assert!(!is_repository(&root));
}

#[test]
fn trees_lead_to_their_repositories() {
    let (_directory, root) = directory();
    let (common, tree) = worktree(&root);
    let admin = common.join("worktrees/tree");
    let at = |path: &Path| RepositoryLayout::at(path).unwrap();
    assert_eq!(
        at(&tree),
        RepositoryLayout { path: tree.clone(), git: Some(admin.clone()), pointer: Some(tree.join(".git")) }
    );
    assert_eq!(at(&root.join("main")).git, Some(common.clone()));
    assert_eq!(at(&admin).files(), tree);
    fs::create_dir(root.join("linked")).unwrap();
    symlink("../main/.git", root.join("linked/.git")).unwrap();
    assert_eq!(at(&root.join("linked")).git, Some(common.clone()));
    write(&root.join("lost/.git"), "gitdir: nowhere\n");
    assert_eq!(at(&root.join("lost")).git, None);
    // Git takes all of the text for the name.
    write(&root.join("lost/.git"), "gitdir: ../main/.git\nx\n");
    assert_eq!(at(&root.join("lost")).git, None);
    assert_eq!(RepositoryLayout::at(&root), None);
    let submodule = common.join("modules/a");
    write(&submodule.join("config"), "[core]\n\tworktree = ../../../sub\n");
    assert_eq!(at(&submodule).files(), submodule.join("../../../sub"));
}

#[test]
fn repositories_of_deep_submodules_and_of_subdirectories_are_nearby() {
    let (_directory, root) = directory();
    let git = root.join(".git");
    for path in ["HEAD", "modules/libs/foo/HEAD", "modules/libs/foo/config", "modules/libs/foo/modules/bar/config"] {
        write(&git.join(path), "");
    }
    write(&root.join("sub/.git/HEAD"), "");
    write(&root.join("deep/sub/.git/HEAD"), "");
    let mut found = nearby(&root);
    found.sort();
    let expected = ["", ".git/modules/libs/foo", ".git/modules/libs/foo/modules/bar", "sub"];
    assert_eq!(found, expected.map(|path| if path.is_empty() { root.clone() } else { root.join(path) }));
}
