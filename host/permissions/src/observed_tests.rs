//! Commands that need no question, run under observation: no command opens files that are outside the workspace or
//! excluded.

use crate::tests::rules;
use crate::{ModePolicy, Otherwise, Scene, Verdict, judge};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// Text in all files that no command may show.
const MARK: &str = "sentinel-7f3a";
/// Lines; `{}` stands for each of [`READERS`].
const OF_READERS: &[&str] = &[
    "{} src/a.rs",
    "{} a/notes",
    "{} a b",
    "{} link/secret.txt",
    "{} < a/notes",
    "{} .env",
    "{} private",
    "{} a/*",
    "{} src/*",
    "{} .",
    "{} @args",
    "{} -r .",
    "{} -R .",
    "{} -L .",
    "{} -f list",
    "{} -c sums",
    "{} --files0-from=list0",
    "{} --files-from=list",
    "{} --follow .",
];
const READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "nl",
    "tac",
    "rev",
    "cut -c1-",
    "fold",
    "paste",
    "comm",
    "cmp",
    "od",
    "hexdump",
    "strings",
    "column",
    "cksum",
    "md5sum",
    "sha256sum",
    "b2sum",
    "expand",
    "fmt",
    "sort",
    "uniq",
    "xxd",
    "diff",
    "grep e",
    "grep -n e",
    "rg e",
    "wc",
    "file",
    "ls",
    "stat",
    "du",
    "tree",
    "find",
    "readlink",
    "realpath",
    "date",
    "test -e",
    "sed -n 1p",
];
const LINES: &[&str] = &[
    "diff a b",
    "diff -u a b",
    "diff -q a b",
    "diff -N a b",
    "diff -r a b",
    "diff -ur a b",
    "diff --recursive a b",
    "diff a/notes b/notes",
    "diff a b/notes",
    "diff b/notes a",
    "diff -x '*.md' a b",
    "diff -X list a b",
    "diff --from-file=a b",
    "diff --to-file a b",
    "diff - a",
    "diff a/own b/own",
    "diff -- a b",
    "diff src/a.rs .env",
    "sort --files0-from=list0",
    "sort --random-source=a/notes -R src/a.rs",
    "sort -T link src/a.rs",
    "sort -m a/notes",
    "wc --files0-from=list0",
    "wc --files0-from list0",
    "wc -l a/n*",
    "wc -l */notes",
    "wc -l .e*",
    "wc -l private/*",
    "wc -c .env",
    "du --files0-from=list0",
    "du -aL .",
    "du -aD link",
    "du -X list .",
    "ls -LR",
    "ls -RL .",
    "ls -lH link",
    "ls link/",
    "ls -d link/*",
    "ls */",
    "ls a/*",
    "ls -la --dereference-command-line link",
    "tree -l",
    "tree --fromfile list",
    "tree --info",
    "tree --gitfile a/notes",
    "find -L . -name '*.txt'",
    "find -H link -name '*.txt'",
    "find . -follow",
    "find link/ -name '*'",
    "find . -files0-from list0",
    "find -files0-from list0",
    "find . -newer link/secret.txt",
    "find . -name '*.rs' -newer src/a.rs",
    "find . -fprintf out x",
    "find . -type f -size +1 -perm -644",
    "file -f list",
    "file --files-from list",
    "file -m a/notes src/a.rs",
    "file -z src/a.rs",
    "file a/*",
    "file .env",
    "file --magic-file a/notes src/a.rs",
    "md5sum -c sums",
    "md5sum --check sums",
    "sha256sum --ignore-missing -c sums",
    "cksum --check sums",
    "b2sum -wc sums",
    "strings @args",
    "strings -n 3 @args",
    "strings -- @args",
    "date -f list",
    "date --file=list",
    "date --file list",
    "date -r a/notes",
    "date -r src/a.rs +%s",
    "hexdump -f list src/a.rs",
    "grep -R sentinel .",
    "grep -r sentinel .",
    "grep -r sentinel a",
    "grep -r sentinel a/",
    "grep -rS sentinel .",
    "grep -f a/notes src/a.rs",
    "grep -if a/notes src/a.rs",
    "grep --file=a/notes src/a.rs",
    "grep --fil a/notes src/a.rs",
    "grep --exclude-from=a/notes -r x src",
    "grep -d recurse sentinel .",
    "grep --directories=recurse sentinel .",
    "grep --directories=recurse sentinel src",
    "grep --dereference-recursive x .",
    "grep -r sentinel src a b",
    "grep -rn sentinel src",
    "grep -rl sentinel --include='*.rs' src",
    "grep -r sentinel --include='.env' .",
    "rg sentinel",
    "rg -L sentinel",
    "rg --follow sentinel src",
    "rg -f a/notes",
    "rg --ignore-file a/notes x src",
    "rg --pre cat x src",
    "rg --no-ignore sentinel src",
    "rg -uuu sentinel",
    "rg --search-zip x src",
    "cat src/a.rs src/b.rs",
    "cat -- a/notes",
    "cat -n src/a.rs",
    "cd a && cat notes",
    "cd a && cat own",
    "cd link && ls",
    "cd a; diff . ../b",
    "cd private && cat x",
    "cat private/x",
    "cat ./private/../.env",
    "cat hard",
    "cat inner",
    "head -n 3 src/a.rs",
    "head -5 src/a.rs | tail -2",
    "tail -f src/a.rs",
    "tail -n +2 src/a.rs",
    "cut -d: -f1 src/a.rs",
    "sed -n '1,5p' src/a.rs",
    "sed -n '1p' a/notes",
    "sed -n '1p' .env",
    "sed -n 'r a/notes' src/a.rs",
    "sed -n '1,$p' src/a.rs -f list",
    "xargs cat < list",
    "xargs -a list cat",
    "cat $(cat list)",
    "find . -name notes -exec cat {} +",
    "env -C link cat secret.txt",
    "timeout 5 cat a/notes",
    "nice cat src/a.rs",
    "git status",
    "git status -v",
    "git status -vv",
    "git status --short",
    "git diff",
    "git diff --stat",
    "git diff --name-only",
    "git diff --stat -p",
    "git diff --cached",
    "git diff HEAD",
    "git diff HEAD~1",
    "git diff HEAD~1 HEAD -- src",
    "git diff HEAD~1 -- .env",
    "git diff -- .",
    "git diff -- src",
    "git diff src",
    "git diff .env",
    "git diff --no-index a b",
    "git diff --no-ind a b",
    "git diff .. src",
    "git diff ../outside src",
    "git diff link src",
    "git diff -O a/notes",
    "git grep sentinel",
    "git grep sentinel -- src",
    "git grep sentinel src",
    "git grep -f a/notes",
    "git grep --untracked sentinel",
    "git grep --untracked sentinel src",
    "git grep --no-exclude-standard --untracked sentinel",
    "git grep --cached sentinel",
    "git grep sentinel HEAD",
    "git grep sentinel HEAD -- src",
    "git grep -e sentinel -- ':!src'",
    "git grep -e sentinel",
    "git grep x ..",
    "git show",
    "git show HEAD",
    "git show --stat",
    "git show --stat HEAD",
    "git show --stat HEAD:.env",
    "git show HEAD:.env",
    "git show HEAD:./.env",
    "git show HEAD:src/a.rs",
    "git show HEAD:private/x",
    "git show :.env",
    "git show :0:.env",
    "git show HEAD -- src",
    "git show HEAD -- .env",
    "git log",
    "git log --oneline -5",
    "git log -p",
    "git log -p -1 -- src",
    "git log -p -- .env",
    "git log --patch",
    "git log -u",
    "git log -U1",
    "git log -L1,2:.env",
    "git log -L1,2:src/a.rs",
    "git log --stat",
    "git log --stat -p",
    "git log -c -p",
    "git log -m -p --first-parent",
    "git log --color-words",
    "git log --word-diff",
    "git log -G sentinel",
    "git log --format=%H",
    "git log --format=%s --name-only",
    "git stash list",
    "git stash list -p",
    "git blame .env",
    "git blame src/a.rs",
    "git blame HEAD -- .env",
    "git blame HEAD .env",
    "git blame -S a/notes src/a.rs",
    "git blame --contents a/notes src/a.rs",
    "git cat-file -p HEAD",
    "git cat-file -p HEAD:.env",
    "git cat-file -p HEAD:src/a.rs",
    "git cat-file blob HEAD:.env",
    "git cat-file blob HEAD:src/a.rs",
    "git cat-file -t HEAD",
    "git cat-file -s HEAD:.env",
    "echo HEAD:.env | git cat-file --batch",
    "git cat-file --batch --batch-all-objects",
    "git diff-tree -p HEAD",
    "git diff-tree --name-only HEAD~1 HEAD",
    "git ls-files",
    "git ls-files -o -X a/notes",
    "git ls-tree HEAD",
    "git rev-parse HEAD",
    "git shortlog -s HEAD",
    "git rev-list --count HEAD",
    "git describe --always",
];

struct World {
    _directory: tempfile::TempDir,
    workspace: PathBuf,
    outside: PathBuf,
    home: PathBuf,
    watched: Vec<PathBuf>,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let [workspace, outside, home] = ["work", "outside", "home"].map(|name| root.join(name));
        for path in [&workspace.join("src"), &workspace.join("a"), &workspace.join("b"), &workspace.join("private")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::create_dir_all(&home).unwrap();
        let secret = outside.join("secret.txt");
        fs::write(&secret, format!("{MARK} outside\n")).unwrap();
        fs::write(outside.join("sub/deep.txt"), format!("{MARK} deep\n")).unwrap();
        let write = |path: &str, text: &str| fs::write(workspace.join(path), text).unwrap();
        write("src/a.rs", "one\ntwo sentinel\nthree\n");
        write("src/b.rs", "four\n");
        write("a/own", "a\n");
        write("b/own", "b\n");
        write("b/notes", "plain\n");
        write(".env", &format!("KEY={MARK}\n"));
        write("private/x", &format!("{MARK} private\n"));
        write("list", &format!("{}\n", secret.display()));
        write("args", &format!("{}\n", secret.display()));
        write("list0", &format!("{}\0", secret.display()));
        write("sums", &format!("d41d8cd98f00b204e9800998ecf8427e  {}\n", secret.display()));
        symlink(&secret, workspace.join("a/notes")).unwrap();
        symlink(&outside, workspace.join("link")).unwrap();
        symlink(".env", workspace.join("inner")).unwrap();
        fs::hard_link(workspace.join(".env"), workspace.join("hard")).unwrap();
        let mut watched = vec![secret, outside.join("sub/deep.txt"), outside.clone(), outside.join("sub")];
        watched.extend([".env", "private/x"].map(|name| workspace.join(name)));
        let world = Self { _directory: directory, workspace, outside, home, watched };
        for line in [
            "git init -q . && git config user.email a@b.example && git config user.name a && git config gc.auto 0",
            "git add -f src a/own b .env private && git commit -qm first",
            "echo more >> src/a.rs && echo KEY=sentinel-7f3a-2 >> .env && git commit -qam second && echo x >> src/b.rs",
            "echo KEY=sentinel-7f3a-3 >> .env && echo y > src/new.rs && rm -r .git/hooks",
        ] {
            assert!(world.run(line).status.success(), "{line}");
        }
        world
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new("bash");
        command.args(["--norc", "--noprofile", "-c", line]).current_dir(&self.workspace).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.home);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C").output().unwrap()
    }

    fn age(&self) {
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for path in &self.watched {
            File::open(path).unwrap().set_times(FileTimes::new().set_accessed(long_ago)).unwrap();
        }
    }

    /// Returns the watched paths that were read since [`Self::age`], where the file system says so.
    fn accessed(&self) -> Vec<&PathBuf> {
        let is_accessed = |path: &&PathBuf| {
            let since = fs::metadata(path).unwrap().accessed().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            since.as_secs() != 1_000_000
        };
        self.watched.iter().filter(is_accessed).collect()
    }
}

#[test]
fn command_without_a_question_opens_nothing_outside_and_nothing_excluded() {
    let world = World::new();
    let excluded = [".env", "hard", "private"].map(|name| world.workspace.join(name));
    let rules = rules(&[]).excluding(excluded.to_vec());
    let scene = Scene { workspace: &world.workspace, directory: &world.workspace, home: Some(Path::new("/home/user")) };
    let policy = ModePolicy { reads: true, otherwise: Otherwise::Ask };
    world.age();
    fs::read(&world.watched[0]).unwrap();
    let sees_access = !world.accessed().is_empty();
    assert!(String::from_utf8_lossy(&world.run("diff a b").stdout).contains(MARK), "what leaks is seen");
    let of_readers = READERS.iter().flat_map(|reader| OF_READERS.iter().map(move |line| line.replace("{}", reader)));
    let all: Vec<String> = of_readers.chain(LINES.iter().map(|line| (*line).to_owned())).collect();
    let (mut allowed, mut leaks) = (0, Vec::new());
    assert!(all.len() > 900, "{}", all.len());
    for line in &all {
        if judge(line, &scene, &rules, policy).verdict != Verdict::Allow {
            continue;
        }
        allowed += 1;
        world.age();
        let output = world.run(line);
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown);
        // Git compares tracked files with the index before it decides which files to show.
        let accessed = world.accessed();
        let is_compared = |path: &&PathBuf| line.starts_with("git") && path.starts_with(&world.workspace);
        let accessed: Vec<_> = accessed.into_iter().filter(|path| sees_access && !is_compared(path)).collect();
        if shown.contains(MARK) || !accessed.is_empty() {
            leaks.push(format!("{line}: {accessed:?} {shown:.200}"));
        }
    }
    assert!(leaks.is_empty(), "{} of {allowed} that run:\n{}", leaks.len(), leaks.join("\n"));
    assert!(allowed > 150, "{allowed}");
    assert!(world.outside.join("secret.txt").exists() && !world.workspace.join("out").exists());
}

#[test]
fn ordinary_commands_of_readers_need_no_question() {
    let world = World::new();
    let rules = rules(&[]).excluding(vec![world.workspace.join(".env")]);
    let scene = Scene { workspace: &world.workspace, directory: &world.workspace, home: None };
    let policy = ModePolicy { reads: true, otherwise: Otherwise::Ask };
    for line in [
        "ls -la src",
        "ls -ltr --color=never src",
        "cat -n src/a.rs",
        "head -20 src/a.rs",
        "head -n 20 src/a.rs",
        "tail -n +3 src/a.rs",
        "tail -c 100 src/a.rs",
        "wc -l src/*.rs",
        "sort -k2,2n -t: src/a.rs | uniq -c",
        "diff -u a/own b/own",
        "cut -d: -f1 src/a.rs",
        "grep -rn 'two' src --include='*.rs'",
        "grep -n -A3 -B 2 two src/a.rs",
        "grep -5 two src/a.rs",
        "grep -rnE 'one|two' src",
        "rg -n --glob '*.rs' two src",
        "find . -name '*.rs' -not -path './target/*' -mtime -3",
        "find src -maxdepth 2 -type f -print0",
        "du -sh src",
        "stat -c %s src/a.rs",
        "file src/a.rs",
        "tree -L 2 -I target src",
        "xxd -l16 src/a.rs",
        "od -c src/a.rs",
        "sha256sum src/a.rs",
        "git status --short",
        "git log --oneline -n 5",
        "git log --oneline --graph --all -20",
        "git diff --stat",
        "git diff -- src",
        "git show --stat HEAD",
        "git show HEAD:src/a.rs",
        "git blame src/a.rs",
        "git grep -n two -- src",
        "git log -p -- src",
    ] {
        let judgement = judge(line, &scene, &rules, policy);
        assert_eq!(judgement.verdict, Verdict::Allow, "{line}: {judgement:#?}");
    }
}
