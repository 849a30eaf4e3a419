//! Work of this program in separate processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
