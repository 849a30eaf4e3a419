//! Work of this program in separate processes: their commands, and the beginning of a process, which may be one of them.

use crate::files::paths::Paths;
use crate::process::hardening;
use crate::process::running_programs::revert_for_host;
use pinion_files::open::open_unlinked;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Argument that makes this program compile a component for its parent process and then exit.
pub const COMPILE_COMPONENT: &str = "compile-component-for-parent";
/// Argument that makes this program compile the plugins that a run left.
pub const COMPILE_PLUGINS: &str = "compile-plugins-of-user";
/// First argument that makes this program guard the programs that plugins of its parent process run. The number of that
/// process and the directory for files that they left at protected paths follow.
pub const GUARD_PROGRAMS: &str = "guard-programs-of-parent";
/// First argument that makes this program confine itself and then run a program.
pub const RUN_IN_SANDBOX: &str = "run-in-sandbox-for-parent";

/// Returns the command that runs this program with an argument, for work in a separate process.
pub fn own_command(argument: &str) -> Option<(PathBuf, Vec<OsString>)> {
    Some((std::env::current_exe().ok()?, vec![argument.into()]))
}

/// Returns the command of the guard. `removed` is the directory for files that programs left at protected paths.
pub fn guard_command(removed: &Path) -> Option<(PathBuf, Vec<OsString>)> {
    let (program, mut arguments) = own_command(GUARD_PROGRAMS)?;
    arguments.extend([std::process::id().to_string().into(), removed.into()]);
    Some((program, arguments))
}

/// Protects the process and, if the library has started it as a helper, does the helper's work. `main` calls this first,
/// before anything starts a thread, and returns the exit code if there is one.
///
/// The library runs the program again for three kinds of work: compiling a plugin, confining a program, and guarding the
/// programs of a process that is killed. The process that waits for it reads `report` from stderr.
pub fn begin(report: impl Fn(&str)) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == GUARD_PROGRAMS => {
            hardening::rename(GUARD_PROGRAMS);
            pinion_plugin_runtime::guard_for_parent();
            if let (Some(host), Some(removed)) = (arguments.next(), arguments.next()) {
                revert_for_host(&host.to_string_lossy(), Path::new(&removed));
            }
            return Some(ExitCode::SUCCESS);
        }
        Some(first) if first == RUN_IN_SANDBOX => {
            return Some(pinion_sandbox::run_for_parent(arguments, |message| report(message)));
        }
        _ => {}
    }
    hardening::start();
    std::env::args_os().skip(1).eq([COMPILE_COMPONENT]).then(|| compile_component(report))
}

/// Compiles the component on stdin for the parent process. Signals have their default effect.
fn compile_component(report: impl Fn(&str)) -> ExitCode {
    match pinion_plugin_runtime::compile_for_parent() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The file in the cache of compiled code that is locked by the process at work.
const LOCK: &str = "background.lock";

/// Begins to compile the plugins that a run or a conversation in this workspace loads. Returns the number of the process.
///
/// A run ends with its answer. If a plugin takes longer to compile than a run takes, each run would compile it from the
/// beginning, and it would never be ready. So this program compiles the plugins that a run or a conversation leaves,
/// without a terminal, as `pinion plugin list` would: under the policy, the trust and the limits of every load. At most
/// one such process works for a cache, and one that finds another at work ends at once. It ends with the last plugin,
/// when a limit is reached, or by a signal.
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
pub fn compile_turn() -> Option<File> {
    let lock = Paths::from_environment().ok()?.components().join(LOCK);
    let file = open_unlinked(&lock, OpenOptions::new().write(true).create(true).truncate(false)).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// The command line of the process: it loads the plugins of a run, and its output is discarded.
pub fn compile_command_line() -> Vec<OsString> {
    ["pinion", "plugin", "list"].map(OsString::from).into()
}
