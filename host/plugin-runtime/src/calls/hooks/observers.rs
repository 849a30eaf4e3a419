//! Delivery of session events in the background.
//!
//! Each plugin that observes the session has a queue, which one task empties in batches. The task ends when its queue is
//! empty. A queue that is full drops its oldest events.

use super::jobs::OnEvents;
use crate::calls::instance::Setup;
use crate::calls::state::NoProgress;
use crate::registry::Registry;
use crate::registry::notice::{Notice, NoticeEvent};
use crate::runtime_shared::Shared;
use pinion_protocol::HookPoint;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Events that wait for a plugin.
const MAX_EVENTS: usize = 1_000;
/// Bytes of the events that wait for a plugin.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Events of one delivery.
const BATCH: usize = 100;

/// The queues of all plugins that observe the session. Dropping them ends the delivery.
#[derive(Default)]
pub(crate) struct Observers(Arc<Queues>);

#[derive(Default)]
struct Queues {
    queues: Mutex<HashMap<Arc<str>, ObserverQueue>>,
    /// Notified whenever a queue becomes empty.
    emptied: Notify,
}

/// The events that wait for one plugin.
#[derive(Default)]
struct ObserverQueue {
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// The task that delivers them; `None` when nothing waits and nothing is being delivered.
    delivery: Option<JoinHandle<()>>,
    /// Events are being dropped, which was logged.
    is_overflowing: bool,
    /// The plugin failed to take events, which was reported.
    has_failed: bool,
}

impl Observers {
    /// Queues an event for every plugin that observes the session. Must be called within a tokio runtime.
    pub(super) fn push(&self, registry: &Arc<Registry>, shared: &Arc<Shared>, event: String) {
        let event: Arc<str> = event.into();
        for loaded in registry.current().hooked(HookPoint::SessionEvents) {
            let plugin = &loaded.program().name;
            let mut queues = self.0.lock();
            let queue = queues.entry(plugin.clone()).or_default();
            if queue.push(event.clone()) {
                tracing::warn!(
                    plugin = &**plugin,
                    "the plugin falls behind, and the oldest session events are dropped"
                );
            }
            if queue.delivery.is_none() {
                let to =
                    Delivery { registry: Arc::downgrade(registry), shared: shared.clone(), plugin: plugin.clone() };
                queue.delivery = Some(tokio::spawn(to.run(Arc::downgrade(&self.0))));
            }
        }
    }

    /// Waits until every event was delivered.
    pub(super) async fn idle(&self) {
        loop {
            let emptied = self.0.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.0.lock().values().all(|queue| queue.delivery.is_none()) {
                return;
            }
            emptied.await;
        }
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        self.0.lock().values().filter_map(|queue| queue.delivery.as_ref()).for_each(JoinHandle::abort);
    }
}

impl Queues {
    /// Takes the next events of a plugin. `None` ends the delivery.
    fn take_events(&self, plugin: &str) -> Option<Vec<Arc<str>>> {
        let mut queues = self.lock();
        let queue = queues.get_mut(plugin)?;
        let batch = queue.take_batch();
        if batch.is_empty() {
            queue.delivery = None;
            drop(queues);
            self.emptied.notify_waiters();
            return None;
        }
        Some(batch)
    }

    /// Records that a plugin failed. Returns whether this is the first time.
    fn fail(&self, plugin: &str) -> bool {
        let mut queues = self.lock();
        queues.get_mut(plugin).is_some_and(|queue| !std::mem::replace(&mut queue.has_failed, true))
    }

    /// Locks the queues. A panic leaves them consistent, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, ObserverQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObserverQueue {
    /// Adds an event. Returns whether events begin to be dropped for it.
    fn push(&mut self, event: Arc<str>) -> bool {
        self.bytes += event.len();
        self.events.push_back(event);
        let mut has_dropped = false;
        while self.events.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.events.len() > 1) {
            let dropped = self.events.pop_front();
            self.bytes -= dropped.map_or(0, |event| event.len());
            has_dropped = true;
        }
        has_dropped && !std::mem::replace(&mut self.is_overflowing, true)
    }

    fn take_batch(&mut self) -> Vec<Arc<str>> {
        self.is_overflowing = false;
        let batch: Vec<Arc<str>> = self.events.drain(..self.events.len().min(BATCH)).collect();
        self.bytes -= batch.iter().map(|event| event.len()).sum::<usize>();
        batch
    }
}

/// The delivery of events to one plugin.
struct Delivery {
    registry: Weak<Registry>,
    shared: Arc<Shared>,
    plugin: Arc<str>,
}

impl Delivery {
    async fn run(self, queues: Weak<Queues>) {
        while let Some(events) = queues.upgrade().and_then(|queues| queues.take_events(&self.plugin)) {
            let Err(problem) = self.deliver(events).await else { continue };
            let is_first = queues.upgrade().is_some_and(|queues| queues.fail(&self.plugin));
            tracing::warn!(plugin = &*self.plugin, problem, "the plugin did not take session events");
            if let Some(registry) = self.registry.upgrade().filter(|_| is_first) {
                registry.notify(Notice {
                    plugin: self.plugin.to_string(),
                    source: String::new(),
                    event: NoticeEvent::HookFailed { point: HookPoint::SessionEvents, problem },
                });
            }
        }
    }

    /// Delivers events to the current generation. Drops them if that observes nothing any more.
    async fn deliver(&self, events: Vec<Arc<str>>) -> Result<(), String> {
        let Some(registry) = self.registry.upgrade() else { return Ok(()) };
        let current = registry.current();
        let mut observing = current.hooked(HookPoint::SessionEvents);
        let Some(found) = observing.find(|loaded| loaded.program().name == self.plugin) else { return Ok(()) };
        let token = CancellationToken::new();
        let loaded = registry.refreshed(found, &token).await;
        let Some(loaded) = loaded.filter(|loaded| loaded.generation.has_hook(HookPoint::SessionEvents)) else {
            return Ok(());
        };
        let program = loaded.hook_program();
        let setup = Setup {
            services: None,
            session: "".into(),
            authority: program.authority.for_command(),
            token,
            progress: Arc::new(NoProgress),
            agents: None,
        };
        let finished = loaded.run_as(&self.shared, program, setup, OnEvents { events }).await;
        tracing::debug!(plugin = &*self.plugin, ledger = %finished.ledger, "session events were delivered");
        finished.result.map_err(|fault| super::words::bounded(&fault.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_its_oldest_events_and_says_so_once() {
        let mut queue = ObserverQueue::default();
        let overflows = (0..MAX_EVENTS + 50).filter(|number| queue.push(number.to_string().into())).count();
        assert_eq!((overflows, queue.events.len()), (1, MAX_EVENTS));
        assert_eq!(&*queue.take_batch()[0], "50");
        assert_eq!(queue.bytes, queue.events.iter().map(|event| event.len()).sum::<usize>());
    }

    #[test]
    fn large_events_are_bounded_together() {
        let mut queue = ObserverQueue::default();
        let large: Arc<str> = "x".repeat(MAX_BYTES / 4).into();
        for _ in 0..10 {
            queue.push(large.clone());
        }
        assert_eq!(queue.events.len(), 4);
    }
}
