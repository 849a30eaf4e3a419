//! The import `child-process`.

use super::Process;
use super::import::environment;
use crate::bindings::pinion::plugin::child_process::{self, Exit, OutputStream, ReadResult};
use crate::bindings::pinion::plugin::process::{Command, ProcessError};
use crate::calls::state::State;
use crate::host::child::{Child, MAX_CHILDREN, Wait};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::Resource;

impl child_process::Host for State {
    async fn spawn(&mut self, command: Command) -> wasmtime::Result<Result<Resource<Child>, ProcessError>> {
        let grant = match self.call.authority.check::<Process>() {
            Ok(grant) => grant.clone(),
            Err(denied) => return Ok(Err(ProcessError::Denied(denied.to_string()))),
        };
        if !self.children.has_room(&self.table) {
            return Ok(Err(ProcessError::Io(format!("{MAX_CHILDREN} programs run already, the most for one call"))));
        }
        let authority = self.call.authority.clone();
        let (environment, redacted) = match environment(&authority, &command).await {
            Ok(environment) => environment,
            Err(denied) => return Ok(Err(denied)),
        };
        self.account.capabilities.process.spend()?;
        self.account.capabilities.files.written.spend(command.stdin.len() as u64)?;
        let workspace = self.call.authority.workspace().to_owned();
        let confinement = self.confinement.as_deref();
        match Child::start(command, &grant, &workspace, &environment, &redacted, confinement) {
            Ok(child) => {
                let child = self.table.push(child)?;
                self.children.add(child.rep());
                Ok(Ok(child))
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

impl child_process::HostChild for State {
    async fn write(
        &mut self,
        child: Resource<Child>,
        data: Vec<u8>,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<u32, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        let wait = self.wait_for(timeout_ms);
        let written = self.table.get_mut(&child)?.write(&data, &wait).await;
        if let Ok(bytes) = written {
            self.account.capabilities.files.written.spend(bytes.into())?;
        }
        Ok(written)
    }

    async fn close_stdin(&mut self, child: Resource<Child>) -> wasmtime::Result<()> {
        self.table.get_mut(&child)?.close_stdin();
        Ok(())
    }

    async fn read(
        &mut self,
        child: Resource<Child>,
        source: OutputStream,
        limit: u32,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<ReadResult, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        let wait = self.wait_for(timeout_ms);
        Ok(self.table.get_mut(&child)?.read(source, limit, &wait).await)
    }

    async fn wait(
        &mut self,
        child: Resource<Child>,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<Option<Exit>, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        let wait = self.wait_for(timeout_ms);
        Ok(self.table.get_mut(&child)?.wait(&wait).await)
    }

    async fn kill(&mut self, child: Resource<Child>) -> wasmtime::Result<()> {
        self.table.get_mut(&child)?.kill();
        Ok(())
    }

    async fn drop(&mut self, child: Resource<Child>) -> wasmtime::Result<()> {
        self.children.remove(child.rep());
        self.table.delete(child)?;
        Ok(())
    }
}

impl State {
    /// Checks the authority of the current call, which may differ from the authority of the call that started a
    /// program.
    fn may_run(&self) -> Result<(), ProcessError> {
        let checked = self.call.authority.check::<Process>();
        checked.map(drop).map_err(|denied| ProcessError::Denied(denied.to_string()))
    }

    fn wait_for(&self, timeout_ms: u32) -> Wait {
        let time = Duration::from_millis(timeout_ms.into());
        Wait { until: Instant::now() + time, token: self.call.deadline.token().clone() }
    }
}
