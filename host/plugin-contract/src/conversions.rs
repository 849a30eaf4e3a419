//! Conversions between the contract's types and the types of the crates that do the work of an import.

use crate::bindings::pinion::plugin::child_process::{Exit, ReadResult};
use crate::bindings::pinion::plugin::process::{Captured, Command, Output, ProcessError};
use crate::bindings::pinion::plugin::questions::QuestionError;
use crate::bindings::pinion::plugin::storage::StorageError;
use crate::bindings::pinion::plugin::{model::ModelError, ui::UiError};
use pinion_plugin_programs::{CapturedOutput, ProgramCommand, ProgramError, ProgramExit, ProgramOutput, ProgramRead};
use pinion_plugin_storage::StoreError;

impl From<Command> for ProgramCommand {
    fn from(command: Command) -> Self {
        Self {
            program: command.program,
            arguments: command.args,
            working_directory: command.working_directory,
            stdin: command.stdin,
        }
    }
}

impl From<ProgramOutput> for Output {
    fn from(output: ProgramOutput) -> Self {
        Self {
            exit_code: output.exit.code,
            signal: output.exit.signal,
            stdout: output.stdout.into(),
            stderr: output.stderr.into(),
            spilled_to: output.spilled_to,
            duration_ms: u32::try_from(output.duration.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

impl From<CapturedOutput> for Captured {
    fn from(CapturedOutput { head, tail, total }: CapturedOutput) -> Self {
        Self { head, tail, total }
    }
}

impl From<ProgramError> for ProcessError {
    fn from(error: ProgramError) -> Self {
        match error {
            ProgramError::Refused(text) => Self::Denied(text),
            ProgramError::NotFound(text) => Self::NotFound(text),
            ProgramError::TimedOut(output) => Self::TimedOut(output.into()),
            ProgramError::Cancelled(output) => Self::Cancelled(output.into()),
            ProgramError::Io(text) => Self::Io(text),
        }
    }
}

impl From<ProgramRead> for ReadResult {
    fn from(read: ProgramRead) -> Self {
        match read {
            ProgramRead::Data(bytes) => Self::Data(bytes),
            ProgramRead::End => Self::End,
            ProgramRead::TimedOut => Self::TimedOut,
        }
    }
}

impl From<ProgramExit> for Exit {
    fn from(ProgramExit { code, signal }: ProgramExit) -> Self {
        Self { code, signal }
    }
}

impl From<StoreError> for StorageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(text) => Self::Invalid(text),
            StoreError::Quota(left) => Self::QuotaExceeded(left),
            StoreError::Changed => Self::Changed,
            StoreError::Io(text) => Self::Io(text),
        }
    }
}

impl From<UiError> for QuestionError {
    fn from(error: UiError) -> Self {
        match error {
            UiError::Denied(text) => Self::Denied(text),
            UiError::Headless => Self::Headless,
            UiError::Dismissed => Self::Dismissed,
            UiError::Cancelled => Self::Cancelled,
            UiError::Invalid(text) => Self::Invalid(text),
        }
    }
}

impl From<ModelError> for QuestionError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Denied(text) => Self::Denied(text),
            ModelError::Invalid(text) => Self::Invalid(text),
            ModelError::BudgetExceeded(text) => Self::BudgetExceeded(text),
            ModelError::Cancelled => Self::Cancelled,
            ModelError::Failed(text) => Self::Failed(text),
        }
    }
}
