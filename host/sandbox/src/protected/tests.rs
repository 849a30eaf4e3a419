//! Protected paths: which there are, and how many.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;
use tempfile::TempDir;

pub(crate) fn directory() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    (directory, path)
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a repository, and returns its directory.
pub(crate) fn repository(git: &Path, config: &str) -> PathBuf {
    ["objects", "refs"].iter().for_each(|part| fs::create_dir_all(git.join(part)).unwrap());
    write(&git.join("HEAD"), "ref: refs/heads/main\n");
    write(&git.join("config"), &format!("[core]\n\trepositoryformatversion = 0\n{config}"));
    git.to_owned()
}

/// Creates a worktree of a repository at `tree`.
pub(crate) fn worktree(git: &Path, name: &str, tree: &Path) -> PathBuf {
    let admin = git.join("worktrees").join(name);
    write(&admin.join("HEAD"), "ref: refs/heads/x\n");
    write(&admin.join("commondir"), "../..\n");
    write(&admin.join("gitdir"), &format!("{}\n", tree.join(".git").display()));
    write(&tree.join(".git"), &format!("gitdir: {}\n", admin.display()));
    admin
}

/// Finds the protected paths of a directory with repositories in some directories.
pub(crate) fn find(root: &Path, repositories: &[&str], user: &GitUser) -> Protected {
    let repositories: Vec<PathBuf> = repositories.iter().map(|path| root.join(path)).collect();
    Protected::find(ProtectedPlaces { roots: &[root.to_owned()], repositories: &repositories, settings: &[], user })
}

#[test]
fn hooks_and_settings_of_repositories_at_any_depth_are_closed() {
    let (_directory, root) = directory();
    repository(&root.join(".git"), "\thooksPath = .ownhooks\n");
    repository(&root.join(".git/modules/libs/a"), "\tworktree = ../../../../libs/a\n\thooksPath = here\n");
    write(&root.join("libs/a/.git"), "gitdir: ../../.git/modules/libs/a\n");
    repository(&root.join("deep/inside/.git"), "\thooksPath = ..\n[filter \"x\"]\n\tclean = sh ../../../../x.sh\n");
    repository(&root.join("stores/bare.git"), "");
    let repositories = [".git/modules/libs/a", "libs/a", "deep/inside", "stores/bare.git"];
    let found = find(&root, &repositories, &GitUser::default());
    for path in [
        ".vscode",
        ".git/hooks",
        ".git/commondir",
        ".ownhooks",
        ".git/modules/libs/a/config",
        "libs/a/.git",
        "libs/a/here",
        "deep/inside/.git/config",
        "deep",
        "stores/bare.git/hooks",
    ] {
        assert!(found.closed.contains_key(&root.join(path)), "{path}");
    }
    assert!(found.closed().all(|path| path.starts_with(&root) && *path != root), "nothing outside, nor all of it");
    assert!(!found.closed.contains_key(&root.join(".git")));
    assert!(found.free.contains_key(&root.join(".git/rebase-merge/git-rebase-todo")));
}

#[test]
fn files_that_start_with_a_session_are_closed_in_a_writable_home() {
    let (_directory, root) = directory();
    let home = root.join("ada");
    fs::create_dir_all(home.join("project")).unwrap();
    let user = GitUser { home: Some(home.clone()), ..GitUser::default() };
    let started = [".config/autostart", ".config/fish", ".local/bin", ".ssh", ".xprofile"].map(|name| home.join(name));
    for (work, is_closed) in [(&home, true), (&root, true), (&home.join("project"), false)] {
        let found = find(work, &[], &user);
        assert!(started.iter().all(|path| found.closed.contains_key(path) == is_closed), "{}", work.display());
    }
}

#[test]
fn linked_worktrees_are_free_and_the_workspace_is_not() {
    let (_directory, root) = directory();
    let (work, tree) = (root.join("work"), root.join("work/trees/a"));
    let git = repository(&work.join(".git"), "\thooksPath = .ownhooks\n[filter \"x\"]\n\tclean = sh tools/clean.sh\n");
    let admin = worktree(&git, "a", &tree);
    write(&tree.join(".ownhooks/pre-commit"), "");
    write(&tree.join("tools/clean.sh"), "");
    let found = find(&work, &["trees/a", ".git/worktrees/a"], &GitUser::default());
    for path in [admin.join("commondir"), admin.join("config.worktree"), tree.join(".git"), tree.join("tools/clean.sh")]
    {
        assert!(found.free.contains_key(&path) && !found.closed.contains_key(&path), "{}", path.display());
    }
    assert!(
        found.free.contains_key(&tree.join(".ownhooks/pre-commit"))
            && found.closed.contains_key(&work.join("tools/clean.sh"))
    );
    assert!(!found.closed().any(|path| path.starts_with(&tree) || path.starts_with(&admin)));
    // From inside, it is the workspace.
    let found = Protected::find(ProtectedPlaces {
        roots: &[tree.clone(), git],
        repositories: &[],
        settings: &[],
        user: &GitUser::default(),
    });
    for path in [admin.join("commondir"), tree.join(".git"), tree.join("tools/clean.sh"), work.join(".git/config")] {
        assert!(found.closed.contains_key(&path), "{}", path.display());
    }
}

#[test]
fn targets_of_links_are_closed_inside_the_directory_only() {
    let (_directory, root) = directory();
    let work = root.join("work");
    fs::create_dir_all(work.join("src")).unwrap();
    fs::create_dir_all(root.join("shared")).unwrap();
    for (target, name) in [("src", ".vscode"), ("../shared", ".claude"), ("later", ".zed"), ("../away/.repo", ".idea")]
    {
        symlink(target, work.join(name)).unwrap();
    }
    let found = find(&work, &[], &GitUser::default());
    for path in ["src", ".vscode", "later"] {
        assert!(found.closed.contains_key(&work.join(path)), "{path}");
    }
    assert!(!found.closed.contains_key(&root.join("shared")));
    // A repository behind a link is used like any.
    repository(&work.join(".repo"), "");
    symlink(".repo", work.join(".git")).unwrap();
    let found = find(&work, &[".repo"], &GitUser::default());
    assert!(found.closed.contains_key(&work.join(".git")) && found.closed.contains_key(&work.join(".repo/config")));
    assert!(!found.closed.contains_key(&work.join(".repo")));
}

#[test]
fn settings_around_a_directory_and_of_the_user_count_in_it() {
    let (_directory, root) = directory();
    repository(&root.join(".git"), "\thooksPath = work/hooks\n");
    fs::create_dir_all(root.join("work")).unwrap();
    let environment = b"[core]\n\tfsmonitor = ./watch.sh\n".to_vec();
    let user = GitUser { environment, ..GitUser::default() };
    let found = find(&root.join("work"), &[], &user);
    assert!(found.closed.contains_key(&root.join("work/hooks")), "{:?}", found.closed);
    let (_other, alone) = directory();
    assert!(find(&alone, &[], &user).closed.contains_key(&alone.join("watch.sh")));
}

#[test]
fn repository_that_names_too_much_is_closed_as_a_whole() {
    let (_directory, root) = directory();
    repository(&root.join(".git"), "");
    repository(
        &root.join("a/.git"),
        &(0..19_000).map(|at| format!("[init]\ntemplateDir = t/{at}\n")).collect::<String>(),
    );
    repository(&root.join("b/.git"), &(0..19_000).map(|at| format!("[core]\nhooksPath = {at}\n")).collect::<String>());
    write(&root.join("chain/real/file"), "");
    symlink("real", root.join("chain/l0")).unwrap();
    (1..39).for_each(|at| symlink(format!("l{}", at - 1), root.join(format!("chain/l{at}"))).unwrap());
    let words = "[x]\nk = ../chain/l38/file\n".repeat(999);
    (0..49).for_each(|at| drop(repository(&root.join(format!("s{at}/.git")), &words)));
    let names: Vec<String> =
        ["a", "b"].map(str::to_owned).into_iter().chain((0..49).map(|at| format!("s{at}"))).collect();
    let started = Instant::now();
    let found = find(&root, &names.iter().map(String::as_str).collect::<Vec<_>>(), &GitUser::default());
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    for whole in ["a/.git", "b/.git", "s48/.git"] {
        assert!(found.closed.contains_key(&root.join(whole)), "{whole}");
    }
    assert!(found.closed.contains_key(&root.join(".git/config")) && !found.closed.contains_key(&root.join(".git")));
    assert!(found.closed().map(|path| length(path)).sum::<usize>() < 600 * 1024);
}

/// Returns the processor time of this thread.
#[cfg(target_os = "linux")]
fn worked() -> std::time::Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn each_of_many_repositories_takes_the_same_time() {
    let (_directory, root) = directory();
    let names: Vec<String> = (0..8_000).map(|at| at.to_string()).collect();
    names.iter().for_each(|name| fs::create_dir_all(root.join(name).join(".git")).unwrap());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let time = |count: usize| {
        let began = worked();
        find(&root, &names[..count], &GitUser::default());
        worked() - began
    };
    let (few, many) = (time(2_000), time(8_000));
    assert!(many < few * 8, "{few:?} for 2,000, {many:?} for 8,000");
}

#[test]
fn too_many_repositories_close_what_is_around_them() {
    // Long names, so that fewer are too many.
    let long = "x".repeat(200);
    let create = |around: &dyn Fn(usize) -> String| {
        let (directory, root) = directory();
        repository(&root.join(".git"), "");
        let names: Vec<String> = (0..800).map(|at| format!("{}/{at}-{long}", around(at))).collect();
        names.iter().for_each(|name| fs::create_dir_all(root.join(name).join(".git")).unwrap());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = find(&root, &names, &GitUser::default());
        assert!(found.closed().map(|path| length(path)).sum::<usize>() < 600 * 1024);
        (directory, root, found)
    };
    let (_directory, root, found) = create(&|_| format!("many/{long}"));
    assert!(found.closed.contains_key(&root.join("many")) && found.closed.contains_key(&root.join(".git/config")));
    let (_directory, root, found) = create(&|at| format!("{at}/{long}"));
    assert_eq!(found.closed().collect::<Vec<_>>(), [&root], "nothing can be written");
}
