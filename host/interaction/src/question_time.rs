//! A clock that pauses while a person is asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Measures the time that people take to answer, for the time limits of all runs that share an
/// [`Approval`](crate::approval::Approval).
#[derive(Debug, Default)]
pub(crate) struct QuestionTime {
    state: Mutex<QuestionClock>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct QuestionClock {
    questions: u32,
    since: Option<Instant>,
    before: Duration,
}

impl QuestionClock {
    fn total(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Guard of an open question; dropping it restarts the clock.
pub(crate) struct OpenQuestion<'a>(&'a QuestionTime);

impl QuestionTime {
    /// Stops the clock.
    pub(crate) fn begin(&self) -> OpenQuestion<'_> {
        {
            let mut state = self.state();
            state.questions += 1;
            state.since.get_or_insert_with(Instant::now);
        }
        self.changed.notify_waiters();
        OpenQuestion(self)
    }

    /// Sleeps for `time`, not counting the time during which a question is open.
    pub(crate) async fn sleep(&self, time: Duration) {
        let (started, before) = (Instant::now(), self.state().total());
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (is_asking, asked) = {
                let state = self.state();
                (state.since.is_some(), state.total().saturating_sub(before))
            };
            let left = time.saturating_sub(started.elapsed().saturating_sub(asked));
            if is_asking {
                changed.await;
            } else if left.is_zero() {
                return;
            } else {
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = changed => {}
                }
            }
        }
    }

    /// Locks the state. A panic leaves it consistent, so poisoning is ignored.
    fn state(&self) -> MutexGuard<'_, QuestionClock> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.0.state();
            state.questions -= 1;
            if state.questions == 0 {
                state.before = state.total();
                state.since = None;
            }
        }
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    async fn after(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn time_with_an_open_question_does_not_count() {
        let (question_time, started) = (Arc::new(QuestionTime::default()), Instant::now());
        let clock = question_time.clone();
        let sleeping = tokio::spawn(async move { clock.sleep(Duration::from_secs(10)).await });
        after(4).await;
        let first = question_time.begin();
        after(100).await;
        let second = question_time.begin();
        drop(first);
        after(100).await;
        drop(second);
        sleeping.await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 210);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_starts_while_a_question_is_open_waits_for_its_end() {
        let (question_time, started) = (QuestionTime::default(), Instant::now());
        let open = question_time.begin();
        let asked = async {
            after(50).await;
            drop(open);
        };
        tokio::join!(question_time.sleep(Duration::from_secs(10)), asked);
        assert_eq!(started.elapsed().as_secs(), 60);
    }
}
