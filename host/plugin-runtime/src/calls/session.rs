//! Plugins of lifetime `session`: one instance, owned by one thread, one call at a time.
//!
//! The thread waits for calls and ends when its plugin is dropped. An instance that broke down is not used again: the
//! next call gets a new one. Over a reload the old instance hands its state to the new one, where both export `state`.

use crate::calls::instance::{FinishedJob, InstanceJob, Live, Setup, finish, refuel, renew, store};
use crate::calls::state::{CallState, State};
use crate::calls::thread_handover::{hand_over, linger};
use crate::load_error::LoadError;
use crate::loading::instance_template::InstanceTemplate;
use crate::runtime_shared::Shared;
use pinion_plugin_limits::{Deadline, FaultKind, GuestError, Limits, Stopped};
use std::sync::Arc;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use wasmtime::Store;
use wasmtime::component::Instance;

/// Bytes of state that a new instance gets from the old one; more is dropped.
const MAX_STATE_BYTES: usize = 1024 * 1024;

type ResidentJob = Box<dyn FnOnce(&mut Resident, &Handle) + Send>;

/// The one instance of a plugin of lifetime `session`.
pub(crate) struct SessionInstance {
    shared: Arc<Shared>,
    work: mpsc::Sender<ResidentJob>,
    /// Admits one call at a time; the others wait here.
    turn: Arc<Semaphore>,
    load_limits: Limits,
}

/// Keeps further jobs off the instance.
pub(crate) struct Hold(#[allow(dead_code, reason = "held until it is dropped")] Option<Arc<OwnedSemaphorePermit>>);

/// The state that an instance leaves to its successor.
pub(crate) struct Inheritance {
    saved: Vec<u8>,
    from_version: String,
}

impl SessionInstance {
    /// Starts the thread. The first call creates the instance.
    ///
    /// # Errors
    /// There are too many such threads, or the system starts no more.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        program: &Arc<InstanceTemplate>,
        inheritance: Option<Inheritance>,
    ) -> Result<Self, LoadError> {
        let permit = program.share.resident()?;
        let (work, mut calls) = mpsc::channel::<ResidentJob>(1);
        let runtime = Handle::current();
        let mut resident = Resident { shared: shared.clone(), program: program.clone(), idle: None, inheritance };
        let thread = thread::Builder::new().name(format!("pinion-{}", program.name)).spawn(move || {
            // Held until the last call has ended, however long that takes after the plugin is gone.
            let _permit = permit;
            while let Some(work) = linger(&resident.program, &resident.shared.engine, &mut calls) {
                work(&mut resident, &runtime);
            }
            drop(resident);
        });
        thread.map_err(|error| LoadError::link("could not start a thread for it", error))?;
        Ok(Self {
            shared: shared.clone(),
            work,
            turn: Arc::new(Semaphore::new(1)),
            load_limits: shared.limits.load.clone(),
        })
    }

    /// Runs a job on the instance, once those before it have ended.
    pub(crate) async fn run<J: InstanceJob>(
        &self,
        program: &Arc<InstanceTemplate>,
        setup: Setup,
        job: J,
    ) -> FinishedJob<J::Answer> {
        self.run_and_hold(program, setup, job).await.0
    }

    /// Runs a job like [`SessionInstance::run`]. The next one waits until the [`Hold`] is dropped, too.
    pub(crate) async fn run_and_hold<J: InstanceJob>(
        &self,
        program: &Arc<InstanceTemplate>,
        setup: Setup,
        job: J,
    ) -> (FinishedJob<J::Answer>, Hold) {
        let Some(permit) = turn(&self.turn, &setup.token).await.map(Arc::new) else {
            return (FinishedJob::fault(program, FaultKind::Cancelled), Hold(None));
        };
        let hold = Hold(Some(permit.clone()));
        // The instance must not wait for sub-agents and other calls, which may need it.
        let setup = Setup { agents: None, ..setup };
        let deadline = Deadline::new(&program.limits, setup.token.clone(), setup.clock());
        let Setup { session, authority, progress, agents, services, .. } = setup;
        let call =
            CallState { session, authority, deadline: deadline.clone(), progress, agents, services, may_invoke: false };
        let finished = hand_over(program, &deadline, Some(&self.shared.engine), |answer, abandoned| {
            let (program, deadline) = (program.clone(), deadline.clone());
            let work: ResidentJob = Box::new(move |resident, runtime| {
                let _permit = permit;
                // Fails when the caller has gone.
                let _ = answer.send(resident.run(runtime, &program, call, &deadline, &abandoned, job));
            });
            // Full only while the thread hangs in the last call: then the answer is dropped, which the caller notices.
            let _ = self.work.try_send(work);
        })
        .await;
        (finished, hold)
    }

    /// Asks the instance for the state that its successor needs. `None` when no instance was created, or it saves
    /// nothing or fails.
    pub(crate) async fn inheritance(&self, program: &Arc<InstanceTemplate>, version: &str) -> Option<Inheritance> {
        program.code().ok()?.exported.state.as_ref()?;
        // Under the limits of loading, like every step of a load, regardless of the limits of the plugin's calls.
        let program = program.under(&self.load_limits);
        let saved = match self.run(&program, Setup::without_authority(&program), SaveState).await.result {
            Ok(saved) if saved.len() <= MAX_STATE_BYTES => saved,
            Ok(saved) => {
                tracing::warn!(plugin = &*program.name, bytes = saved.len(), "state is too large and is dropped");
                return None;
            }
            Err(fault) => {
                tracing::warn!(plugin = &*program.name, %fault, "state was not saved");
                return None;
            }
        };
        Some(Inheritance { saved, from_version: version.to_owned() })
    }
}

/// Waits for the turn of a call. `None` when the call is cancelled before.
async fn turn(permits: &Arc<Semaphore>, token: &CancellationToken) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        permit = permits.clone().acquire_owned() => permit.ok(),
        () = token.cancelled() => None,
    }
}

/// The thread's own data.
struct Resident {
    shared: Arc<Shared>,
    program: Arc<InstanceTemplate>,
    idle: Option<IdleInstance>,
    inheritance: Option<Inheritance>,
}

/// An instance between two calls.
struct IdleInstance {
    store: Store<State>,
    instance: Instance,
}

impl Resident {
    /// Runs a job with the fuel of `program`, which is the resident's own or one under other limits.
    fn run<J: InstanceJob>(
        &mut self,
        runtime: &Handle,
        program: &InstanceTemplate,
        call: CallState,
        deadline: &Deadline,
        abandoned: &CancellationToken,
        job: J,
    ) -> FinishedJob<J::Answer> {
        let shared = self.shared.clone();
        let _running = shared.engine.running();
        let (mut store, instance) = self.take_idle(program, call);
        let result = runtime.block_on(async {
            let result = deadline.run(abandoned, self.drive(&mut store, instance, job)).await;
            store.data_mut().end_requests().await;
            result
        });
        let (result, instance) = match result {
            Ok((answer, instance)) => (Ok(answer), Some(instance)),
            Err(stopped) => (Err::<J::Answer, Stopped>(stopped), None),
        };
        let finished = finish(&shared, program, &mut store, result);
        store.data_mut().end();
        self.idle = instance.map(|instance| IdleInstance { store, instance });
        finished
    }

    /// The store of the idle instance with that instance, or a new store without one.
    fn take_idle(&mut self, program: &InstanceTemplate, call: CallState) -> (Store<State>, Option<Instance>) {
        match self.idle.take() {
            Some(IdleInstance { mut store, instance }) => {
                renew(&mut store, program, call);
                (store, Some(instance))
            }
            None => {
                // Later calls have the limits of the store, and not the limits of this call.
                let mut store = store(&self.shared, &self.program, call);
                refuel(&mut store, program);
                store.data_mut().shows_directories = true;
                (store, None)
            }
        }
    }

    async fn drive<J: InstanceJob>(
        &mut self,
        store: &mut Store<State>,
        instance: Option<Instance>,
        job: J,
    ) -> wasmtime::Result<(J::Answer, Instance)> {
        let program = self.program.clone();
        let mut live = match instance {
            Some(instance) => Live::on(store, instance, &program)?,
            None => {
                let live = first(store, &program, &mut self.inheritance).await?;
                if !J::LISTS_OFFER {
                    // It may offer something else than the instance before it.
                    program.changed.notify_one();
                }
                live
            }
        };
        let answer = live.run(job).await?;
        Ok((answer, live.instance()))
    }
}

/// Creates an instance and gives it the state of its predecessor. A state that breaks the instance is dropped, so that the
/// next one works.
async fn first<'a>(
    store: &'a mut Store<State>,
    program: &'a InstanceTemplate,
    inheritance: &mut Option<Inheritance>,
) -> wasmtime::Result<Live<'a>> {
    let mut live = Live::new(store, program).await?;
    if live.exported().state.is_some()
        && let Some(left) = inheritance.take()
    {
        let restore = RestoreState { saved: left.saved.clone(), from_version: left.from_version.clone() };
        let restored = live.run_without_authority(restore).await.inspect_err(|error| {
            tracing::warn!(plugin = &*program.name, %error, "state broke its plugin and is dropped");
        });
        if let Err(problem) = restored? {
            tracing::warn!(plugin = &*program.name, problem, "plugin starts without its state");
        }
        *inheritance = Some(left);
    }
    Ok(live)
}

/// Asks an instance for the state that its successor needs.
struct SaveState;

impl InstanceJob for SaveState {
    type Answer = Vec<u8>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Vec<u8>> {
        let export = live.exported().state.ok_or(GuestError::NotExported("state"))?;
        let (saved,) = live.call::<_, (Vec<u8>,)>(&export.save_state, ()).await?;
        Ok(saved)
    }
}

/// Gives a new instance the state of its predecessor.
struct RestoreState {
    saved: Vec<u8>,
    from_version: String,
}

impl InstanceJob for RestoreState {
    type Answer = Result<(), String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = live.exported().state.ok_or(GuestError::NotExported("state"))?;
        let parameters = (self.saved.as_slice(), self.from_version.as_str());
        let (restored,) = live.call::<_, (Self::Answer,)>(&export.restore_state, parameters).await?;
        Ok(restored)
    }
}
