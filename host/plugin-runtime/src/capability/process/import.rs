//! The import `process`.

use super::Process;
use crate::bindings::pinion::plugin::child_process;
use crate::bindings::pinion::plugin::process::{self, Command, Output, ProcessError, Variable};
use crate::calls::state::State;
use crate::host::process::Run;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::{HasSelf, Linker};

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    process::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    child_process::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl process::Host for State {
    async fn run(&mut self, command: Command) -> wasmtime::Result<Result<Output, ProcessError>> {
        let grant = match self.call.authority.check::<Process>() {
            Ok(grant) => grant.clone(),
            Err(denied) => return Ok(Err(ProcessError::Denied(denied.to_string()))),
        };
        let environment = match self.environment(&command) {
            Ok(environment) => environment,
            Err(denied) => return Ok(Err(denied)),
        };
        let account = &mut self.account.capabilities;
        account.process.spend()?;
        account.files.written.spend(command.stdin.len() as u64)?;
        let timeout = command.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms.into()));
        let run = Run {
            deadline: timeout.map_or(self.call.deadline.at(), |timeout| timeout.min(self.call.deadline.at())),
            token: self.call.deadline.token().clone(),
            progress: self.call.progress.clone(),
            workspace: self.call.authority.workspace().to_owned(),
            written: account.files.written.clone(),
            grant,
            environment,
        };
        Ok(run.execute(command).await)
    }
}

impl State {
    /// Returns the variables of a command, with the values of secrets.
    ///
    /// # Errors
    /// A secret was not granted.
    pub(super) fn environment(&self, command: &Command) -> Result<Vec<(String, String)>, ProcessError> {
        let value = |(name, value): &(String, Variable)| match value {
            Variable::Text(text) => Ok((name.clone(), text.clone())),
            Variable::Secret(secret) => Err(ProcessError::Denied(format!(
                "plugin `{}` may not use the secret `{}`",
                self.plugin,
                pinion_protocol::text::one_line(secret, 64)
            ))),
        };
        command.environment.iter().map(value).collect()
    }
}
