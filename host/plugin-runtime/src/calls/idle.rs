//! Plugins of lifetime `reused`: instances between two calls.
//!
//! A call that ended well leaves its instance here, and the next call of the same [`IdleKind`] continues on it. The instances
//! belong to one generation, and so to one set of grants; they are closed when another generation takes its place.
//!
//! The kind bounds the data that a plugin may keep in its memory: nothing passes from one session to another, or from a
//! call to one with other effects. Leftovers in the host are bounded by dropping instances that are not small, and
//! those that have used the fuel of one call altogether, so that nothing grows call by call.

use crate::calls::state::{CallState, State};
use crate::capability::authority::CallKind;
use pinion_plugin_limits::{IdlePlace, Share};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::Store;
use wasmtime::component::Instance;

/// The idle instances of one generation.
#[derive(Default)]
pub(crate) struct IdleInstances(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    is_closed: bool,
    /// The instances, the one that was used last at the end.
    instances: VecDeque<(Used, IdlePlace)>,
}

/// An instance that has had a call.
pub(crate) struct Used {
    pub(crate) store: Store<State>,
    pub(crate) instance: Instance,
    pub(crate) kind: IdleKind,
    /// Fuel that its calls used together.
    pub(crate) fuel: u64,
}

/// The calls that may share an instance.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct IdleKind {
    session: Arc<str>,
    authority: CallKind,
}

impl IdleKind {
    pub(crate) fn for_call(call: &CallState) -> Self {
        Self { session: call.session.clone(), authority: call.authority.kind() }
    }
}

impl IdleInstances {
    /// Takes the instance of this kind that was used last.
    pub(crate) fn take_instance(&self, kind: &IdleKind) -> Option<Used> {
        let mut idle = self.lock();
        let at = idle.instances.iter().rposition(|(used, _)| used.kind == *kind)?;
        let (mut used, _) = idle.instances.remove(at)?;
        drop(idle);
        // Its memory counts again, and there may be no room for it.
        used.store.data_mut().limiter.wake().then_some(used)
    }

    /// Keeps an instance for the next call. Returns the store that has to be torn down: of an instance that was
    /// displaced, or of this one. `fuel` is the limit of one call.
    pub(crate) fn keep(&self, share: &Arc<Share>, fuel: u64, mut used: Used) -> Option<Store<State>> {
        if used.fuel > fuel || !used.store.data_mut().is_small() {
            return Some(used.store);
        }
        let mut idle = self.lock();
        if idle.is_closed {
            return Some(used.store);
        }
        let (place, gone) = match share.idle_place() {
            Some(place) => (place, None),
            None => match idle.instances.pop_front() {
                Some((oldest, place)) => (place, Some(oldest.store)),
                None => return Some(used.store),
            },
        };
        used.store.data_mut().limiter.pause_counting();
        idle.instances.push_back((used, place));
        gone
    }

    /// Drops all instances, and those that are still to come.
    pub(crate) fn close(&self) {
        let mut idle = self.lock();
        idle.is_closed = true;
        drop(idle);
        self.clear();
    }

    /// Drops all instances.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut self.lock().instances);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
