//! Work of this program in separate processes: their commands, and the beginning of a process, which may be one of them.

use crate::process::hardening;
use crate::process::running_programs::revert_for_host;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
