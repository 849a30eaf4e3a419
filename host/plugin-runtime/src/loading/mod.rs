//! Turning the bytes of a component into a generation that can be called.
//!
//! [`source`] reads the bytes, which [`crate::manifest`] inspects; [`compile`] has them compiled by
//! `pinion-plugin-engine`, or takes their code from its cache; [`describe`] asks the plugin for its offer,
//! `pinion-plugin-offers` checks the answer, and [`description_cache`], [`index`] and [`last_offer`] remember it; and
//! [`generation`] goes through these steps.

pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod describe;
pub(crate) mod description_cache;
pub(crate) mod generation;
pub(crate) mod index;
pub(crate) mod instance_template;
pub(crate) mod last_offer;
pub(crate) mod link_problem;
pub(crate) mod source;
pub(crate) mod source_metadata;

use crate::load_error::LoadError;
use std::future::pending;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};

/// Runs a step of loading on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match outcome(spawn_blocking(step).await) {
        Some(outcome) => outcome,
        None => pending().await,
    }
}

/// Returns the outcome of a step; `None` if the runtime ended before the step began, and with it the step's waiters.
fn outcome<T>(joined: Result<Result<T, LoadError>, JoinError>) -> Option<Result<T, LoadError>> {
    match joined {
        Ok(outcome) => Some(outcome),
        Err(error) if error.is_cancelled() => None,
        Err(error) => Some(Err(LoadError::link("a step of loading did not end", error))),
    }
}

/// Runs a step that takes long on a separate thread; the end of the program does not wait for it.
pub(crate) async fn alone<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let (sender, done) = oneshot::channel();
    // Fails when the caller has stopped waiting.
    let run = move || drop(sender.send(step()));
    let thread = std::thread::Builder::new().name("pinion-compile".to_owned()).spawn(run);
    let refused = "could not start a thread within the limits on processes (ulimit -u) and memory (ulimit -v)";
    thread.map_err(|error| LoadError::link(refused, error))?;
    done.await.unwrap_or_else(|error| Err(LoadError::link("a step of loading did not end", error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn step_that_the_end_of_the_runtime_cancels_is_no_failure() {
        let cancelled = tokio::spawn(pending::<Result<(), LoadError>>());
        cancelled.abort();
        assert!(outcome(cancelled.await).is_none());
        let panicked = tokio::spawn(async { panic!("a bug") });
        assert!(outcome::<()>(panicked.await).is_some_and(|outcome| outcome.is_err()));
    }

    #[test]
    fn end_of_the_runtime_does_not_wait_for_a_long_step() {
        let (release, waiting) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let step = move || {
            let _ = waiting.recv();
            ended.send(()).unwrap();
            Ok(())
        };
        assert!(runtime.block_on(async { alone(step).now_or_never().is_none() }));
        drop(runtime);
        release.send(()).unwrap();
        end.recv().unwrap();
    }

    #[tokio::test]
    async fn step_that_panics_is_an_error() {
        let failed = alone(|| -> Result<(), LoadError> { panic!("no") }).await;
        assert!(failed.unwrap_err().to_string().contains("did not end"));
    }
}
