//! One call: a store under limits, an instance in it, and the account of what it used.
//!
//! A call runs on a thread of tokio's blocking pool, because guests may block in file calls, and because a guest that
//! hangs in one must not take a worker with it. There it runs as a future: a clock makes the guest yield every few
//! milliseconds, and between two yields the host looks at the deadline, at the cancellation and at whether anyone still
//! waits. The result is handed over before the store is torn down, which costs as much as the call.

use crate::bindings::exports::pinion::plugin::{commands as wit_commands, tools as wit_tools};
use crate::bindings::pinion::plugin::types::{CallContext, Display, ToolError, ToolOutput};
use crate::calls::state::{CallState, NoProgress, State};
use crate::capability::CallAuthority;
use crate::errors::fault::{Circumstances, GuestError, PluginFault};
use crate::limits::Limits;
use crate::loading::program::{Exported, Program};
use crate::runtime::Shared;
use pinion_protocol::{Ledger, SubAgents, ToolProgress};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower};

/// How long after its deadline a call is waited for before its thread is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// An instance, ready to be called.
pub(crate) struct Live<'a> {
    store: &'a mut Store<State>,
    instance: Instance,
    exported: &'a Exported,
}

impl<'a> Live<'a> {
    /// Makes an instance and initialises it.
    pub(crate) async fn new(store: &'a mut Store<State>, program: &'a Program) -> wasmtime::Result<Self> {
        let instance = program.pre.instantiate_async(&mut *store).await?;
        let mut live = Self::on(store, instance, program);
        if let Some(lifecycle) = &program.exported.lifecycle {
            let authority = live.store.data_mut().disentitle();
            let (started,) = live.call::<_, (Result<(), String>,)>(&lifecycle.init, (&*program.config,)).await?;
            started.map_err(GuestError::Init)?;
            live.store.data_mut().entitle(authority);
        }
        Ok(live)
    }

    /// Does a job that belongs to no call.
    pub(crate) async fn run_without_authority<J: Job>(&mut self, job: J) -> wasmtime::Result<J::Answer> {
        let authority = self.store.data_mut().disentitle();
        let answer = job.run(self).await?;
        self.store.data_mut().entitle(authority);
        Ok(answer)
    }

    /// An instance that was made before.
    pub(crate) fn on(store: &'a mut Store<State>, instance: Instance, program: &'a Program) -> Self {
        Self { store, instance, exported: &program.exported }
    }

    /// The instance, to be kept beside its store.
    pub(crate) fn instance(&self) -> Instance {
        self.instance
    }

    /// Does a job.
    pub(crate) async fn run<J: Job>(&mut self, job: J) -> wasmtime::Result<J::Answer> {
        job.run(self).await
    }

    async fn call<P, R>(&mut self, export: &ComponentExportIndex, parameters: P) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let function = self.instance.get_typed_func::<P, R>(&mut *self.store, export)?;
        function.call_async(&mut *self.store, parameters).await
    }
}

/// What is done with an instance.
pub(crate) trait Job: Send + 'static {
    /// What comes of it.
    type Answer: Send + 'static;

    /// Calls the guest.
    fn run(self, live: &mut Live<'_>) -> impl Future<Output = wasmtime::Result<Self::Answer>> + Send;
}

/// How a job ended, and what it used.
pub(crate) struct Finished<A> {
    pub(crate) result: Result<A, PluginFault>,
    pub(crate) ledger: Ledger,
}

/// What a call is part of.
pub(crate) struct Setup {
    pub(crate) authority: CallAuthority,
    pub(crate) token: CancellationToken,
    pub(crate) progress: Arc<dyn ToolProgress>,
    pub(crate) agents: Option<SubAgents>,
}

/// When a call is to be stopped.
#[derive(Clone)]
pub(crate) struct Until {
    /// The call is no longer wanted; it gets its grace.
    token: CancellationToken,
    /// Nobody waits any more.
    abandoned: CancellationToken,
    started: Instant,
    deadline: Instant,
    grace: Duration,
    /// The clock of a call that may start sub-agents.
    agents: Option<SubAgents>,
}

impl Until {
    /// For a call that begins now.
    pub(crate) fn new(limits: &Limits, token: CancellationToken) -> Self {
        let started = Instant::now();
        Self {
            token,
            abandoned: CancellationToken::new(),
            started,
            deadline: started + bounded(limits.deadline_ms),
            grace: bounded(limits.grace_ms),
            agents: None,
        }
    }

    /// Ends when `more` has passed since the deadline. Time in which a person is asked about calls of sub-agents does not
    /// count.
    async fn over(&self, more: Duration) {
        match &self.agents {
            Some(agents) => agents.sleep((self.deadline + more).saturating_duration_since(Instant::now())).await,
            None => sleep_until(self.deadline + more).await,
        }
    }

    /// A call that is stopped then.
    pub(crate) fn call(&self, authority: CallAuthority, progress: Arc<dyn ToolProgress>) -> CallState {
        let (token, started, deadline) = (self.token.clone(), self.started, self.deadline);
        CallState { authority, token, started, deadline, progress, agents: None }
    }
}

/// A century is as good as never, and does not overflow the clock.
fn bounded(ms: u64) -> Duration {
    Duration::from_millis(ms).min(Duration::from_secs(3_000_000_000))
}

/// Runs a job on a fresh instance.
pub(crate) async fn run<J: Job>(
    shared: &Arc<Shared>,
    program: &Arc<Program>,
    setup: Setup,
    job: J,
) -> Finished<J::Answer> {
    match shared.permits.turn(program, &setup).await {
        Ok(turn) => run_with(turn, shared, program, setup, job).await,
        Err(fault) => Finished::fault(program, fault),
    }
}

/// Asks a plugin what it offers, on an instance that may do nothing, under the limits of loading.
pub(crate) async fn describe(shared: &Arc<Shared>, program: &Program) -> Result<Description, PluginFault> {
    let setup = Setup {
        authority: program.authority.none(),
        token: CancellationToken::new(),
        progress: Arc::new(NoProgress),
        agents: None,
    };
    let program = program.under(&shared.limits.load);
    let permit = shared.permits.describing().await;
    run_with(permit, shared, &program, setup, Describe).await.result
}

async fn run_with<J: Job>(
    permit: impl Send + 'static,
    shared: &Arc<Shared>,
    program: &Arc<Program>,
    setup: Setup,
    job: J,
) -> Finished<J::Answer> {
    let until = Until { agents: setup.agents.clone(), ..Until::new(&program.limits, setup.token) };
    let call = CallState { agents: setup.agents, ..until.call(setup.authority, setup.progress) };
    hand_over(program, &until, |answer| {
        let (runtime, until) = (Handle::current(), until.clone());
        let (shared, program) = (shared.clone(), program.clone());
        // Not awaited: it ends by itself soon after its deadline, and sits in a system call if it does not.
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let _running = shared.engine.running();
            let mut store = store(&shared, &program, call);
            let result = runtime.block_on(until.stop(&program, async {
                let mut live = Live::new(&mut store, &program).await?;
                live.run(job).await
            }));
            // Nobody listens when the caller gave up.
            let _ = answer.send(finish(&shared, &program, &mut store, result));
        });
    })
    .await
}

/// Waits until it is a call's turn. None when it is cancelled before.
pub(crate) async fn turn(permits: &Arc<Semaphore>, token: &CancellationToken) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        permit = permits.clone().acquire_owned() => permit.ok(),
        () = token.cancelled() => None,
    }
}

/// Lets `start` begin work elsewhere and waits for its answer. When this future is dropped, the work is abandoned; when
/// the work does not react long after its deadline, its thread is.
pub(crate) async fn hand_over<A>(
    program: &Program,
    until: &Until,
    start: impl FnOnce(oneshot::Sender<Finished<A>>),
) -> Finished<A> {
    let _abandon: DropGuard = until.abandoned.clone().drop_guard();
    let (sender, receiver) = oneshot::channel();
    start(sender);
    let finished = tokio::select! {
        biased;
        finished = receiver => finished.ok(),
        () = until.over(until.grace + PATIENCE) => None,
    };
    finished.unwrap_or_else(|| Finished::fault(program, PluginFault::Stuck { plugin: program.name.to_string() }))
}

impl<A> Finished<A> {
    pub(crate) fn fault(program: &Program, fault: PluginFault) -> Self {
        let ledger = Ledger { plugin: program.name.to_string(), generation: program.number, ..Ledger::default() };
        Self { result: Err(fault), ledger }
    }
}

/// Why a guest did not get to its end.
pub(crate) enum Stopped {
    Error(wasmtime::Error),
    Fault(PluginFault),
}

impl Until {
    /// Runs a guest until it ends or has to.
    pub(crate) async fn stop<A>(
        &self,
        program: &Program,
        guest: impl Future<Output = wasmtime::Result<A>>,
    ) -> Result<A, Stopped> {
        let plugin = || program.name.to_string();
        tokio::select! {
            // The guest first: most calls end before anyone looks at a clock.
            biased;
            result = guest => result.map_err(Stopped::Error),
            () = self.abandoned.cancelled() => Err(Stopped::Fault(PluginFault::Cancelled { plugin: plugin() })),
            () = self.out_of_grace() => Err(Stopped::Fault(PluginFault::Cancelled { plugin: plugin() })),
            () = self.over(Duration::ZERO) => {
                let limit_ms = program.limits.deadline_ms;
                Err(Stopped::Fault(PluginFault::Deadline { plugin: plugin(), limit_ms }))
            }
        }
    }

    async fn out_of_grace(&self) {
        self.token.cancelled().await;
        tokio::time::sleep(self.grace).await;
    }
}

/// A store under the limits of a program.
pub(crate) fn store(shared: &Shared, program: &Program, call: CallState) -> Store<State> {
    let mut store = Store::new(shared.engine.wasmtime(), State::new(shared, program, call));
    store.limiter(|state| &mut state.limiter);
    store.call_hook(|mut context, hook| Ok(context.data_mut().on_call(hook)?));
    store.set_hostcall_fuel(usize::try_from(program.limits.output_bytes).unwrap_or(usize::MAX));
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    refuel(&mut store, program);
    store
}

/// Fills the tank, for a call that begins.
pub(crate) fn refuel(store: &mut Store<State>, program: &Program) {
    if let Err(error) = store.set_fuel(program.limits.fuel) {
        // Only an engine without fuel says so, and ours has it: the guest would stop at once.
        tracing::error!(%error, "fuel could not be set");
    }
}

/// Draws up the account.
pub(crate) fn finish<A>(
    shared: &Shared,
    program: &Program,
    store: &mut Store<State>,
    result: Result<A, Stopped>,
) -> Finished<A> {
    let fuel_left = store.get_fuel().unwrap_or(0);
    let state = store.data();
    let result = result.map_err(|stopped| match stopped {
        Stopped::Fault(fault) => fault,
        Stopped::Error(error) => {
            let about = Circumstances {
                plugin: &program.name,
                limits: &program.limits,
                stack_limit: shared.engine.limits().stack_bytes as u64,
                refused_memory: state.limiter.refused_memory,
                refused_table: state.limiter.refused_table,
                refused_total: state.limiter.refused_total,
                stderr: state.stderr.tail(),
            };
            PluginFault::from_error(&error, &about)
        }
    });
    let ledger = Ledger {
        generation: program.number,
        fuel: program.limits.fuel.saturating_sub(fuel_left),
        time_us: u64::try_from(state.call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        ..state.ledger()
    };
    Finished { result, ledger }
}

/// One tool call.
pub(crate) struct CallTool {
    pub(crate) context: CallContext,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Job for CallTool {
    type Answer = Result<ToolOutput, ToolError>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported.tools.as_ref().ok_or(GuestError::NotExported("tools"))?;
        let parameters = (&self.context, self.name.as_str(), self.arguments.as_str());
        let (answer,) = live.call::<_, (Self::Answer,)>(&export.call_tool, parameters).await?;
        let bytes = answer.as_ref().map_or_else(error_bytes, output_bytes);
        live.store.data_mut().spend_output(bytes)?;
        Ok(answer)
    }
}

fn output_bytes(output: &ToolOutput) -> usize {
    let details = output.details.as_ref().map_or(0, String::len);
    let language = match &output.display {
        Display::Code(language) => language.len(),
        Display::Plain | Display::Markdown | Display::Diff => 0,
    };
    details + language + crate::host::progress::contents_bytes(&output.content)
}

fn error_bytes(error: &ToolError) -> usize {
    match error {
        ToolError::InvalidArguments(text) | ToolError::NotFound(text) | ToolError::Denied(text) => text.len(),
        ToolError::Failed(failure) => failure.message.len(),
        ToolError::Cancelled => 0,
    }
}

/// One run of a slash command.
pub(crate) struct RunCommand {
    pub(crate) context: CallContext,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Job for RunCommand {
    type Answer = Result<Vec<wit_commands::Effect>, String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported.commands.as_ref().ok_or(GuestError::NotExported("commands"))?;
        let parameters = (&self.context, self.name.as_str(), self.arguments.as_str());
        let (answer,) = live.call::<_, (Self::Answer,)>(&export.run_command, parameters).await?;
        Ok(answer)
    }
}

/// What an argument of a command could be.
pub(crate) struct CompleteArgument {
    pub(crate) name: String,
    pub(crate) typed: String,
}

impl Job for CompleteArgument {
    type Answer = Vec<wit_commands::Completion>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported.commands.as_ref().ok_or(GuestError::NotExported("commands"))?;
        let parameters = (self.name.as_str(), self.typed.as_str());
        let (answer,) = live.call::<_, (Self::Answer,)>(&export.complete_argument, parameters).await?;
        Ok(answer)
    }
}

/// What a plugin offers, asked when it is loaded; tests itself on the way.
pub(crate) struct Describe;

/// A plugin's answer to [`Describe`].
pub(crate) struct Description {
    pub(crate) tools: Vec<wit_tools::ToolDefinition>,
    pub(crate) commands: Vec<wit_commands::CommandDefinition>,
}

impl Job for Describe {
    type Answer = Description;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Description> {
        let exported = live.exported;
        if let Some(lifecycle) = &exported.lifecycle {
            let (passed,) = live.call::<_, (Result<(), String>,)>(&lifecycle.self_test, ()).await?;
            passed.map_err(GuestError::SelfTest)?;
        }
        let mut description = Description { tools: Vec::new(), commands: Vec::new() };
        if let Some(tools) = &exported.tools {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&tools.list_tools, ()).await?;
            description.tools = listed.map_err(GuestError::List)?;
        }
        if let Some(commands) = &exported.commands {
            let (listed,) = live.call::<_, (Result<Vec<_>, String>,)>(&commands.list_commands, ()).await?;
            description.commands = listed.map_err(GuestError::List)?;
        }
        Ok(description)
    }
}

/// Asks an instance of lifetime `session` for what its successor should know.
pub(crate) struct SaveState;

impl Job for SaveState {
    type Answer = Vec<u8>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Vec<u8>> {
        let export = live.exported.state.as_ref().ok_or(GuestError::NotExported("state"))?;
        let (saved,) = live.call::<_, (Vec<u8>,)>(&export.save_state, ()).await?;
        Ok(saved)
    }
}

/// Tells a new instance of lifetime `session` what its predecessor knew.
pub(crate) struct RestoreState {
    pub(crate) saved: Vec<u8>,
    pub(crate) from_version: String,
}

impl Job for RestoreState {
    type Answer = Result<(), String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported.state.as_ref().ok_or(GuestError::NotExported("state"))?;
        let parameters = (self.saved.as_slice(), self.from_version.as_str());
        let (restored,) = live.call::<_, (Self::Answer,)>(&export.restore_state, parameters).await?;
        Ok(restored)
    }
}
