//! Removal of files that programs leave at protected paths.

use super::*;
use crate::protected::ProtectedPlaces;
use crate::protected::tests::{directory, find, repository, worktree, write};
use pinion_git::config::parse;
use pinion_git::nearby;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;
use tempfile::TempDir;

/// A working directory of a program, and a directory for files that are moved away.
struct World {
    _directory: TempDir,
    root: PathBuf,
    work: PathBuf,
    user: GitUser,
    /// Directories with repositories that are deeper than those nearby.
    deep: Vec<&'static str>,
}

impl World {
    fn new() -> Self {
        let (directory, root) = directory();
        let work = root.join("work");
        fs::create_dir_all(&work).unwrap();
        Self { _directory: directory, work, root, user: GitUser::default(), deep: Vec::new() }
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.work.join(path), text);
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.work.join(path)).ok()
    }

    fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.work.join(path)).is_ok()
    }

    fn repositories(&self) -> Vec<PathBuf> {
        nearby(&self.work).into_iter().chain(self.deep.iter().map(|path| self.work.join(path))).collect()
    }

    fn protection(&self) -> Protection {
        let deep: Vec<String> = self.repositories().iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        Protection::before(&find(&self.work, &deep, &self.user))
    }

    /// Runs a program, and returns the paths about which there is a report, with the measure.
    fn run(&self, program: impl FnOnce(&Self)) -> Vec<(String, Fate)> {
        let protection = self.protection();
        program(self);
        let reverted = protection.after(&self.repositories(), &[], &self.root.join("away"), None);
        let name = |path: &Path| path.strip_prefix(&self.work).unwrap().to_string_lossy().into_owned();
        reverted.into_iter().map(|reverted| (name(&reverted.path), reverted.fate)).collect()
    }

    fn paths(&self, program: impl FnOnce(&Self)) -> Vec<String> {
        self.run(program).into_iter().map(|(path, _)| path).collect()
    }
}

#[test]
fn created_files_are_moved_away_and_links_restored() {
    let world = World::new();
    world.write("config/x", "");
    symlink("config", world.work.join(".vscode")).unwrap();
    let reverted = world.run(|world| {
        world.write(".mcp.json", "{}");
        fs::remove_file(world.work.join(".vscode")).unwrap();
        world.write(".vscode/tasks.json", "x");
    });
    assert_eq!(reverted.len(), 2, "{reverted:?}");
    assert!(!world.exists(".mcp.json"));
    assert_eq!(fs::read_link(world.work.join(".vscode")).unwrap(), Path::new("config"));
    let places: Vec<&PathBuf> = reverted
        .iter()
        .map(|(_, fate)| match fate {
            Fate::Moved(to) | Fate::Restored(Some(to)) => to,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(places.iter().all(|path| path.starts_with(world.root.join("away")) && path.exists()), "{places:?}");
    assert_eq!(world.run(|_| {}), []);
}

#[test]
fn link_on_the_way_to_an_absent_path_is_moved_away() {
    let world = World::new();
    repository(&world.work.join(".git"), "\thooksPath = tools/hooks\n[include]\n\tpath = ../cfg/more\n");
    write(&world.root.join("mine/attributes"), "*.x filter=mine");
    let paths = world.paths(|world| {
        world.write("elsewhere/hooks/pre-commit", "x");
        symlink("elsewhere", world.work.join("tools")).unwrap();
        world.write("real/more", "x");
        symlink("real", world.work.join("cfg")).unwrap();
        symlink(world.root.join("mine"), world.work.join(".git/info")).unwrap();
        symlink("later", world.work.join(".hg")).unwrap();
    });
    assert_eq!(paths, [".git/info", ".hg", "cfg", "tools"]);
    assert!(!world.exists("tools") && !world.exists("cfg") && !world.exists(".git/info"));
    // The files behind them are not the program's, or are harmless there.
    assert!(world.exists("elsewhere/hooks/pre-commit") && world.root.join("mine/attributes").exists());
}

#[test]
fn links_of_a_repository_that_were_there_stay() {
    let world = World::new();
    repository(&world.work.join(".git"), "");
    world.write("mine/attributes", "*.x filter=mine");
    symlink("../mine", world.work.join(".git/info")).unwrap();
    assert_eq!(world.run(|_| {}), []);
    assert!(world.exists(".git/info/attributes"));
}

#[test]
fn targets_of_dangling_links_stay_absent() {
    let world = World::new();
    repository(&world.work.join(".git"), "");
    symlink("../githooks", world.work.join(".git/hooks")).unwrap();
    symlink("cfg", world.work.join(".zed")).unwrap();
    let paths = world.paths(|world| {
        world.write("githooks/post-checkout", "x");
        world.write("cfg/tasks.json", "x");
    });
    assert_eq!(paths, ["cfg", "githooks"]);
}

#[test]
fn closed_directories_hide_nothing() {
    let world = World::new();
    repository(&world.work.join(".git"), "\thooksPath = tools/hooks\n");
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(world.work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (closed, bits) in
        [("tools", 0o555), ("tools/hooks", 0o555), ("tools", 0), ("tools/hooks", 0), ("", 0o555), ("", 0)]
    {
        let paths = world.paths(|world| {
            world.write("tools/hooks/pre-commit", "x");
            mode(closed, bits);
        });
        mode("", 0o755);
        assert_eq!(paths, ["tools/hooks"], "{closed:?} {bits:o}");
        // It has the mode that the program gave it.
        if closed == "tools" {
            assert_eq!(fs::metadata(world.work.join("tools")).unwrap().permissions().mode() & 0o777, bits);
        }
        assert!(!world.exists("tools/hooks"));
        mode("tools", 0o755);
    }
    for away in fs::read_dir(world.root.join("away")).unwrap() {
        fs::set_permissions(away.unwrap().path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn nothing_is_deleted_where_it_cannot_be_moved() {
    let world = World::new();
    let protection = world.protection();
    world.write(".vscode/settings.json", "mine");
    // Not a directory, as another file system is not a place for a rename.
    write(&world.root.join("away"), "");
    let reverted = protection.after(&[], &[], &world.root.join("away"), None);
    let [Reverted { fate: Fate::Moved(to), .. }] = &reverted[..] else { panic!("{reverted:?}") };
    assert!(to.to_string_lossy().contains(".vscode.pinion-removed-") && to.parent() == Some(&world.work), "{to:?}");
    assert_eq!(fs::read_to_string(to.join("settings.json")).unwrap(), "mine");
}

#[test]
fn new_repository_keeps_all_but_what_runs_programs() {
    let usual = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a.example/b\n[pull]\n\trebase = true\n";
    let create = |config: &str| {
        let world = World::new();
        let reverted = world.run(|world| {
            world.write("sub/.git/HEAD", "ref: refs/heads/main\n");
            world.write("sub/.git/config", config);
            world.write("sub/.git/hooks/pre-commit.sample", "");
        });
        assert!(world.exists("sub/.git/HEAD") && world.exists("sub/.git/hooks/pre-commit.sample"));
        (world.text("sub/.git/config").unwrap(), reverted)
    };
    assert_eq!(create(usual), (usual.to_owned(), vec![]));
    for bad in [
        "[core]\n\tfsmonitor = ./x\n",
        "[core]\n\tbare = false \\\n\tfsmonitor = ./x\n",
        "[filter \"x\"]\n\tsmudge = ./x\n",
        "[Include]\n\tpath = x\n",
        "[core] fsmonitor = ./x\n",
        "[user \"]\n[core]\"] name = x\n[alias]\n\tst = !x\n",
        "[user][core]\n\tfsmonitor = ./x\n",
    ] {
        let (kept, reverted) = create(&format!("{usual}{bad}"));
        assert!(matches!(&reverted[..], [(_, Fate::Reduced(_))]), "{reverted:?}");
        let names: Vec<String> = parse(kept.as_bytes()).into_iter().map(|entry| entry.name).collect();
        let has = |name: &&str| names.iter().any(|found| found == name);
        assert!(["url", "rebase"].iter().all(has) && !["fsmonitor", "smudge", "path", "st"].iter().any(has), "{kept}");
    }
    let world = World::new();
    let reverted = world.run(|world| {
        world.write(".git/config", &format!("{}[core]\nfsmonitor = ./x\n", "\n".repeat(600_000)));
        world.write(".git/hooks/post-checkout", "x");
        world.write(".git/hooks/pre-commit.sample", "");
        world.write(".git/commondir", "../x");
    });
    assert!(reverted.len() == 3 && reverted.iter().all(|(_, fate)| matches!(fate, Fate::Moved(_))), "{reverted:?}");
    assert!(!world.exists(".git/config") && world.exists(".git/hooks/pre-commit.sample"));
    assert_eq!(world.paths(|world| fs::remove_dir_all(world.work.join(".git")).unwrap()), [""; 0]);
}

#[test]
fn hooks_that_are_too_many_to_tell_apart_are_moved_together() {
    let world = World::new();
    let paths = world.paths(|world| {
        repository(&world.work.join("sub/.git"), "");
        // More than a process can have open at a time.
        (0..2_000).for_each(|at| world.write(&format!("sub/.git/hooks/{at}.sample"), ""));
        world.write("sub/.git/hooks/post-checkout", "x");
    });
    assert_eq!(paths, ["sub/.git/hooks"]);
    assert!(!world.exists("sub/.git/hooks"));
}

#[test]
fn new_repositories_are_found_in_every_form() {
    let mut world = World::new();
    world.deep = vec!["a/b/c", "store/evil"];
    let evil = "\tfsmonitor = ./x\n";
    let paths = world.paths(|world| {
        repository(&world.work.join("a/b/c/.git"), evil);
        repository(&world.work.join("bare.git"), evil);
        // The top itself, and one that a link and a pointer lead to.
        repository(&world.work, evil);
        repository(&world.work.join("store/evil"), evil);
        world.write("pointing/.git", "gitdir: ../store/evil\n");
        fs::create_dir(world.work.join("linking")).unwrap();
        symlink("../store/evil", world.work.join("linking/.git")).unwrap();
    });
    assert_eq!(paths.len(), 4, "{paths:?}");
    for path in ["a/b/c/.git/config", "bare.git/config", "config", "store/evil/config"] {
        assert!(paths.iter().any(|found| found == path) && !world.text(path).unwrap().contains("fsmonitor"), "{path}");
    }
    assert!(world.exists("pointing/.git") && world.exists("linking/.git"), "they lead to what is harmless");
    // To a repository that is not checked, such as one outside.
    repository(&world.root.join("outside/.git"), evil);
    let paths = world.paths(|world| world.write("sub/.git", "gitdir: ../../outside/.git\n"));
    assert_eq!(paths, ["sub/.git"]);
}

#[test]
fn repository_of_a_new_submodule_keeps_its_tree() {
    let world = World::new();
    repository(&world.work.join(".git"), "");
    let paths = world.paths(|world| {
        repository(&world.work.join(".git/modules/lib"), "\tworktree = ../../../lib\n");
        world.write("lib/.git", "gitdir: ../.git/modules/lib\n");
        repository(&world.work.join(".git/modules/evil"), "\tworktree = ../../../../outside\n");
    });
    assert_eq!(paths, [".git/modules/evil/config"]);
    assert!(world.text(".git/modules/lib/config").unwrap().contains("worktree"));
}

#[test]
fn files_that_the_users_settings_name_in_a_new_repository_are_moved_away() {
    let mut world = World::new();
    world.user.environment = b"[core]\n\thooksPath = .ownhooks\n\tfsmonitor = sh watch.sh\n".to_vec();
    let paths = world.paths(|world| {
        repository(&world.work.join("sub/.git"), "");
        world.write("sub/.ownhooks/pre-commit", "x");
        world.write("sub/watch.sh", "x");
    });
    assert_eq!(paths, ["sub/.ownhooks", "sub/watch.sh"]);
}

#[test]
fn worktrees_can_be_added_moved_and_removed() {
    let world = World::new();
    let git = repository(&world.work.join(".git"), "[filter \"x\"]\n\tclean = sh clean.sh\n");
    world.write("clean.sh", "mine");
    let (one, two, new) = (world.work.join("one"), world.work.join("two"), world.work.join("new"));
    let (admin, gone) = (worktree(&git, "one", &one), worktree(&git, "two", &two));
    fs::write(one.join("clean.sh"), "other branch").unwrap();
    let paths = world.paths(|world| {
        fs::rename(&one, world.work.join("moved")).unwrap();
        fs::write(admin.join("gitdir"), format!("{}/.git\n", world.work.join("moved").display())).unwrap();
        fs::remove_dir_all(&two).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        worktree(&git, "new", &new);
        fs::write(new.join("clean.sh"), "mine").unwrap();
    });
    assert_eq!(paths, [""; 0]);
    assert!(world.exists("moved/.git") && world.exists("moved/clean.sh") && world.exists("new/clean.sh"));
    let paths = world.paths(|world| {
        worktree(&git, "evil", &world.work.join("evil"));
        world.write("evil/clean.sh", "evil");
    });
    assert_eq!(paths, ["evil/clean.sh"]);
}

#[test]
fn what_leads_from_a_worktree_to_its_repository_is_put_back() {
    let world = World::new();
    let git = repository(&world.work.join(".git"), "[filter \"x\"]\n\tclean = sh clean.sh\n");
    let tree = world.work.join("tree");
    let admin = worktree(&git, "tree", &tree);
    world.write("tree/clean.sh", "mine");
    let reverted = world.run(|world| {
        fs::write(admin.join("commondir"), "../../../store\n").unwrap();
        fs::write(admin.join("config.worktree"), "[core]\n\tfsmonitor = ./x\n").unwrap();
        fs::remove_file(tree.join(".git")).unwrap();
        repository(&tree.join(".git"), "\tfsmonitor = ./x\n");
        world.write("tree/clean.sh", "evil");
    });
    assert!(reverted.len() >= 4, "{reverted:?}");
    assert_eq!(fs::read_to_string(admin.join("commondir")).unwrap(), "../..\n");
    assert!(!fs::read_to_string(admin.join("config.worktree")).unwrap_or_default().contains("fsmonitor"));
    assert!(fs::read_to_string(tree.join(".git")).unwrap().starts_with("gitdir: "));
    assert_eq!(world.text("tree/clean.sh").unwrap(), "mine");
    assert_eq!(world.paths(|_| fs::remove_file(admin.join("commondir")).unwrap()), [".git/worktrees/tree/commondir"]);
    assert!(admin.join("commondir").exists(), "it would be a repository of its own");
}

#[test]
fn rest_of_a_rebase_keeps_the_commands_that_run_nothing() {
    let world = World::new();
    repository(&world.work.join(".git"), "");
    let todo = ".git/rebase-merge/git-rebase-todo";
    world.write(todo, "pick a\nexec mine\n");
    let paths = world.paths(|world| world.write(todo, "pick a\nexec mine\n  x evil\nexec evil\nlabel x\npick b"));
    assert_eq!(paths, [todo]);
    assert_eq!(world.text(todo).unwrap(), "pick a\nexec mine\nlabel x\npick b");
    assert_eq!(world.paths(|world| world.write(todo, "pick c\n")), [""; 0]);
}

#[test]
fn file_that_leads_jj_to_another_repository_is_moved_away() {
    let world = World::new();
    let lead = |world: &World| {
        world.write("other/config.toml", "[ui]\npager = 'evil'\n");
        world.write(".jj/repo", "../other");
    };
    assert_eq!(world.paths(lead), [".jj/repo"]);
    assert_eq!(world.paths(|world| world.write(".jj/repo/store/type", "git")), [""; 0]);
    let swap = |world: &World| {
        fs::rename(world.work.join(".jj/repo"), world.work.join("moved")).unwrap();
        lead(world);
    };
    assert_eq!(world.paths(swap), [".jj/repo"]);
    // A workspace of jj besides the first has such a file.
    world.write(".jj/repo", "../first");
    assert_eq!(world.paths(|world| world.write("x", "")), [""; 0]);
    assert_eq!(world.paths(|world| world.write(".jj/repo", "../other")), [".jj/repo"]);
    assert_eq!(world.text(".jj/repo").unwrap(), "../first");
}

#[test]
fn merge_strategies_that_are_programs_are_put_back() {
    let world = World::new();
    repository(&world.work.join(".git"), "");
    let (strategy, options) = (".git/rebase-merge/strategy", ".git/sequencer/opts");
    let usual = "[options]\n\tedit = true\n\tstrategy = ort\n";
    let paths = world.paths(|world| {
        world.write(strategy, "ours\n");
        world.write(options, usual);
    });
    assert_eq!(paths, [""; 0]);
    let paths = world.paths(|world| {
        world.write(strategy, "x/evil\n");
        world.write(options, "[options]\n\tstrategy = ort\n\tstrategy = x/evil\n");
    });
    assert_eq!(paths, [strategy, options]);
    assert_eq!((world.text(strategy).unwrap(), world.text(options).unwrap()), ("ours\n".into(), usual.into()));
    let gone =
        |world: &World| [strategy, options].iter().for_each(|path| fs::remove_file(world.work.join(path)).unwrap());
    assert_eq!(world.paths(gone), [""; 0]);
    let paths = world.paths(|world| world.write(options, "[options]\n\tstrategy = evil\n"));
    assert_eq!(paths, [options]);
    assert_eq!(world.text(options), None);
}

#[test]
fn files_that_lost_their_mounts_are_compared() {
    let world = World::new();
    repository(&world.work.join(".git"), "\teditor = mine\n");
    for path in [".envrc", ".bashrc", ".vscode/tasks.json"] {
        world.write(path, "mine");
    }
    let replace = |path: &str, text: &str| {
        let new = world.work.join("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, world.work.join(path)).unwrap();
    };
    let config = world.text(".git/config").unwrap();
    let reverted = world.run(|world| {
        replace(".git/config", &format!("{config}\tfsmonitor = ./x\n[branch \"a\"]\n\tremote = b\n"));
        replace(".envrc", "mine");
        replace(".bashrc", "other");
        fs::rename(world.work.join(".vscode"), world.work.join("v")).unwrap();
        world.write(".vscode/tasks.json", "other");
    });
    let fates: Vec<_> = reverted.iter().map(|(path, fate)| (path.as_str(), fate)).collect();
    assert!(
        matches!(
            fates[..],
            [(".bashrc", Fate::Replaced), (".git/config", Fate::Reduced(_)), (".vscode", Fate::Replaced)]
        ),
        "{fates:?}"
    );
    let kept = world.text(".git/config").unwrap();
    assert!(kept.contains("editor = \"mine\"") && kept.contains("remote") && !kept.contains("fsmonitor"), "{kept}");
    assert_eq!(world.text(".bashrc").unwrap(), "other");
    // Changed by the user, under the mount.
    assert_eq!(world.paths(|world| fs::write(world.work.join(".envrc"), "more").unwrap()), [""; 0]);
    assert_eq!(world.paths(|world| fs::remove_file(world.work.join(".envrc")).unwrap()), [""; 0]);
}

#[test]
fn what_is_later_than_the_program_stays() {
    let world = World::new();
    let protection = world.protection();
    world.write(".envrc", "mine");
    let created = fs::metadata(world.work.join(".envrc")).unwrap().created().unwrap();
    let after = |until| protection.after(&[], &[], &world.root.join("away"), Some(until)).len();
    assert_eq!(after(created - Duration::from_secs(1)), 0);
    assert_eq!(after(created + Duration::from_secs(1)), 1);
}

#[test]
fn notes_have_all_that_is_needed_afterwards() {
    let mut world = World::new();
    world.user.environment = b"[core]\n\thooksPath = .ownhooks\n".to_vec();
    let git = repository(&world.work.join(".git"), "");
    worktree(&git, "tree", &world.work.join("tree"));
    let protection = world.protection();
    let note = serde_json::to_string(&protection).unwrap();
    world.write(".envrc", "x");
    fs::write(git.join("worktrees/tree/commondir"), "x").unwrap();
    repository(&world.work.join("sub/.git"), "\tfsmonitor = x\n");
    world.write("sub/.ownhooks/x", "");
    let read: Protection = serde_json::from_str(&note).unwrap();
    let reverted = read.after(&world.repositories(), &[], &world.root.join("away"), None);
    assert_eq!(reverted.len(), 4, "{reverted:?}");
}

#[test]
fn new_settings_deeper_inside_are_moved_and_copies_stay() {
    let world = World::new();
    let root = &world.work;
    world.write(".vscode/tasks.json", "{}");
    world.write("old/.vscode/tasks.json", "{}");
    let (roots, settings) = ([root.clone()], [root.join("old/.vscode")]);
    let before =
        Protected::find(ProtectedPlaces { roots: &roots, repositories: &[], settings: &settings, user: &world.user });
    assert!(before.closed().any(|path| *path == root.join("old/.vscode")));
    let protection = Protection::before(&before);
    world.write("sub/.vscode/tasks.json", "{ \"command\": \"x\" }");
    world.write("tree/.vscode/tasks.json", "{}");
    world.write("my.code-workspace", "{}");
    let settings = ["old/.vscode", "sub/.vscode", "tree/.vscode", "my.code-workspace"].map(|path| root.join(path));
    let reverted = protection.after(&[], &settings, &world.root.join("away"), None);
    let moved: Vec<&PathBuf> = reverted.iter().map(|one| &one.path).collect();
    assert_eq!(moved, [&root.join("sub/.vscode"), &root.join("my.code-workspace")], "{reverted:?}");
    assert!(root.join("tree/.vscode/tasks.json").exists() && root.join("old/.vscode/tasks.json").exists());
}

#[test]
fn closed_directories_are_open_only_as_long_as_they_are_looked_at() {
    let world = World::new();
    let closed = world.work.join("closed");
    fs::create_dir_all(&closed).unwrap();
    let mode = || fs::metadata(&closed).unwrap().permissions().mode() & 0o777;
    let set_mode = |mode: u32| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let mut opened = OpenedDirectories::default();
    let mut open = |path: &Path| opened.open(std::slice::from_ref(&world.work), &[path.to_owned()]);
    set_mode(0o755);
    assert!(!open(&closed) && !open(&world.work.join("missing")) && !open(&world.root.join("elsewhere")));
    set_mode(0);
    assert!(open(&closed) && !open(&closed));
    assert_eq!(mode(), 0o700);
    drop(opened);
    assert_eq!(mode(), 0);
    set_mode(0o700);
}

#[test]
fn link_in_the_place_of_a_file_is_not_read() {
    let world = World::new();
    world.write("file", "text");
    symlink("file", world.work.join("link")).unwrap();
    let mut none = place::UnlockedDirectories::default();
    let mut reach = |name| place::DirectoryName::reach(&world.work, &world.work.join(name), &mut none).unwrap();
    let place::Reached::At(file) = reach("file") else { panic!("it is a file") };
    assert_eq!(file.read().as_deref(), Some(&b"text"[..]));
    let (place::Reached::Link(link) | place::Reached::At(link)) = reach("link") else { panic!("it is a link") };
    assert_eq!(link.read(), None);
}
