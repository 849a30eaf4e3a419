//! Plugins of lifetime `session`: one instance, owned by one thread, one call at a time.
//!
//! The thread waits for calls and ends when its plugin is dropped. An instance that broke down is not used again: the
//! next call gets a new one. Over a reload the old instance hands its state to the new one, where both export `state`.

use crate::calls::instance::{
    Finished, Job, Live, RestoreState, SaveState, Setup, Stopped, Until, finish, hand_over, refuel, store, turn,
};
use crate::calls::state::{CallState, NoProgress, State};
use crate::errors::fault::PluginFault;
use crate::limits::Limits;
use crate::loading::generation::LoadError;
use crate::loading::program::Program;
use crate::runtime::Shared;
use std::sync::Arc;
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use wasmtime::Store;
use wasmtime::component::Instance;

/// No honest state is larger.
const MAX_STATE_BYTES: usize = 1024 * 1024;

type Work = Box<dyn FnOnce(&mut Resident, &Handle) + Send>;

/// The one instance of a plugin of lifetime `session`.
pub(crate) struct Session {
    work: mpsc::Sender<Work>,
    /// One call at a time; the others wait here.
    turn: Arc<Semaphore>,
    load_limits: Limits,
}

/// What an instance left to its successor.
pub(crate) struct Inheritance {
    pub(crate) saved: Vec<u8>,
    pub(crate) from_version: String,
}

impl Session {
    /// Starts the thread. The instance is made at the first call.
    ///
    /// # Errors
    /// There are too many such threads, or the system starts no more.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        program: &Arc<Program>,
        inheritance: Option<Inheritance>,
    ) -> Result<Self, LoadError> {
        let place = program.share.resident()?;
        let (work, mut calls) = mpsc::channel::<Work>(1);
        let runtime = Handle::current();
        let mut resident = Resident { shared: shared.clone(), program: program.clone(), kept: None, inheritance };
        let thread = thread::Builder::new().name(format!("pinion-{}", program.name)).spawn(move || {
            // Until the last call has ended, however long that takes after the plugin is gone.
            let _place = place;
            while let Some(work) = calls.blocking_recv() {
                work(&mut resident, &runtime);
            }
            drop(resident);
        });
        thread.map_err(|error| LoadError::Link(format!("no thread for it: {error}")))?;
        Ok(Self { work, turn: Arc::new(Semaphore::new(1)), load_limits: shared.limits.load.clone() })
    }

    /// Does a job on the instance, once it is its turn.
    pub(crate) async fn run<J: Job>(&self, program: &Arc<Program>, setup: Setup, job: J) -> Finished<J::Answer> {
        let Some(permit) = turn(&self.turn, &setup.token).await else {
            return Finished::fault(program, PluginFault::Cancelled { plugin: program.name.to_string() });
        };
        let until = Until::new(&program.limits, setup.token);
        let call = until.call(setup.authority, setup.progress);
        hand_over(program, &until, |answer| {
            let until = until.clone();
            let work: Work = Box::new(move |resident, runtime| {
                let _permit = permit;
                // Nobody listens when the caller gave up.
                let _ = answer.send(resident.run(runtime, call, &until, job));
            });
            // Full only when the thread hangs in the last call: the answer is dropped, and the caller hears of it.
            let _ = self.work.try_send(work);
        })
        .await
    }

    /// What the instance leaves to its successor. None when it was never made, saves nothing, or fails to.
    pub(crate) async fn inheritance(&self, program: &Arc<Program>, version: &str) -> Option<Inheritance> {
        program.exported.state.as_ref()?;
        let setup = Setup {
            authority: program.authority.none(),
            token: CancellationToken::new(),
            progress: Arc::new(NoProgress),
            agents: None,
        };
        // As long as any other step of a load, whatever the plugin's calls may take.
        let program = program.under(&self.load_limits);
        let saved = match self.run(&program, setup, SaveState).await.result {
            Ok(saved) if saved.len() <= MAX_STATE_BYTES => saved,
            Ok(saved) => {
                tracing::warn!(plugin = &*program.name, bytes = saved.len(), "state is too large and is not kept");
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

/// What the thread owns.
struct Resident {
    shared: Arc<Shared>,
    program: Arc<Program>,
    kept: Option<Kept>,
    inheritance: Option<Inheritance>,
}

struct Kept {
    store: Store<State>,
    instance: Instance,
}

impl Resident {
    fn run<J: Job>(&mut self, runtime: &Handle, call: CallState, until: &Until, job: J) -> Finished<J::Answer> {
        let shared = self.shared.clone();
        let _running = shared.engine.running();
        let mut store = match self.kept.take() {
            Some(mut kept) => {
                kept.store.data_mut().begin(call);
                kept.store.set_epoch_deadline(1);
                refuel(&mut kept.store, &self.program);
                (kept.store, Some(kept.instance))
            }
            None => {
                let mut store = store(&shared, &self.program, call);
                store.data_mut().shows_directories = true;
                (store, None)
            }
        };
        let result = runtime.block_on(until.stop(&self.program, self.drive(&mut store.0, store.1, job)));
        let (result, instance) = match result {
            Ok((answer, instance)) => (Ok(answer), Some(instance)),
            Err(stopped) => (Err::<J::Answer, Stopped>(stopped), None),
        };
        let finished = finish(&shared, &self.program, &mut store.0, result);
        store.0.data_mut().end();
        self.kept = instance.map(|instance| Kept { store: store.0, instance });
        finished
    }

    async fn drive<J: Job>(
        &self,
        store: &mut Store<State>,
        instance: Option<Instance>,
        job: J,
    ) -> wasmtime::Result<(J::Answer, Instance)> {
        let mut live = match instance {
            Some(instance) => Live::on(store, instance, &self.program),
            None => self.first(store).await?,
        };
        let answer = live.run(job).await?;
        Ok((answer, live.instance()))
    }

    /// A new instance, with what its predecessor left.
    async fn first<'a>(&'a self, store: &'a mut Store<State>) -> wasmtime::Result<Live<'a>> {
        let mut live = Live::new(store, &self.program).await?;
        if let Some(left) = self.inheritance.as_ref().filter(|_| self.program.exported.state.is_some()) {
            let restore = RestoreState { saved: left.saved.clone(), from_version: left.from_version.clone() };
            if let Err(problem) = live.run_without_authority(restore).await? {
                tracing::warn!(plugin = &*self.program.name, problem, "plugin starts without its state");
            }
        }
        Ok(live)
    }
}
