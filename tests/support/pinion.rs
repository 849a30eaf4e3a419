//! The built `pinion` command with a temporary home and workspace.

use crate::guests::guests_directory;
use crate::sandbox::CACHE_KEY;
use crate::script::say;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The command, a home and a workspace.
pub struct Pinion {
    directory: TempDir,
    /// The cache that it shares with others, if it does.
    shared_cache: Option<PathBuf>,
}

/// Exit status and output of a command.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Captured stdout.
    pub stdout: String,
    /// Captured stderr.
    pub stderr: String,
}

impl Default for Pinion {
    /// Creates a home with the compiled code of the plugins that most runs call.
    fn default() -> Self {
        let pinion = Self::new(None);
        let compiled = COMPILED.get_or_init(compile);
        put_cache_key(&pinion.home());
        let to = pinion.home().join("cache/components");
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(compiled).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        pinion
    }
}

/// The cache of a home where the command compiled built-in plugins.
static COMPILED: OnceLock<PathBuf> = OnceLock::new();

/// Compiles the plugins that most runs call, unless an earlier run of the tests did.
fn compile() -> PathBuf {
    let home = guests_directory().join("home");
    std::fs::create_dir_all(&home).unwrap();
    put_cache_key(&home);
    let pinion = Pinion::cold();
    let reply = json!({ "calls": [
        { "tool": "read", "arguments": { "path": "." } },
        { "tool": "bash", "arguments": { "command": "true" } },
    ] });
    let script = pinion.script(&[reply, say("done")]);
    let arguments = ["--approve", "all", "--no-session", "--replay", script.to_str().unwrap()];
    let ended = feed(pinion.command(arguments).env("PINION_HOME", &home), b"go\n/help\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    home.join("cache/components")
}

fn put_cache_key(home: &Path) {
    let key = home.join("cache.key");
    std::fs::write(&key, CACHE_KEY).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

impl Pinion {
    fn new(shared_cache: Option<PathBuf>) -> Self {
        let pinion = Self { directory: TempDir::new().unwrap(), shared_cache };
        std::fs::create_dir_all(pinion.workspace()).unwrap();
        std::fs::create_dir_all(pinion.home()).unwrap();
        pinion
    }

    /// Creates a home without compiled code.
    pub fn cold() -> Self {
        Self::new(None)
    }

    /// Shares compiled code with other tests and with later runs: components that contain the runtime of a language differ in a
    /// few functions, and the others take long to compile.
    pub fn sharing_code() -> Self {
        let pinion = Self::new(Some(guests_directory()));
        // Code is sealed with the key of the home.
        put_cache_key(&pinion.home());
        pinion
    }

    /// Returns the directory that replaces the directories of config and data, and of the cache unless it is shared.
    pub fn home(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(if self.shared_cache.is_some() { "pinion" } else { "home" })
    }

    /// Returns the working directory of commands.
    pub fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    /// Writes a file in the workspace and creates its parent directories.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.workspace().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Writes the config file.
    pub fn config(&self, text: &str) {
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// Writes a script for the provider `replay`, one value per reply.
    pub fn script(&self, replies: &[Value]) -> PathBuf {
        let lines: String = replies.iter().map(|reply| format!("{reply}\n")).collect();
        self.write("../script.jsonl", lines)
    }

    /// Returns the command with these arguments and a minimal environment, which converses line by line.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.default_command(arguments);
        command.env("PINION_UI", "line");
        command
    }

    /// Returns the command like [`Self::command`], with the default form of conversations.
    pub fn default_command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("PINION_HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cache) = &self.shared_cache {
            let parent = self.directory.path().canonicalize().unwrap();
            command.env_remove("PINION_HOME").env("XDG_CONFIG_HOME", &parent).env("XDG_DATA_HOME", &parent);
            command.env("XDG_CACHE_HOME", cache);
        }
        for name in ["CARGO_HOME", "RUSTUP_HOME", "GUEST_CARGO", "GUEST_TARGET", "GUEST_RUSTC"] {
            pass(&mut command, name);
        }
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_TARGET_WASM32")).for_each(
            |(name, value)| {
                command.env(name, value);
            },
        );
        command
    }

    /// Runs the command and waits for its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ended {
        ended(self.command(arguments).output().unwrap())
    }

    /// Compiles the plugins of the home, so that a conversation has them from its first message on.
    pub fn load_plugins(&self) {
        let ended = self.run(["plugin", "list"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// Runs the command with this stdin.
    pub fn run_with_stdin<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, stdin: &[u8]) -> Ended {
        feed(&mut self.command(arguments), stdin)
    }

    /// Starts the command.
    pub fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Child {
        self.command(arguments).spawn().unwrap()
    }
}

/// Returns whether this machine lets the user create namespaces.
pub fn has_namespaces() -> bool {
    Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success())
}

fn feed(command: &mut Command, stdin: &[u8]) -> Ended {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A command that does not read its stdin is not a test failure.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), stdin);
    ended(child.wait_with_output().unwrap())
}

fn pass(command: &mut Command, name: &str) {
    let value = std::env::var_os(name).or_else(|| {
        // Their default locations are below the home that was replaced.
        let home = std::env::var_os("HOME")?;
        let directory = match name {
            "CARGO_HOME" => ".cargo",
            "RUSTUP_HOME" => ".rustup",
            _ => return None,
        };
        Some(Path::new(&home).join(directory).into_os_string())
    });
    if let Some(value) = value {
        command.env(name, value);
    }
}

fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the path of the command: `$PINION_BIN`, or the binary in the directory above the tests, which are in `deps`.
pub fn binary() -> PathBuf {
    let binary = std::env::var_os("PINION_BIN").map_or_else(
        || std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("pinion"),
        PathBuf::from,
    );
    assert!(binary.is_file(), "no `{}`: run `tests/run.sh`, or `cargo build --release`", binary.display());
    binary
}
