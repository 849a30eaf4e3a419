//! The plain types of programs: what to start and with what, their output and their errors.

use crate::confinement::Confinement;
use pinion_redact::Secrets;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A program to start.
#[derive(Debug, Clone)]
pub struct ProgramCommand {
    /// A name to look up in the `PATH` of its environment, or a path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Absolute, or relative to the workspace; by default the workspace.
    pub working_directory: Option<String>,
    /// The input that it reads first.
    pub stdin: Vec<u8>,
}

/// The surroundings of a program, which its plugin does not choose.
pub struct ProgramSetup {
    /// The directory where it starts unless its command names another one.
    pub workspace: PathBuf,
    /// Its whole environment apart from `PWD`. Later variables win.
    pub environment: Vec<(String, String)>,
    /// Secrets among the variables, which are redacted in its output.
    pub redacted: Secrets,
    /// The private directory for output that is too long for memory; made when it is needed.
    pub scratch: PathBuf,
    /// The protection of the operating system around it.
    pub confinement: Option<Arc<dyn Confinement>>,
}

/// The output of a program that has ended or was killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The code or the signal that ended it; neither if it was not waited for.
    pub exit: ProgramExit,
    /// The kept part of its standard output.
    pub stdout: CapturedOutput,
    /// The kept part of its standard error.
    pub stderr: CapturedOutput,
    /// The file with all output, if a part of it was not kept.
    pub spilled_to: Option<String>,
    /// The time from its start to its end.
    pub duration: Duration,
}

/// The kept part of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The start; the whole output when `tail` is empty.
    pub head: Vec<u8>,
    /// The end, when the middle was dropped.
    pub tail: Vec<u8>,
    /// Bytes that the program wrote.
    pub total: u64,
}

/// The end of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramExit {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// An output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSource {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// The result of a read from an output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramRead {
    /// At least one byte.
    Data(Vec<u8>),
    /// The program has closed the stream.
    End,
    /// Nothing arrived within the time.
    TimedOut,
}

/// A program did not start, or did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramError {
    /// The application did not confine it; the text says why, with a hint.
    Refused(String),
    /// The program or its working directory does not exist.
    NotFound(String),
    /// Its group was killed at its deadline, with this output until then.
    TimedOut(ProgramOutput),
    /// Its group was killed because the call was cancelled, with this output until then.
    Cancelled(ProgramOutput),
    /// The system refused.
    Io(String),
}
