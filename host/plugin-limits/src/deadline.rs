//! The end of a call: its cancellation, its deadline, and the grace period after a cancellation.

use crate::fault::FaultKind;
use crate::limits::Limits;
use pinion_protocol::{Services, SubAgents};
use pinion_workspace::Interrupt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The longest deadline, about a century; a later one could overflow the clock.
const MAX_DEADLINE: Duration = Duration::from_secs(3_000_000_000);

/// The deadline of a call, and the token that cancels it. Everything that works for the call gets a clone.
#[derive(Clone)]
pub struct Deadline {
    token: CancellationToken,
    started: Instant,
    at: Instant,
    limit_ms: u64,
    grace: Duration,
    /// Milliseconds that the call itself waited for a person.
    waited_ms: Arc<AtomicU64>,
    clock: Option<CallClock>,
}

/// The clock of a call that may wait for a person. It pauses while a person is asked.
#[derive(Clone)]
pub enum CallClock {
    /// The clock of the sub-agents that it starts.
    Agents(SubAgents),
    /// The clock of its conversation.
    Services(Services),
}

impl CallClock {
    async fn sleep(&self, time: Duration) {
        match self {
            Self::Agents(agents) => agents.sleep(time).await,
            Self::Services(services) => services.sleep(time).await,
        }
    }
}

/// The reason why a guest did not finish.
pub enum Stopped {
    /// The guest trapped, or a host import failed.
    Error(wasmtime::Error),
    /// The call was cancelled or ran out of time.
    Fault(FaultKind),
}

impl Deadline {
    /// The deadline of a call that begins now.
    pub fn new(limits: &Limits, token: CancellationToken, clock: Option<CallClock>) -> Self {
        let started = Instant::now();
        Self {
            token,
            started,
            at: started + bounded(limits.deadline_ms),
            limit_ms: limits.deadline_ms,
            grace: bounded(limits.grace_ms),
            waited_ms: Arc::default(),
            clock,
        }
    }

    /// Cancelled when the result is no longer wanted.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The deadline, which the call's own waiting for a person postpones.
    pub fn at(&self) -> Instant {
        self.at + bounded(self.waited_ms.load(Ordering::Relaxed))
    }

    /// Waits for a person. The time does not count.
    pub async fn wait_for_person<T>(&self, asking: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let answer = asking.await;
        let waited = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.waited_ms.fetch_add(waited, Ordering::Relaxed);
        answer
    }

    /// The time since the call began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns whether work for the call should end: it was cancelled, or its deadline has passed. Cheap enough to ask
    /// between two files.
    pub fn is_over(&self) -> bool {
        self.token.is_cancelled() || Instant::now() >= self.at()
    }

    /// Waits until `patience` has passed since the end of the grace period after the deadline.
    pub async fn abandoned(&self, patience: Duration) {
        self.passed(self.grace + patience).await;
    }

    /// Runs a guest until it ends, its time is over, it is cancelled and its grace period ends, or the caller stops
    /// waiting, which cancels `abandoned`.
    ///
    /// # Errors
    /// It did not end by itself.
    pub async fn run<A>(
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

impl Interrupt for Deadline {
    fn is_over(&self) -> bool {
        Deadline::is_over(self)
    }
}

fn bounded(ms: u64) -> Duration {
    Duration::from_millis(ms).min(MAX_DEADLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_call_is_over_before_its_deadline() {
        let deadline = Deadline::new(&Limits::default(), CancellationToken::new(), None);
        assert!(!deadline.is_over());
        deadline.token().cancel();
        assert!(deadline.is_over());
    }
}
