//! The surroundings of one attempt: a workspace, a home with credentials, and processes and servers outside.

use pinion_exclusions::{Exclusions, Finder, Pattern};
use pinion_sandbox::{
    Fate, GitUser, Launcher, Layers, Limits, OpenedDirectories, Policy, Program, Protected, Protection, Reverted,
    Surroundings, helper_beside,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tempfile::TempDir;

/// The content of all credentials.
const SECRET: &str = "TOP-SECRET";
/// Files that the built-in patterns exclude, sorted.
const EXCLUDED: [&str; 4] = ["work/.env", "work/config/real", "work/keys/deep/server.key", "work/notes.txt"];
/// The user `nobody`.
const NOBODY: u32 = 65534;
const RUN_IN_SANDBOX: &str = "run-in-sandbox-for-parent";
/// Functions for scripts. Every script that ran to its end prints `tried`.
const PRELUDE: &str = r#"
py() { /usr/bin/python3 -c "import ctypes, os
L = ctypes.CDLL(None, use_errno=True)
def ok(r): print('ESCAPED' if r != -1 else 'refused')
$1"; }
call() { py "ok(L.syscall($1, $2, $3, $4, $5))"; }
evil() { mkdir -p "$(dirname "$1")" && printf '#!/bin/sh\necho evil >> "$OUT/file"; cat\n' > "$1" && chmod 755 "$1"; }
repository() { git init -q "$1" && evil "$1/evil" && git -C "$1" config core.fsmonitor ./evil; }
open_to_write() { (: >> $1) 2>/dev/null && echo ESCAPED; }
"#;

/// The user of the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// The one who runs the tests.
    This,
    /// One without rights, if the tests run as root.
    Other,
}

impl User {
    pub(super) fn is_root(self) -> bool {
        self == Self::This && rustix::process::geteuid().is_root()
    }

    /// Returns whether the tests may become this user, who must be able to run the command.
    pub(super) fn is_possible(self) -> bool {
        let is_open = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o001 != 0);
        self == Self::This || rustix::process::geteuid().is_root() && pinion_tests::binary().ancestors().all(is_open)
    }
}

pub(super) struct World {
    _directory: TempDir,
    root: PathBuf,
    user: User,
    host: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    _sockets: Vec<UnixListener>,
    abstract_name: String,
    /// A number that no other world has.
    mark: String,
    /// The number of a segment of shared memory.
    shared: String,
}

impl World {
    pub(super) fn new(user: User) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = directory.path().canonicalize().unwrap();
        for (path, text) in [
            ("outside/file", "outside\n"),
            ("home/.bashrc", "# mine"),
            ("home/.ssh/id", SECRET),
            ("home/.netrc", SECRET),
            ("home/.config/pinion/auth.toml", SECRET),
            ("home/.config/pinion/sessions/one", SECRET),
            ("home/.config/pinion/hooks/file", SECRET),
            ("home/.config/pinion/handed-out/file", "mine"),
            ("home/.config/pinion/handed-out/.env", SECRET),
            ("home/.state/file", "mine"),
            ("home/.state/.envrc", "# mine"),
            ("home/.state/inner/file", SECRET),
            ("work/.git/HEAD", "ref: refs/heads/main\n"),
            (
                "work/.git/config",
                "[core]\n\trepositoryformatversion = 0\n\thooksPath = .githooks\n[filter \"x\"]\n\tclean = sh tools/clean.sh\n\
                 [filter \"y\"]\n\tclean = python3 clean.py\n",
            ),
            ("work/tools/clean.sh", "cat"),
            ("work/clean.py", "# mine"),
            ("work/.git/worktrees/tree/HEAD", "ref: refs/heads/tree\n"),
            ("work/.git/worktrees/tree/commondir", "../..\n"),
            ("work/trees/tree/.gitattributes", "*.x filter=x\n"),
            ("work/trees/tree/tools/clean.sh", "cat"),
            ("work/deep/er/inner/.git/HEAD", "ref: refs/heads/main\n"),
            ("work/deep/er/inner/.git/config", "[core]\n\trepositoryformatversion = 0\n"),
            ("work/deep/er/inner/.git/hooks/pre-commit", "# mine"),
            ("work/deep/er/bare.git/HEAD", "ref: refs/heads/main\n"),
            ("work/deep/er/bare.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
            ("work/deep/er/bare.git/hooks/pre-receive", "# mine"),
            ("work/deep/er/bare.git/objects/info/keep", ""),
            ("work/deep/er/bare.git/refs/keep", ""),
            ("work/.git/hooks/pre-commit", "# mine"),
            ("work/.git/modules/sub/config", "# mine"),
            ("work/.git/modules/libs/deep/config", "# mine"),
            ("work/.git/modules/libs/deep/HEAD", "ref: refs/heads/main\n"),
            ("work/.git/objects/info/keep", ""),
            ("work/inner/.git/hooks/pre-commit", "# mine"),
            ("work/editor/settings.json", "# mine"),
            ("work/.githooks/pre-push", "# mine"),
            ("work/.vscode/tasks.json", "# mine"),
            ("work/src/file", "mine"),
            ("work/file", "mine"),
            ("work/.env", SECRET),
            ("work/config/real", SECRET),
            ("work/keys/deep/server.key", SECRET),
        ] {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::hard_link(root.join("work/.env"), root.join("work/notes.txt")).unwrap();
        symlink("real", root.join("work/config/.env.local")).unwrap();
        for git in ["work/.git", "work/deep/er/inner/.git"] {
            fs::create_dir_all(root.join(git).join("refs/heads")).unwrap();
            fs::create_dir_all(root.join(git).join("objects")).unwrap();
        }
        let (admin, tree) = (root.join("work/.git/worktrees/tree"), root.join("work/trees/tree"));
        fs::write(admin.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        std::os::unix::fs::symlink("editor", root.join("work/.zed")).unwrap();
        fs::create_dir_all(root.join("outside/empty")).unwrap();
        fs::create_dir_all(root.join("home/.config/pinion/scratch/tmp")).unwrap();
        let mark = format!("1{:07}{:04}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let abstract_name = format!("pinion-{mark}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets = vec![
            UnixListener::bind(root.join("outside/s")).unwrap(),
            UnixListener::bind(root.join("work/daemon")).unwrap(),
            // A name that is no text hides none of the others.
            UnixListener::bind(root.join("outside").join(OsStr::from_bytes(b"\xff"))).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        let mut world = Self {
            _directory: directory,
            host: Command::new("sleep")
                .arg("1000")
                .env("KEY", SECRET)
                .current_dir(root.join("home/.ssh"))
                .spawn()
                .unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            _sockets: sockets,
            abstract_name,
            mark,
            shared: shared_memory(),
            root,
            user,
        };
        world.give_to_user();
        world
    }

    /// Makes the user the owner of everything, and of the process outside.
    fn give_to_user(&mut self) {
        if self.user == User::Other {
            each(&self.root, &mut |path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
            let mut command = as_nobody();
            command.args(["sleep", "1000"]).env("KEY", SECRET).current_dir(self.root.join("home/.ssh"));
            let _ = (self.host.kill(), self.host.wait());
            self.host = command.spawn().unwrap();
        }
    }

    /// Returns the paths of excluded files, and the directories that keep their names.
    fn excluded(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let exclusions = Exclusions::new(&self.root.join("work"), [Pattern::built_in().collect()]).unwrap();
        let found = Finder::new(exclusions).look().unwrap();
        let excluded: Vec<_> = found.places.iter().map(|place| place.path.clone()).collect();
        assert_eq!(excluded, EXCLUDED.map(|path| self.root.join(path)));
        (excluded, ["work/keys", "work/keys/deep"].map(|path| self.root.join(path)).into())
    }

    /// Returns the directories that are writable although they are hidden themselves, or lie in a hidden one.
    fn open_in_hidden(&self) -> [PathBuf; 2] {
        [self.root.join("home/.state"), self.root.join("home/.config/pinion/handed-out")]
    }

    /// Returns the directories of repositories, and those that cannot be listed.
    fn repositories(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let found = Finder::of_repositories(&self.root.join("work"), 100_000).look().unwrap();
        (found.repositories.clone(), found.closed.clone())
    }

    fn protected(&self) -> Protected {
        let roots = [self.root.join("work"), self.root.join("home/.state")];
        let user = GitUser::default();
        Protected::find(Surroundings { roots: &roots, repositories: &self.repositories().0, user: &user })
    }

    fn policy(&self) -> Policy {
        let work = self.root.join("work");
        let (mut excluded, pinned) = self.excluded();
        let hidden = [".ssh", ".netrc", ".config/pinion", ".state", ".state/inner"];
        let [state, handed_out] = self.open_in_hidden();
        excluded.push(handed_out.join(".env"));
        let in_hidden = self.root.join("home/.config/pinion/hooks");
        Policy {
            excluded,
            pinned,
            read_only: self.protected().closed().cloned().chain([in_hidden]).collect(),
            writable: vec![work, state, handed_out],
            hidden: hidden.iter().map(|path| self.root.join("home").join(path)).collect(),
            // `/tmp`, in which the tests work, is private.
            visible: vec![self.root.clone()],
            temporary: Some(self.root.join("home/.config/pinion/scratch/tmp")),
            limits: Limits { processes: 100, file_bytes: Some(2_000_000), ..Limits::default() },
            ..Policy::default()
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &str| self.root.join(path).to_string_lossy().into_owned();
        [
            ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
            ("HOME", text("home")),
            ("OUT", text("outside")),
            ("SOCKET", text("outside/s")),
            ("LD_PRELOAD", text("work/preload.so")),
            ("SHARED", self.shared.clone()),
            ("MARK", self.mark.clone()),
            ("ABSTRACT", self.abstract_name.clone()),
            ("HOST_PID", self.host.id().to_string()),
            ("TCP", self.tcp.local_addr().unwrap().port().to_string()),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Makes an attempt in the sandbox. The user continues with `then`, outside.
    ///
    /// # Errors
    /// It reached something that it must not reach, or did not run.
    pub(super) fn attempt(&self, script: &str, then: &str, layers: Layers) -> Result<(), String> {
        let before = self.snapshot();
        let output = self.output(&format!("{script}\necho tried"), layers);
        self.judge(&before, &output)?;
        if !then.is_empty() {
            self.outside(then);
            self.judge(&before, &output)?;
        }
        Ok(())
    }

    /// Runs a script as the user, outside.
    pub(super) fn outside(&self, script: &str) -> Output {
        let mut command = if self.user == User::Other { as_nobody() } else { Command::new("env") };
        let environment = self.environment().into_iter().filter(|(name, _)| name != "LD_PRELOAD");
        command.args(["/bin/bash", "-c", script]).env_clear().envs(environment).stdin(Stdio::null());
        command.current_dir(self.root.join("work")).output().unwrap()
    }

    /// Runs a script that must succeed.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn works(&self, script: &str, layers: Layers) -> Result<(), String> {
        let output = self.output(&format!("set -e\n{script}"), layers);
        let text = || format!("{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(()) } else { Err(text()) }
    }

    /// Runs a script in the sandbox.
    pub(super) fn output(&self, script: &str, layers: Layers) -> Output {
        let mut program = self.start(script, layers);
        drop(program.child.stdin.take());
        let output = program.child.wait_with_output().unwrap();
        self.after(program.protection);
        output
    }

    /// Starts a script in the sandbox.
    fn start(&self, script: &str, layers: Layers) -> Started {
        fs::copy(preload(), self.root.join("work/preload.so")).unwrap();
        // A descriptor that the host forgot to close.
        let outside = self.root.join("outside/file");
        let helper = format!("exec 9>>{}; exec \"$@\"", outside.display());
        let mut arguments = vec!["-c".into(), helper.into(), "bash".into()];
        if self.user == User::Other {
            arguments.extend(NOBODY_ARGUMENTS.map(Into::into));
        }
        let pinion = pinion_tests::binary();
        arguments.extend(match helper_beside(&pinion) {
            Some(small) => vec![small.into_os_string()],
            None => vec![pinion.into_os_string(), RUN_IN_SANDBOX.into()],
        });
        let launcher = Launcher::new("/bin/bash".into(), arguments).with_layers(layers);
        let (policy, environment) = (self.policy(), self.environment());
        let script = ["-c".to_owned(), format!("{PRELUDE}{script}")];
        let work = self.root.join("work");
        let program = Program { program: "/bin/bash", arguments: &script, directory: &work, environment: &environment };
        let protection = Protection::before(&self.protected());
        let mut command = launcher.command(program, &policy).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Started { child: command.spawn().unwrap(), protection }
    }

    /// Looks at what a program left, as the host does.
    fn after(&self, protection: Protection) -> Vec<Reverted> {
        let mut opened = OpenedDirectories::default();
        let mut found = self.repositories();
        while opened.open(protection.roots(), &found.1) {
            found = self.repositories();
        }
        protection.after(&found.0, &self.root.join("home/.config/pinion/scratch"), None)
    }

    /// Runs a script that prints a line and then waits for one. In between, `change` happens outside. Waits for the end of a
    /// script that `ends` because of that, and otherwise until `path` is covered again. Returns the output, and the measures
    /// after it.
    pub(super) fn during(
        &self,
        script: &str,
        layers: Layers,
        change: &str,
        covered_again: Option<&str>,
    ) -> (Output, Vec<(PathBuf, Fate)>) {
        let mut program = self.start(&format!("echo ready; read line; {script}"), layers);
        let mut stdout = BufReader::new(program.child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let changed = self.outside(change);
        assert!(changed.status.success(), "{changed:?}");
        let input = program.child.stdin.take();
        if let Some(path) = covered_again {
            let path = self.root.join(path);
            let started = Instant::now();
            while !is_mounted(program.child.id(), &path) && program.child.try_wait().unwrap().is_none() {
                assert!(started.elapsed().as_secs() < 60, "`{}` stays open", path.display());
                std::thread::yield_now();
            }
            drop(input);
        }
        let mut output = program.child.wait_with_output().unwrap();
        std::io::Read::read_to_end(&mut stdout, &mut output.stdout).unwrap();
        let reverted = self.after(program.protection).into_iter();
        (output, reverted.map(|reverted| (reverted.path, reverted.fate)).collect())
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Runs a script without a sandbox.
    ///
    /// # Errors
    /// It reached something.
    pub(super) fn attempt_unconfined(&self, script: &str, then: &str) -> Result<(), String> {
        let before = self.snapshot();
        let environment = self.environment().into_iter().filter(|(name, _)| name != "LD_PRELOAD");
        let mut command = Command::new("/bin/bash");
        command.arg("-c").arg(format!("{PRELUDE}{script}\necho tried")).env_clear().envs(environment);
        let output = command.current_dir(self.root.join("work")).output().unwrap();
        self.outside(then);
        self.judge(&before, &output)
    }

    fn judge(&self, before: &Snapshot, output: &Output) -> Result<(), String> {
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let both = format!("{stdout}{stderr}");
        if both.contains("ESCAPED") || both.contains(SECRET) {
            return Err(both);
        }
        if !stdout.contains("tried") {
            return Err(format!("it did not run: {:?}: {both}", output.status));
        }
        // New repositories may have settings, which the user's commands try out.
        let after = self.states(&before.protected);
        let before = &before.states;
        if let Some((path, _)) = before.iter().find(|(path, state)| after.get(*path) != Some(state)) {
            return Err(format!("`{}` has changed: {both}", path.display()));
        }
        if let Some(path) = after.keys().find(|path| !before.contains_key(*path)) {
            return Err(format!("`{}` is new: {both}", path.display()));
        }
        match rustix::process::test_kill_process(rustix::process::Pid::from_child(&self.host)) {
            Ok(()) if !self.has_left_behind() && !self.has_heard() => Ok(()),
            Ok(()) => Err(format!("it is heard outside, or still runs: {both}")),
            Err(error) => Err(format!("the process outside is gone: {error}")),
        }
    }

    /// Returns whether a process still runs that the attempt started.
    fn has_left_behind(&self) -> bool {
        let line = format!("sleep\0{}\0", self.mark);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default() == line.as_bytes())
    }

    /// Returns whether a datagram or a connection has arrived.
    fn has_heard(&self) -> bool {
        self.udp.set_nonblocking(true).unwrap();
        self.tcp.set_nonblocking(true).unwrap();
        self.udp.recv(&mut [0; 8]).is_ok() || self.tcp.accept().is_ok()
    }

    fn snapshot(&self) -> Snapshot {
        let excluded = EXCLUDED.map(|path| self.root.join(path));
        let protected: Vec<PathBuf> = self.protected().all().cloned().chain(excluded).collect();
        Snapshot { states: self.states(&protected), protected }
    }

    /// Returns all that a program must not change: everything outside, and the protected paths of the workspace.
    fn states(&self, protected: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let work = self.root.join("work");
        each(&self.root, &mut |path| {
            let is_free = path.starts_with(&work) && !protected.iter().any(|protected| path.starts_with(protected));
            let is_own = path.starts_with(self.root.join("home/.config/pinion/scratch"));
            let is_open = self.open_in_hidden().iter().any(|open| {
                path.starts_with(open)
                    && ![".envrc", ".env", "inner"].iter().any(|name| path.starts_with(open.join(name)))
            });
            if is_free || is_own || is_open {
                return;
            }
            let metadata = fs::symlink_metadata(path).unwrap();
            let content = if metadata.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
            // A directory of the workspace changes its time when its entries do, also for a moment.
            let time = if path.starts_with(&work) { None } else { Some((metadata.mtime(), metadata.mtime_nsec())) };
            found.insert(path.to_owned(), format!("{:o} {time:?} {content}", metadata.mode()));
        });
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args(["-m", &self.shared]).status();
        let _ = (self.host.kill(), self.host.wait());
    }
}

/// The files before an attempt.
struct Snapshot {
    protected: Vec<PathBuf>,
    states: BTreeMap<PathBuf, String>,
}

/// A program that runs in the sandbox.
struct Started {
    child: Child,
    protection: Protection,
}

/// Returns whether something is mounted at a path for the first process in the sandbox, whose parent is `helper`.
fn is_mounted(helper: u32, path: &Path) -> bool {
    let children = fs::read_to_string(format!("/proc/{helper}/task/{helper}/children")).unwrap_or_default();
    let first = children.split_whitespace().next().unwrap_or("self");
    let table = fs::read(format!("/proc/{first}/mountinfo")).unwrap_or_default();
    // One of the sockets has a name that is no text.
    String::from_utf8_lossy(&table)
        .lines()
        .any(|line| line.split(' ').nth(4).is_some_and(|place| Path::new(place) == path))
}

const NOBODY_ARGUMENTS: [&str; 4] = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn as_nobody() -> Command {
    let mut command = Command::new(NOBODY_ARGUMENTS[0]);
    command.args(&NOBODY_ARGUMENTS[1..]);
    command
}

/// Visits everything in a tree, without following links.
fn each(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            each(&entry.unwrap().path(), visit);
        }
    }
}

/// Creates a segment of shared memory that everybody may use, and returns its number.
fn shared_memory() -> String {
    let output = Command::new("ipcmk").args(["-M", "64", "-p", "0666"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().rsplit(' ').next().unwrap().to_owned()
}

/// Returns a library that writes to `$OUT/file` in every program into which it is loaded.
fn preload() -> &'static Path {
    static LIBRARY: std::sync::OnceLock<(TempDir, PathBuf)> = std::sync::OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let directory = TempDir::new().unwrap();
        let (source, library) = (directory.path().join("p.c"), directory.path().join("p.so"));
        let code = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void f(void) {\n\
                    char p[4096]; if (!getenv(\"OUT\")) return; snprintf(p, sizeof p, \"%s/file\", getenv(\"OUT\"));\n\
                    FILE *o = fopen(p, \"a\"); if (o) { fputs(\"preloaded\", o); fclose(o); } }\n";
        fs::write(&source, code).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
        assert!(status.success());
        (directory, library)
    });
    library
}
