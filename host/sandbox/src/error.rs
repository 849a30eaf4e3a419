//! Failures to confine a program.

/// The reason why a program was not confined and therefore not started, or why its limits ended it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The operating system lacks a layer, or refuses it.
    #[error("no sandbox: {layer} is not available: {reason}\nhint: {remedy}")]
    Layer {
        /// The missing layer.
        layer: &'static str,
        /// The answer of the system.
        reason: String,
        /// The change that makes the layer available, or the setting that does without it.
        remedy: &'static str,
    },
    /// A step of the setup failed.
    #[error("no sandbox: could not {step}: {reason}")]
    Step {
        /// The step, as an imperative clause.
        step: String,
        /// The answer of the system.
        reason: String,
    },
    /// The program did not start inside, or the part of the helper inside failed. Complete as it is.
    #[error("{0}")]
    Inside(String),
    /// The program started, and was killed with all that it started.
    #[error(
        "out of memory: the program and what it started needed more than {} MiB\nhint: raise `max-memory` in `[sandbox]`",
        bytes >> 20
    )]
    OutOfMemory {
        /// The limit.
        bytes: u64,
    },
    /// The policy cannot be passed to the helper.
    #[error(
        "no sandbox: the policy is {bytes} bytes long, and at most {max} fit\nhint: name fewer paths in `[sandbox]`, or exclude directories instead of the files in them"
    )]
    TooLong {
        /// Its length as text.
        bytes: usize,
        /// The maximum.
        max: usize,
    },
}

impl SandboxError {
    /// Describes a failed step.
    pub(crate) fn step(step: impl Into<String>, reason: impl ToString) -> Self {
        Self::Step { step: step.into(), reason: reason.to_string() }
    }
}
