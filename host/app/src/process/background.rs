//! Compiling plugins after a run or a conversation, in a separate process.
//!
//! A run ends with its answer. If a plugin takes longer to compile than a run takes, each run would compile it from the
//! beginning, and it would never be ready. So this program compiles the plugins that a run or a conversation leaves,
//! without a terminal, as `pinion plugin list` would: under the policy, the trust and the limits of every load. At most
//! one such process works for a cache, and one that finds another at work ends at once. It ends with the last plugin,
//! when a limit is reached, or by a signal.

use crate::files::paths::Paths;
use crate::process::own_command::{COMPILE_PLUGINS, own_command};
use pinion_files::open::open_unlinked;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

/// The file in the cache of compiled code that is locked by the process at work.
const LOCK: &str = "background.lock";

/// Begins to compile the plugins that a run or a conversation in this workspace loads. Returns the number of the process.
#[allow(clippy::zombie_processes, reason = "the caller ends now, and the system waits for what it started")]
pub fn compile_plugins(workspace: &Path) -> Option<u32> {
    let (program, arguments) = own_command(COMPILE_PLUGINS)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C is meant for programs on the terminal.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let started =
        command.spawn().inspect_err(|error| tracing::debug!(%error, "plugins are not compiled in the background"));
    Some(started.ok()?.id())
}

/// The right to compile plugins in the background, until it is dropped. None while another process has it.
pub fn turn() -> Option<File> {
    let lock = Paths::from_environment().ok()?.components().join(LOCK);
    let file = open_unlinked(&lock, OpenOptions::new().write(true).create(true).truncate(false)).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// The command line of the process: it loads the plugins of a run, and its output is discarded.
pub fn command_line() -> Vec<OsString> {
    ["pinion", "plugin", "list"].map(OsString::from).into()
}
