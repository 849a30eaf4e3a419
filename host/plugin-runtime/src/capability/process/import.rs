//! The import `process`.

use super::Process;
use crate::bindings::pinion::plugin::child_process;
use crate::bindings::pinion::plugin::process::{self, Command, Output, ProcessError, Variable};
use crate::calls::state::State;
use crate::capability::authority::CallAuthority;
use crate::capability::secrets::Secrets;
use crate::host::process::Run;
use pinion_redact::Secrets as Redacted;
use secrecy::{ExposeSecret as _, SecretString};
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
        let (environment, redacted) = match environment(&self.call.authority.clone(), &command).await {
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
            redacted,
            confinement: self.confinement.clone(),
        };
        Ok(run.execute(command).await)
    }
}

/// Returns the variables of a command with the values of secrets, and these values, to be redacted from its output.
///
/// # Errors
/// A secret was not granted or has no value.
pub(super) async fn environment(
    authority: &CallAuthority,
    command: &Command,
) -> Result<(Vec<(String, String)>, Redacted), ProcessError> {
    let (mut environment, redacted) = (Vec::with_capacity(command.environment.len()), Redacted::default());
    for (name, value) in &command.environment {
        let value = match value {
            Variable::Text(text) => text.clone(),
            Variable::Secret(secret) => {
                let value = value_of(authority, secret).await.map_err(ProcessError::Denied)?;
                redacted.add(&value);
                value.expose_secret().to_owned()
            }
        };
        environment.push((name.clone(), value));
    }
    Ok((environment, redacted))
}

/// Returns the value of a secret, or the reason why the call may not use it.
async fn value_of(authority: &CallAuthority, name: &str) -> Result<SecretString, String> {
    let grant = Secrets::granted(authority, name).map_err(|denied| denied.to_string())?;
    grant.source.value(name).await.map_err(|error| error.to_string())
}
