//! The request to a helper, as text in its environment.

use crate::encoding;
use crate::policy::{Layers, SandboxPolicy};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

/// The work of one helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelperRequest {
    /// The build of the program that wrote it.
    pub(crate) build: String,
    pub(crate) policy: SandboxPolicy,
    pub(crate) layers: Layers,
    /// The working directory of the program.
    #[serde(with = "encoding::path")]
    pub(crate) directory: PathBuf,
    /// The descriptor of the socket to the parent, if it runs a proxy for the program.
    pub(crate) proxy: Option<i32>,
    /// Set up everything, start nothing and report.
    pub(crate) only_check: bool,
}

/// The end of a helper that did its work.
#[derive(Debug)]
pub(crate) enum HelperOutcome {
    Ended(ExitCode),
    Checked(CheckReport),
}

/// The report of a helper that only checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckReport {
    /// The version of Landlock.
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    /// The reason why there is no control group; empty if there is one.
    pub(crate) no_group: String,
}
