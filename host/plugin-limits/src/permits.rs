//! Permits of calls and of the steps of loading.

use crate::fault::FaultKind;
use crate::limits::EngineLimits;
use crate::shares::Share;
use crate::turns::{TurnPermit, Turns};
use pinion_protocol::{MAX_AGENT_DEPTH, MAX_CALL_DEPTH};
use std::num::NonZero;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Time that a call waits for its turn before it fails.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Turns to run, and permits to load.
///
/// Calls that may wait for others have separate turns, one kind for each nesting depth: the awaited calls must get a
/// turn while the waiting calls hold theirs. A call that may start sub-agents waits for calls of less agent depth or of
/// any call depth; one that may only make calls waits for calls of less call depth. So no turns wait in a circle.
pub struct Permits {
    calls: Turns,
    delegating: [Turns; MAX_AGENT_DEPTH as usize],
    invoking: [Turns; MAX_CALL_DEPTH as usize],
    reading: Arc<Semaphore>,
    compiling: Arc<Semaphore>,
    compiling_apart: Arc<Semaphore>,
    describing: Arc<Semaphore>,
}

/// The calls that a call may wait for.
#[derive(Clone, Copy, Default)]
pub struct Waits {
    /// Maximum nesting depth of its sub-agents; 0 if it may start no sub-agents.
    pub agent_depth: u32,
    /// Maximum nesting depth of calls that it makes; 0 if it may make no calls.
    pub call_depth: u32,
}

impl Permits {
    /// Creates all turns and permits of a runtime.
    pub fn new(limits: &EngineLimits) -> Self {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        // Only plugins that were granted agents take these, so no turn is reserved for first calls.
        let delegating = std::array::from_fn(|_| Turns::new(limits.delegating_calls(), 0));
        let invoking = std::array::from_fn(|_| Turns::new(limits.invoking_calls(), 0));
        let cores = u32::try_from(cores()).unwrap_or(1);
        Self {
            calls: Turns::new(limits.concurrent_calls, EngineLimits::FIRST_CALLS),
            delegating,
            invoking,
            reading: semaphore(cores.max(4)),
            compiling: semaphore(cores),
            compiling_apart: semaphore(cores.div_ceil(2)),
            describing: semaphore(EngineLimits::DESCRIPTIONS),
        }
    }

    /// A permit to read a component. `None`, here and below, when the runtime ends.
    pub async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        self.reading.clone().acquire_owned().await.ok()
    }

    /// A permit to compile a component in this process.
    pub async fn compiling(&self) -> Option<OwnedSemaphorePermit> {
        self.compiling.clone().acquire_owned().await.ok()
    }

    /// A permit to compile a component in a child process, which uses all cores.
    pub async fn compiling_apart(&self) -> Option<OwnedSemaphorePermit> {
        self.compiling_apart.clone().acquire_owned().await.ok()
    }

    /// A permit to ask a plugin for its offer. Loads take no permit from calls.
    pub async fn describing(&self) -> Option<OwnedSemaphorePermit> {
        self.describing.clone().acquire_owned().await.ok()
    }

    /// A turn for a call of a plugin.
    ///
    /// # Errors
    /// The call was cancelled, or waited too long.
    pub async fn turn(&self, share: &Share, waits: Waits, token: &CancellationToken) -> Result<TurnPermit, FaultKind> {
        let delegating = (waits.agent_depth as usize).checked_sub(1).and_then(|at| self.delegating.get(at));
        let invoking = || (waits.call_depth as usize).checked_sub(1).and_then(|at| self.invoking.get(at));
        let turns = delegating.or_else(invoking).unwrap_or(&self.calls);
        tokio::select! {
            biased;
            turn = turns.acquire_turn(share) => turn.ok_or(FaultKind::Cancelled),
            () = token.cancelled() => Err(FaultKind::Cancelled),
            () = tokio::time::sleep(MAX_WAIT) => Err(FaultKind::Busy { waited_s: MAX_WAIT.as_secs() }),
        }
    }
}

/// The number of threads that run at once on this machine. Looked up once, because the system answers through several files.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    *CORES
}
