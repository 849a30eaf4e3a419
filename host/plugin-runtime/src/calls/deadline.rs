//! The end of a call: its cancellation, its deadline, and the grace period after a cancellation.

use crate::errors::fault::FaultKind;
use crate::limits::Limits;
use pinion_protocol::SubAgents;
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The longest deadline, about a century; a later one could overflow the clock.
const MAX_DEADLINE: Duration = Duration::from_secs(3_000_000_000);

/// The time at which a call has to stop, and the token that cancels it. Everything that works for the call gets a clone.
#[derive(Clone)]
pub(crate) struct Deadline {
    token: CancellationToken,
    started: Instant,
    at: Instant,
    limit_ms: u64,
    grace: Duration,
    /// The clock of a call that may start sub-agents: it stands still while a person is asked about their calls.
    clock: Option<SubAgents>,
}

/// The reason why a guest did not finish.
pub(crate) enum Stopped {
    /// The guest trapped, or a host import failed.
    Error(wasmtime::Error),
    /// The call was cancelled or ran out of time.
    Fault(FaultKind),
}

impl Deadline {
    /// The deadline of a call that begins now.
    pub(crate) fn new(limits: &Limits, token: CancellationToken, clock: Option<SubAgents>) -> Self {
        let started = Instant::now();
        Self {
            token,
            started,
            at: started + bounded(limits.deadline_ms),
            limit_ms: limits.deadline_ms,
            grace: bounded(limits.grace_ms),
            clock,
        }
    }

    /// Cancelled when the result is no longer wanted.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The deadline, without the time in which the clock stood still.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// The time since the call began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns whether work for the call should end: it was cancelled, or its deadline has passed. Cheap enough to ask
    /// between two files.
    pub(crate) fn is_over(&self) -> bool {
        self.token.is_cancelled() || Instant::now() >= self.at
    }

    /// Waits until `patience` has passed since the end of the grace period after the deadline.
    pub(crate) async fn abandoned(&self, patience: Duration) {
        self.passed(self.grace + patience).await;
    }

    /// Runs a guest until it ends, its time is over, it is cancelled and its grace period ends, or nobody waits any more,
    /// which cancels `abandoned`.
    pub(crate) async fn run<A>(
        &self,
        abandoned: &CancellationToken,
        guest: impl Future<Output = wasmtime::Result<A>>,
    ) -> Result<A, Stopped> {
        tokio::select! {
            // The guest first: most calls end before anyone looks at a clock.
            biased;
            result = guest => result.map_err(Stopped::Error),
            () = abandoned.cancelled() => Err(Stopped::Fault(FaultKind::Cancelled)),
            () = self.cancelled_and_out_of_grace() => Err(Stopped::Fault(FaultKind::Cancelled)),
            () = self.passed(Duration::ZERO) => Err(Stopped::Fault(FaultKind::Deadline { limit_ms: self.limit_ms })),
        }
    }

    /// Waits until `more` has passed since the deadline.
    async fn passed(&self, more: Duration) {
        match &self.clock {
            Some(clock) => clock.sleep((self.at + more).saturating_duration_since(Instant::now())).await,
            None => sleep_until(self.at + more).await,
        }
    }

    async fn cancelled_and_out_of_grace(&self) {
        self.token.cancelled().await;
        tokio::time::sleep(self.grace).await;
    }
}

fn bounded(ms: u64) -> Duration {
    Duration::from_millis(ms).min(MAX_DEADLINE)
}
