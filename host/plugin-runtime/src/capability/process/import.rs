//! The import `process`.

use super::Process;
use crate::bindings::pinion::plugin::child_process;
use crate::bindings::pinion::plugin::process::{self, Command, Output, ProcessError, Variable};
use crate::calls::state::State;
use crate::capability::authority::CallAuthority;
use crate::capability::secrets::Secrets;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_programs::{Confinement, ProgramRun, ProgramSetup};
use pinion_redact::Secrets as Redacted;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::HasSelf;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    process::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    child_process::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl process::Host for State {
    async fn run(&mut self, command: Command) -> wasmtime::Result<Result<Output, ProcessError>> {
        let setup = match surroundings(&self.call.authority.clone(), self.confinement.clone(), &command).await {
            Ok(setup) => setup,
            Err(denied) => return Ok(Err(denied)),
        };
        let account = &mut self.account.capabilities;
        account.process.spend()?;
        account.files.written.spend(command.stdin.len() as u64)?;
        let timeout = command.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms.into()));
        let run = ProgramRun {
            setup,
            max_output: command.max_output,
            budget: account.files.written.clone().budget(),
            deadline: timeout.map_or(self.call.deadline.at(), |timeout| timeout.min(self.call.deadline.at())),
            token: self.call.deadline.token().clone(),
            progress: self.call.progress.clone(),
        };
        let ended = run.execute(command.into()).await;
        Ok(ended.map(Output::from).map_err(ProcessError::from))
    }
}

/// Returns the surroundings of a program that a call may start.
///
/// # Errors
/// The call may not start programs, or not use one of the secrets.
pub(super) async fn surroundings(
    authority: &CallAuthority,
    confinement: Option<Arc<dyn Confinement>>,
    command: &Command,
) -> Result<ProgramSetup, ProcessError> {
    let grant = authority.check::<Process>().map_err(|denied| ProcessError::Denied(denied.to_string()))?;
    let (variables, redacted) = environment(authority, command).await?;
    let granted = grant.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    Ok(ProgramSetup {
        workspace: authority.workspace().to_owned(),
        environment: granted.chain(variables).collect(),
        redacted,
        scratch: grant.spill_directory.clone(),
        confinement,
    })
}

/// Returns the variables of a command with the values of secrets, and these values, to be redacted from its output.
///
/// # Errors
/// A secret was not granted or has no value.
async fn environment(
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
