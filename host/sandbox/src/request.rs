//! The text that tells a helper what to do: its only argument before the program's own.

use crate::policy::{Layers, Policy};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

/// The work of one helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) policy: Policy,
    pub(crate) layers: Layers,
    /// The working directory of the program.
    pub(crate) directory: PathBuf,
    /// Set up everything, start nothing and report.
    pub(crate) only_check: bool,
}

/// The end of a helper that did its work.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ended(ExitCode),
    Checked(Report),
}

/// The report of a helper that only checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The version of Landlock.
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
}
