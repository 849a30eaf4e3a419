//! The beginning of a process that uses this library.

use crate::process::hardening;
use crate::process::own_command::{COMPILE_COMPONENT, GUARD_PROGRAMS, RUN_IN_SANDBOX};
use crate::process::running::revert_for_host;
use std::path::Path;
use std::process::ExitCode;

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
