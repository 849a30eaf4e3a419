//! One call: a store under limits, an instance in it, and the ledger of the resources it used.
//!
//! A call runs on a thread of tokio's blocking pool, because guests may block in file calls, and a guest that hangs in one
//! must not take a worker with it. There it runs as a future: a clock makes the guest yield every few milliseconds, and
//! between two yields the host checks the deadline, the cancellation and whether anyone still waits. The result is handed
//! over before the store is torn down, which costs as much as the call.
//!
//! A plugin whose grants only let it wait for others runs where its caller does, because waking threads would cost more than
//! its own work. It moves to a thread of the pool once it has computed for [`MAX_HERE`].

use crate::calls::idle::{IdleKind, Used};
use crate::calls::state::{CallState, InstanceParts, NoProgress, State};
use crate::calls::thread_handover::{hand_over, start};
use crate::capability::authority::CallAuthority;
use crate::capability::invoke::Invoke;
use crate::capability::ui::Ui;
use crate::host_info::GenerationSettings;
use crate::loading::instance_template::{Code, Exported, ExportedFunction, InstanceTemplate};
use crate::runtime_shared::Shared;
use pinion_journal::event::{INSTANTIATION, InstanceStart};
use pinion_plugin_engine::create_images;
use pinion_plugin_functions::functions::{PlainFunction, PlainFunctions};
use pinion_plugin_journal::linker::unversioned;
use pinion_plugin_journal::recorder::{CallStart, Recorder};
use pinion_plugin_journal::replay::value::encode_all;
use pinion_plugin_journal::value::EncodeValue;
use pinion_plugin_limits::{CallClock, Circumstances, Deadline, FaultKind, GuestError, PluginFault, Stopped, Waits};
use pinion_protocol::{Ledger, Services, SubAgents, ToolProgress};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use wasmtime::component::{ComponentNamedList, Instance, Lift, Lower, Val};
use wasmtime::{AsContextMut as _, Store};

/// Computing time before a call leaves the thread of its caller.
const MAX_HERE: Duration = Duration::from_millis(5);

/// An instance, ready to be called.
pub(crate) struct Live<'a> {
    store: &'a mut Store<State>,
    instance: Instance,
    code: Arc<Code>,
}

impl<'a> Live<'a> {
    /// Creates an instance and calls its `init`.
    pub(crate) async fn new(store: &'a mut Store<State>, program: &'a InstanceTemplate) -> wasmtime::Result<Self> {
        let code = program.code()?;
        create_images(code.pre.component())?;
        let recorder = begin_record(store, || INSTANTIATION.to_owned(), &());
        let created = code.pre.instantiate_async(&mut *store).await;
        if let Some(recorder) = recorder {
            recorder.end_call(
                &created.as_ref().map(|_| ()).map_err(|error| wasmtime::Error::msg(format!("{error:#}"))),
                store.get_fuel().unwrap_or(0),
            );
        }
        let instance = created?;
        let mut live = Self { store, instance, code };
        if let Some(lifecycle) = live.exported().lifecycle {
            let authority = live.state().disentitle();
            let (started,) = live.call::<_, (Result<(), String>,)>(&lifecycle.init, (&*program.config,)).await?;
            started.map_err(GuestError::Init)?;
            live.state().entitle(authority);
        }
        Ok(live)
    }

    /// Wraps an instance that was created before.
    pub(crate) fn on(
        store: &'a mut Store<State>,
        instance: Instance,
        program: &'a InstanceTemplate,
    ) -> Result<Self, GuestError> {
        Ok(Self { store, instance, code: program.code()? })
    }

    /// The instance, to be kept with its store.
    pub(crate) fn instance(&self) -> Instance {
        self.instance
    }

    /// The functions that the instance exports.
    pub(crate) fn exported(&self) -> Exported {
        self.code.exported
    }

    /// The functions of a plain component.
    pub(crate) fn functions(&self) -> Option<Arc<PlainFunctions>> {
        self.code.functions.clone()
    }

    pub(crate) fn state(&mut self) -> &mut State {
        self.store.data_mut()
    }

    pub(crate) async fn run<J: InstanceJob>(&mut self, job: J) -> wasmtime::Result<J::Answer> {
        job.run(self).await
    }

    /// Runs a job that belongs to no call, without the authority of the call.
    pub(crate) async fn run_without_authority<J: InstanceJob>(&mut self, job: J) -> wasmtime::Result<J::Answer> {
        let authority = self.state().disentitle();
        let answer = job.run(self).await?;
        self.state().entitle(authority);
        Ok(answer)
    }

    /// Calls an exported function.
    pub(crate) async fn call<P, R>(&mut self, export: &ExportedFunction, parameters: P) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower + EncodeValue + Send + Sync,
        R: ComponentNamedList + Lift + EncodeValue + Send + Sync + 'static,
    {
        let function = self.instance.get_typed_func::<P, R>(&mut *self.store, export.index)?;
        let recorder = begin_record(self.store, || export.journal_name(), &parameters);
        let returned = function.call_async(&mut *self.store, parameters).await;
        if let Some(recorder) = recorder {
            recorder.end_call(&returned, self.store.get_fuel().unwrap_or(0));
        }
        returned
    }

    /// Calls an exported function whose types are known only now. The parameters must fit them.
    pub(crate) async fn call_values(
        &mut self,
        called: &PlainFunction,
        parameters: &[Val],
    ) -> wasmtime::Result<Option<Val>> {
        let function = self.instance.get_func(&mut *self.store, called.export);
        let function = function.ok_or(GuestError::NotExported("the function of the tool"))?;
        let recorder = match self.store.data().recorder {
            Some(_) => {
                let types = called.parameters.iter().map(|(_, of)| of);
                let arguments = encode_all(parameters, types, &mut self.store.as_context_mut())?;
                begin_record(self.store, || journal_name(called), &arguments)
            }
            None => None,
        };
        let mut results = vec![Val::Bool(false); usize::from(called.result.is_some())];
        let returned = function.call_async(&mut *self.store, parameters, &mut results).await;
        if let Some(recorder) = recorder {
            let encoded = match &returned {
                Ok(()) => encode_all(&results, called.result.iter(), &mut self.store.as_context_mut()),
                Err(error) => Err(wasmtime::Error::msg(error.to_string())),
            };
            recorder.end_call(&encoded, self.store.get_fuel().unwrap_or(0));
        }
        returned?;
        Ok(results.pop())
    }
}

/// Returns the name of a function in a journal.
fn journal_name(function: &PlainFunction) -> String {
    match function.full_name() {
        (Some(interface), name) => format!("{}#{name}", unversioned(interface)),
        (None, name) => name.to_owned(),
    }
}

/// Begins the record of a call, where calls are recorded.
fn begin_record(
    store: &Store<State>,
    export: impl FnOnce() -> String,
    arguments: &impl EncodeValue,
) -> Option<Recorder> {
    let state = store.data();
    let recorder = state.recorder.clone()?;
    let start = CallStart {
        export: export(),
        session: state.call.session.to_string(),
        grants: state.call.authority.granted(),
        fuel: store.get_fuel().unwrap_or(0),
    };
    recorder.begin_call(start, arguments);
    Some(recorder)
}

/// One use of an instance. Each implementation is next to the code that needs it.
pub(crate) trait InstanceJob: Send + 'static {
    /// The guest's answer.
    type Answer: Send + 'static;

    /// True if the job asks for the instance's offer.
    const LISTS_OFFER: bool = false;

    /// Calls the guest.
    fn run(self, live: &mut Live<'_>) -> impl Future<Output = wasmtime::Result<Self::Answer>> + Send;
}

/// The end of a job: its result, and the ledger of the resources it used.
pub(crate) struct FinishedJob<A> {
    pub(crate) result: Result<A, PluginFault>,
    pub(crate) ledger: Ledger,
}

impl<A> FinishedJob<A> {
    /// The end of a job that never reached the guest.
    pub(crate) fn fault(program: &InstanceTemplate, kind: FaultKind) -> Self {
        let ledger = Ledger { plugin: program.name.to_string(), generation: program.number, ..Ledger::default() };
        Self { result: Err(kind.for_plugin(&program.name)), ledger }
    }
}

/// The caller's part of a call.
pub(crate) struct Setup {
    /// The id of the session that makes the call; empty for calls of the host itself.
    pub(crate) session: Arc<str>,
    pub(crate) authority: CallAuthority,
    pub(crate) token: CancellationToken,
    pub(crate) progress: Arc<dyn ToolProgress>,
    pub(crate) agents: Option<SubAgents>,
    pub(crate) services: Option<Services>,
}

impl Setup {
    /// Maximum nesting depth of calls that the call makes; 0 if it may make no calls.
    fn call_depth(&self) -> u32 {
        let services = self.services.as_ref().filter(|_| self.authority.allows::<Invoke>());
        services.map_or(0, |services| services.call_depth_left())
    }

    /// The clock of the call, if it may wait for a person.
    pub(crate) fn clock(&self) -> Option<CallClock> {
        let may_wait = self.authority.is_granted::<Ui>() || self.call_depth() > 0;
        let services = self.services.clone().filter(|_| may_wait);
        services.map(CallClock::Services).or_else(|| self.agents.clone().map(CallClock::Agents))
    }

    /// The setup of a job that the host starts for itself.
    pub(crate) fn without_authority(program: &InstanceTemplate) -> Self {
        Self {
            session: "".into(),
            authority: program.authority.none(),
            token: CancellationToken::new(),
            progress: Arc::new(NoProgress),
            agents: None,
            services: None,
        }
    }
}

/// Runs a job, once the plugin has a turn.
pub(crate) async fn run<J: InstanceJob>(
    shared: &Arc<Shared>,
    program: &Arc<InstanceTemplate>,
    setup: Setup,
    job: J,
) -> FinishedJob<J::Answer> {
    let waits =
        Waits { agent_depth: setup.agents.as_ref().map_or(0, SubAgents::depth_left), call_depth: setup.call_depth() };
    match shared.permits.turn(&program.share, waits, &setup.token).await {
        Ok(turn) => run_with(turn, shared, program, setup, job).await,
        Err(kind) => FinishedJob::fault(program, kind),
    }
}

/// Runs a job. The thread holds `permit` until it ends.
pub(crate) async fn run_with<J: InstanceJob>(
    permit: impl Send + 'static,
    shared: &Arc<Shared>,
    program: &Arc<InstanceTemplate>,
    setup: Setup,
    job: J,
) -> FinishedJob<J::Answer> {
    let deadline = Deadline::new(&program.limits, setup.token.clone(), setup.clock());
    let Setup { session, authority, progress, agents, services, .. } = setup;
    let call =
        CallState { session, authority, deadline: deadline.clone(), progress, agents, services, may_invoke: true };
    if program.authority.only_waits() {
        return run_here(permit, shared, program, call, &deadline, job).await;
    }
    hand_over(program, &deadline, Some(&shared.engine), |answer, abandoned| {
        let (runtime, deadline) = (Handle::current(), deadline.clone());
        let (shared, program) = (shared.clone(), program.clone());
        let (threads, called) = (shared.clone(), program.clone());
        // Not awaited: it ends soon after its deadline, or sits in a system call.
        start(
            threads,
            called,
            Box::new(move || {
                let _permit = permit;
                let _running = shared.engine.running();
                let (finished, _store) = runtime.block_on(work(&shared, &program, call, &deadline, &abandoned, job));
                // Fails when the caller has gone.
                let _ = answer.send(finished);
            }),
        );
    })
    .await
}

/// Runs a job on a fresh instance, or on one that the program kept. Returns the store that has to be torn down, once
/// the result was handed over; `None` if its instance is kept.
async fn work<J: InstanceJob>(
    shared: &Shared,
    program: &InstanceTemplate,
    call: CallState,
    deadline: &Deadline,
    abandoned: &CancellationToken,
    job: J,
) -> (FinishedJob<J::Answer>, Option<Store<State>>) {
    let kept = program.idle.as_ref().map(|idle| (idle, IdleKind::for_call(&call)));
    let (mut store, used) = match kept.as_ref().and_then(|(idle, kind)| idle.take_instance(kind)) {
        Some(Used { mut store, instance, fuel, .. }) => {
            renew(&mut store, program, call);
            store.data_mut().stderr.begin();
            (store, Some((instance, fuel)))
        }
        None => (store(shared, program, call), None),
    };
    let guest = async {
        let mut live = match used {
            Some((instance, _)) => Live::on(&mut store, instance, program)?,
            None => Live::new(&mut store, program).await?,
        };
        let answer = live.run(job).await?;
        Ok((answer, live.instance()))
    };
    let result = deadline.run(abandoned, guest).await;
    store.data_mut().end_requests().await;
    let (result, instance) = match result {
        Ok((answer, instance)) => (Ok(answer), Some(instance)),
        Err(stopped) => (Err(stopped), None),
    };
    let finished = finish(shared, program, &mut store, result);
    let left = match (kept, instance) {
        (Some((idle, kind)), Some(instance)) => {
            store.data_mut().end();
            let fuel = used.map_or(0, |(_, fuel)| fuel).saturating_add(finished.ledger.fuel);
            idle.keep(&program.share, program.limits.fuel, Used { store, instance, kind, fuel })
        }
        _ => Some(store),
    };
    (finished, left)
}

/// Runs a job where its caller runs, and elsewhere once it has computed for [`MAX_HERE`]. Dropping this future drops the
/// instance.
async fn run_here<J: InstanceJob>(
    permit: impl Send + 'static,
    shared: &Arc<Shared>,
    program: &Arc<InstanceTemplate>,
    call: CallState,
    deadline: &Deadline,
    job: J,
) -> FinishedJob<J::Answer> {
    let mut working = Box::pin({
        let (shared, program, deadline) = (shared.clone(), program.clone(), deadline.clone());
        async move {
            let _permit = permit;
            let _running = shared.engine.running();
            work(&shared, &program, call, &deadline, &CancellationToken::new(), job).await
        }
    });
    let mut used = Duration::ZERO;
    let here = poll_fn(|context| {
        let begun = Instant::now();
        let polled = working.as_mut().poll(context);
        used += begun.elapsed();
        match polled {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if used > MAX_HERE => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    if let Some((finished, store)) = here.await {
        if let Some(store) = store {
            tokio::task::spawn_blocking(move || drop(store));
        }
        return finished;
    }
    hand_over(program, deadline, None, |answer, abandoned| {
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            if let Some((finished, _store)) = runtime.block_on(abandoned.run_until_cancelled(working)) {
                let _ = answer.send(finished);
            }
        });
    })
    .await
}

/// Creates a store under the limits of a program.
pub(crate) fn store(shared: &Shared, program: &InstanceTemplate, call: CallState) -> Store<State> {
    let parts = InstanceParts {
        plugin: program.name.clone(),
        limits: program.limits.clone(),
        share: program.share.clone(),
        total_memory: shared.limits.engine.plugin_memory_bytes.max(program.limits.memory_bytes),
        info: shared.info.clone(),
        read_files: shared.read_files.clone(),
        used_tokens: shared.used_tokens.clone(),
        settings: GenerationSettings { config: program.config.clone(), generation: program.number },
        stores: shared.stores.clone(),
        changed: program.changed.clone(),
        client: shared.client.clone(),
        confinement: shared.confinement.clone(),
        mcp: shared.mcp.clone(),
        plugins: shared.plugins.clone(),
    };
    let mut store = Store::new(shared.engine.wasmtime(), State::new(parts, call));
    store.data_mut().recorder = shared.journal.as_ref().map(|journal| {
        let start = InstanceStart {
            instance: 0,
            plugin: program.name.to_string(),
            component: program.digest.to_hex().to_string(),
            generation: program.number,
            settings: program.config.to_string(),
            memory_limit: program.limits.memory_bytes,
        };
        Recorder::begin_instance(journal, start)
    });
    store.limiter(|state| &mut state.limiter);
    store.call_hook(|mut context, hook| Ok(context.data_mut().on_call(hook)?));
    store.set_hostcall_fuel(usize::try_from(program.limits.output_bytes).unwrap_or(usize::MAX));
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    refuel(&mut store, program);
    store
}

/// Begins a call on an instance that has had others.
pub(crate) fn renew(store: &mut Store<State>, program: &InstanceTemplate, call: CallState) {
    store.data_mut().begin(call);
    store.set_epoch_deadline(1);
    refuel(store, program);
}

/// Sets the fuel of a call that begins.
pub(crate) fn refuel(store: &mut Store<State>, program: &InstanceTemplate) {
    if let Err(error) = store.set_fuel(program.limits.fuel) {
        // Only an engine without fuel fails here; this one has it. The guest would stop at once.
        tracing::error!(%error, "fuel could not be set");
    }
}

/// Derives the fault of a call that failed, and closes its ledger.
pub(crate) fn finish<A>(
    shared: &Shared,
    program: &InstanceTemplate,
    store: &mut Store<State>,
    result: Result<A, Stopped>,
) -> FinishedJob<A> {
    // Before the result is handed over, because the store may outlive that.
    store.data_mut().end_programs();
    let fuel_left = store.get_fuel().unwrap_or(0);
    let state = store.data();
    if let Some(recorder) = &state.recorder {
        recorder.stop(fuel_left);
    }
    let result = result.map_err(|stopped| match stopped {
        Stopped::Fault(kind) => kind.for_plugin(&program.name),
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
        time_us: u64::try_from(state.call.deadline.elapsed().as_micros()).unwrap_or(u64::MAX),
        ..state.ledger()
    };
    FinishedJob { result, ledger }
}
