//! The surroundings of one attempt: a workspace, a home with credentials, and processes and servers outside.

use pinion_exclusions::{Exclusions, Finder, Pattern};
use pinion_sandbox::{GitUser, Launcher, Layers, Limits, Policy, Program, Protection, helper_beside, protected_in};
use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
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
            ("work/.git/config", "[core]\n\trepositoryformatversion = 0\n\thooksPath = .githooks\n"),
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
        fs::create_dir_all(root.join("work/.git/refs/heads")).unwrap();
        std::os::unix::fs::symlink("editor", root.join("work/.zed")).unwrap();
        fs::create_dir_all(root.join("outside/empty")).unwrap();
        fs::create_dir_all(root.join("home/.config/pinion/scratch/tmp")).unwrap();
        let mark = format!("1{:07}{:04}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let abstract_name = format!("pinion-{mark}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets = vec![
            UnixListener::bind(root.join("outside/s")).unwrap(),
            UnixListener::bind(root.join("work/daemon")).unwrap(),
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
            read_only: [&work, &state]
                .iter()
                .flat_map(|path| protected_in(path, &GitUser::default()))
                .chain([in_hidden])
                .collect(),
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

    /// Makes an attempt in the sandbox.
    ///
    /// # Errors
    /// It reached something that it must not reach, or did not run.
    pub(super) fn attempt(&self, script: &str, layers: Layers) -> Result<(), String> {
        let before = self.snapshot();
        let output = self.output(&format!("{script}\necho tried"), layers);
        self.judge(&before, &output)
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
        let protection = Protection::before(&policy);
        let output = launcher.command(program, &policy).unwrap().stdin(Stdio::null()).output().unwrap();
        protection.revert(&self.root.join("home/.config/pinion/scratch"));
        output
    }

    /// Runs a script without a sandbox.
    ///
    /// # Errors
    /// It reached something.
    pub(super) fn attempt_unconfined(&self, script: &str) -> Result<(), String> {
        let before = self.snapshot();
        let environment = self.environment().into_iter().filter(|(name, _)| name != "LD_PRELOAD");
        let mut command = Command::new("/bin/bash");
        command.arg("-c").arg(format!("{PRELUDE}{script}\necho tried")).env_clear().envs(environment);
        let output = command.current_dir(self.root.join("work")).output().unwrap();
        self.judge(&before, &output)
    }

    fn judge(&self, before: &BTreeMap<PathBuf, String>, output: &Output) -> Result<(), String> {
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let both = format!("{stdout}{stderr}");
        if both.contains("ESCAPED") || both.contains(SECRET) {
            return Err(both);
        }
        if !stdout.contains("tried") {
            return Err(format!("it did not run: {:?}: {both}", output.status));
        }
        let after = self.snapshot();
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

    /// Returns all that a program must not change: everything outside, and the protected paths of the workspace.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let work = self.root.join("work");
        let protected: Vec<_> = protected_in(&work, &GitUser::default())
            .into_iter()
            .chain(EXCLUDED.map(|path| self.root.join(path)))
            .collect();
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
