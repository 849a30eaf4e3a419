//! The surroundings of one attempt: a workspace, a home with credentials, and processes and servers outside.

mod attempts;
mod judge;

use pinion_exclusions::{Exclusions, Finder, Pattern};
use pinion_sandbox::{GitUser, Protected, ProtectedPlaces, ResourceLimits, SandboxPolicy};
use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// The content of all credentials.
const SECRET: &str = "TOP-SECRET";
/// Files that the built-in patterns exclude, sorted.
const EXCLUDED: [&str; 4] = ["work/.env", "work/config/real", "work/keys/deep/server.key", "work/notes.txt"];
/// The user `nobody`.
const NOBODY: u32 = 65534;

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
    /// A unique number of this world.
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
            // A name that is not text does not hide the others.
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
        let found = Finder::new(exclusions).find_excluded().unwrap();
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
        let found = Finder::of_repositories(&self.root.join("work"), 100_000).find_excluded().unwrap();
        (found.repositories.clone(), found.closed.clone())
    }

    fn protected(&self) -> Protected {
        let roots = [self.root.join("work"), self.root.join("home/.state")];
        let user = GitUser::default();
        Protected::find(ProtectedPlaces {
            roots: &roots,
            repositories: &self.repositories().0,
            settings: &[],
            user: &user,
        })
    }

    fn policy(&self) -> SandboxPolicy {
        let work = self.root.join("work");
        let (mut excluded, pinned) = self.excluded();
        let hidden = [".ssh", ".netrc", ".config/pinion", ".state", ".state/inner"];
        let [state, handed_out] = self.open_in_hidden();
        excluded.push(handed_out.join(".env"));
        let in_hidden = self.root.join("home/.config/pinion/hooks");
        SandboxPolicy {
            excluded,
            pinned,
            read_only: self.protected().closed().cloned().chain([in_hidden]).collect(),
            writable: vec![work, state, handed_out],
            hidden: hidden.iter().map(|path| self.root.join("home").join(path)).collect(),
            // `/tmp`, where the tests work, is private.
            visible: vec![self.root.clone()],
            temporary: Some(self.root.join("home/.config/pinion/scratch/tmp")),
            limits: ResourceLimits { processes: 100, file_bytes: Some(2_000_000), ..ResourceLimits::default() },
            ..SandboxPolicy::default()
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

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
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
