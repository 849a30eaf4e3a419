//! The port that an application implements to confine the programs that plugins start.
//!
//! The plugin runtime decides whether a plugin may start programs at all. The application decides on the operating
//! system's protection around them, and passes a [`Confinement`] to the runtime.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A program that a plugin starts.
#[derive(Debug, Clone, Copy)]
pub struct PlainProgram<'a> {
    /// A path, or a name that is looked up in `PATH` of `environment`.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// Its working directory, an absolute path.
    pub directory: &'a Path,
    /// Its whole environment.
    pub environment: &'a [(String, String)],
    /// The private directory of the session, which need not exist.
    pub scratch: &'a Path,
}

/// A program that is ready to run confined.
pub struct ConfinedProgram {
    /// Starts it. This crate sets the streams and the process group.
    pub command: Command,
    /// Called once, when the program and its process group were killed or have ended: with true if it succeeded, and
    /// the known part of its error stream; of a command that merges its streams, such as `make 2>&1`, also the end of its
    /// output. Returns lines for the reader of the error stream.
    pub ended: AfterProgram,
}

/// The work after a program.
pub type AfterProgram = Box<dyn FnOnce(bool, &str) -> Vec<String> + Send + Sync>;

/// Confines programs.
pub trait Confinement: Send + Sync {
    /// Prepares a program to run confined. Called for every program, and may take some milliseconds.
    ///
    /// # Errors
    /// The program cannot be confined, and does not run. The text says why, with a hint.
    fn confine(&self, program: &PlainProgram<'_>) -> Result<ConfinedProgram, String>;
}

/// A task that runs once a program has ended, also if its call was dropped.
pub(crate) struct After(Option<AfterProgram>);

impl After {
    pub(crate) fn new(ended: Option<AfterProgram>) -> Self {
        Self(ended)
    }

    /// Runs the task and returns the lines that it adds to the output.
    pub(crate) fn finish(mut self, succeeded: bool, stderr: &str) -> Vec<String> {
        self.0.take().map(|ended| ended(succeeded, stderr)).unwrap_or_default()
    }
}

impl Drop for After {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended(false, "");
        }
    }
}

/// Returns whether a program can be found. A confined program is looked up where a missing program could not be
/// reported.
pub(crate) fn exists(program: &PlainProgram<'_>) -> bool {
    if program.program.contains('/') {
        return program.directory.join(program.program).exists();
    }
    let path = program.environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    // Without a `PATH`, the system looks in its default directories.
    path.is_none_or(|path| {
        std::env::split_paths(OsStr::new(path)).any(|directory| directory.join(program.program).exists())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path_of_their_environment() {
        let path = |value: &str| vec![("PATH".to_owned(), value.to_owned())];
        let is_found = |program: &str, environment: &[(String, String)]| {
            let directory = Path::new("/");
            exists(&PlainProgram { program, arguments: &[], directory, environment, scratch: directory })
        };
        assert!(is_found("sh", &path("/nowhere:/bin")) && !is_found("sh", &path("/nowhere")));
        assert!(is_found("/bin/sh", &[]) && is_found("bin/sh", &[]) && !is_found("./sh", &[]));
    }

    #[test]
    fn work_after_a_program_is_done_once_in_any_case() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        let times = Arc::new(AtomicU32::new(0));
        let work = |times: Arc<AtomicU32>| -> AfterProgram {
            Box::new(move |_, _| {
                times.fetch_add(1, Ordering::Relaxed);
                vec!["line".to_owned()]
            })
        };
        assert_eq!(After::new(Some(work(times.clone()))).finish(true, ""), ["line"]);
        drop(After::new(Some(work(times.clone()))));
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }
}
