//! The import `child-process`.

use super::Process;
use super::import::surroundings;
use crate::bindings::pinion::plugin::child_process::{self, Exit, OutputStream, ReadResult};
use crate::bindings::pinion::plugin::process::{Command, ProcessError};
use crate::calls::state::{MAX_CHILDREN, State};
use pinion_plugin_programs::{ChildProgram, ChildWait, OutputSource};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::Resource;

impl child_process::Host for State {
    async fn spawn(&mut self, command: Command) -> wasmtime::Result<Result<Resource<ChildProgram>, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        if !self.children.has_room(&self.table) {
            return Ok(Err(ProcessError::Io(format!("{MAX_CHILDREN} programs run already, the most for one call"))));
        }
        let setup = match surroundings(&self.call.authority.clone(), self.confinement.clone(), &command).await {
            Ok(setup) => setup,
            Err(denied) => return Ok(Err(denied)),
        };
        self.account.capabilities.process.spend()?;
        self.account.capabilities.files.written.spend(command.stdin.len() as u64)?;
        let timeout = command.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        match ChildProgram::start(command.into(), &setup, timeout) {
            Ok(child) => {
                let child = self.table.push(child)?;
                self.children.add(child.rep());
                Ok(Ok(child))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }
}

impl child_process::HostChild for State {
    async fn write(
        &mut self,
        child: Resource<ChildProgram>,
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
        Ok(written.map_err(ProcessError::from))
    }

    async fn close_stdin(&mut self, child: Resource<ChildProgram>) -> wasmtime::Result<()> {
        self.table.get_mut(&child)?.close_stdin();
        Ok(())
    }

    async fn read(
        &mut self,
        child: Resource<ChildProgram>,
        source: OutputStream,
        limit: u32,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<ReadResult, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        let wait = self.wait_for(timeout_ms);
        let source = match source {
            OutputStream::Stdout => OutputSource::Stdout,
            OutputStream::Stderr => OutputSource::Stderr,
        };
        let read = self.table.get_mut(&child)?.read(source, limit, &wait).await;
        Ok(read.map(ReadResult::from).map_err(ProcessError::from))
    }

    async fn wait(
        &mut self,
        child: Resource<ChildProgram>,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<Option<Exit>, ProcessError>> {
        if let Err(denied) = self.may_run() {
            return Ok(Err(denied));
        }
        let wait = self.wait_for(timeout_ms);
        let ended = self.table.get_mut(&child)?.wait(&wait).await;
        Ok(ended.map(|exit| exit.map(Exit::from)).map_err(ProcessError::from))
    }

    async fn kill(&mut self, child: Resource<ChildProgram>) -> wasmtime::Result<()> {
        self.table.get_mut(&child)?.kill();
        Ok(())
    }

    async fn drop(&mut self, child: Resource<ChildProgram>) -> wasmtime::Result<()> {
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

    fn wait_for(&self, timeout_ms: u32) -> ChildWait {
        let time = Duration::from_millis(timeout_ms.into());
        ChildWait { until: Instant::now() + time, token: self.call.deadline.token().clone() }
    }
}
