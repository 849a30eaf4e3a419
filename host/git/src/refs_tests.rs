use super::*;
use std::io::Write as _;
use std::process::{Command, Stdio};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = command.args(arguments).current_dir(directory).output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim_end().to_owned()
}

/// Creates refs that fill several blocks of a table.
fn many(directory: &Path) {
    let mut command = Command::new("git");
    command.args(["update-ref", "--stdin"]).current_dir(directory).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    (0..300).for_each(|number| writeln!(input, "create refs/many/{number} HEAD").unwrap());
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Makes a repository with branches, tags, a stash, packed and loose refs, and returns git's list of its refs.
fn repository(directory: &Path, format: &str) -> Refs {
    git(directory, &["init", "-q", &format!("--ref-format={format}")]);
    for number in 0..3 {
        git(directory, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(directory, &["branch", &format!("b/{number}")]);
    }
    git(directory, &["tag", "light"]);
    git(directory, &["tag", "-a", "-m", "x", "heavy"]);
    many(directory);
    git(directory, &["pack-refs", "--all"]);
    git(directory, &["branch", "-f", "b/0", "HEAD"]);
    git(directory, &["branch", "-D", "b/2"]);
    git(directory, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    let listed = git(directory, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let listed = listed.lines().filter_map(|line| line.split_once(' '));
    let mut expected: Refs = listed.map(|(name, object)| (name.to_owned(), object.to_owned())).collect();
    expected.insert("HEAD".to_owned(), format!("ref: {}", git(directory, &["symbolic-ref", "HEAD"])));
    expected.insert("refs/remotes/origin/HEAD".to_owned(), "ref: refs/remotes/origin/main".to_owned());
    expected
}

#[test]
fn refs_are_read_as_git_reads_them_in_both_formats() {
    for format in ["files", "reftable"] {
        let directory = tempfile::tempdir().unwrap();
        let expected = repository(directory.path(), format);
        assert!(expected.len() > 300, "{format}: {expected:?}");
        assert_eq!(refs(&directory.path().join(".git")).unwrap(), expected, "{format}");
    }
}

#[test]
fn linked_worktree_has_a_head_of_its_own() {
    for format in ["files", "reftable"] {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = repository(directory.path(), format);
        git(directory.path(), &["worktree", "add", "-q", "-b", "other", "tree"]);
        let head = expected.insert("HEAD".to_owned(), "ref: refs/heads/other".to_owned());
        assert_eq!(head.unwrap(), "ref: refs/heads/main");
        expected.insert("refs/heads/other".to_owned(), expected["refs/heads/main"].clone());
        assert_eq!(refs(&directory.path().join(".git/worktrees/tree")).unwrap(), expected, "{format}");
    }
}

#[test]
fn each_stash_is_one_ref() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path();
    repository(tree, "files");
    std::fs::write(tree.join("a"), "1").unwrap();
    git(tree, &["add", "a"]);
    git(tree, &["commit", "-q", "-m", "x"]);
    for content in ["2", "3"] {
        std::fs::write(tree.join("a"), content).unwrap();
        git(tree, &["stash", "-q"]);
    }
    let [last, first] = ["stash@{0}", "stash@{1}"].map(|stash| git(tree, &["rev-parse", stash]));
    let found = refs(&tree.join(".git")).unwrap();
    let found: Vec<&str> = found.keys().filter_map(|name| name.strip_prefix(STASH)).collect();
    let mut expected = [&*last, &*first];
    expected.sort_unstable();
    assert_eq!(found, expected);
    // The command brings a dropped one back.
    git(tree, &["stash", "drop", "-q", "stash@{1}"]);
    let command = command_to_restore(&format!("{STASH}{first}"), Some(&first), None).unwrap();
    git(tree, &command.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(git(tree, &["rev-parse", "stash@{0}"]), first);
}

#[test]
fn names_that_git_refuses_and_files_that_are_no_refs_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path();
    let expected = repository(tree, "files");
    let heads = tree.join(".git/refs/heads");
    let object = &expected["refs/heads/main"];
    for name in ["a b", "a\u{1b}[2J", "a..b", "x.lock", "-\n-"] {
        std::fs::write(heads.join(name), object).unwrap();
    }
    std::fs::write(heads.join("secret"), "password").unwrap();
    std::fs::write(heads.join("sideways"), "ref: refs/heads/a b").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", heads.join("link")).unwrap();
    assert_eq!(refs(&tree.join(".git")).unwrap(), expected);
}

#[test]
fn commands_restore_what_moved_and_what_vanished() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path();
    let before = repository(tree, "files");
    for arguments in [
        &["reset", "-q", "--soft", "HEAD~2"][..],
        &["branch", "-D", "b/0"],
        &["branch", "new"],
        &["update-ref", "-d", "refs/many/7"],
        &["checkout", "-q", "--detach"],
        &["symbolic-ref", "refs/heads/b/1", "refs/heads/main"],
    ] {
        git(tree, arguments);
    }
    let after = refs(&tree.join(".git")).unwrap();
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    for name in changed {
        let (was, now) = (before.get(name).map(String::as_str), after.get(name).map(String::as_str));
        let command = command_to_restore(name, was, now).unwrap();
        git(tree, &command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(refs(&tree.join(".git")).unwrap(), before);
}

#[test]
fn damaged_tables_are_read_as_refs_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    repository(directory.path(), "reftable");
    let tables = directory.path().join(".git/reftable");
    let list = std::fs::read_to_string(tables.join("tables.list")).unwrap();
    let table = tables.join(list.lines().next().unwrap());
    let sound = std::fs::read(&table).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).unwrap()
    };
    for _ in 0..2_000 {
        let mut bytes = sound.clone();
        for _ in 0..=below(4) {
            match below(3) {
                0 => bytes.truncate(below(bytes.len()) + 1),
                _ => {
                    let at = below(bytes.len());
                    bytes[at] = u8::try_from(below(256)).unwrap();
                }
            }
        }
        std::fs::write(&table, bytes).unwrap();
        let names = refs(&directory.path().join(".git")).into_iter().flatten();
        assert!(names.into_iter().all(|(name, target)| is_name(&name) && is_target(&target)));
    }
}
