//! Compiled code in memory, which is most of a plugin's memory: 0.4 MB for 0.13 MB of WebAssembly.
//!
//! The code of the least recently called plugins is dropped, and their next call reads it from the cache again, under
//! its seal. Plugins called alternately within a short time would read their code for each call: code that is needed
//! again soon stays in addition to the rest.

use crate::calls::idle::IdleInstances;
use crate::loading::instance_template::Code;
use pinion_plugin_limits::GuestError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Plugins whose code stays in memory, unless more of them take turns.
const MAX_KEPT: usize = 16;
/// Code that is needed again within this time was dropped too early.
const SOON: Duration = Duration::from_secs(10);

/// The origin of a component's compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeOrigin {
    /// Compiled during this load.
    Compiled,
    /// Read from the cache.
    Cached,
    /// Not loaded yet: the cache has the plugin's description, and its first call loads the code.
    Described,
}

/// The code of a program, in memory or in the cache.
pub(crate) struct HeldCode {
    cached: Box<dyn CachedCode>,
    all: Arc<CodeInMemory>,
    idle: Option<Arc<IdleInstances>>,
    state: Mutex<CodeState>,
    /// The time of the last use, on the clock of [`CodeInMemory`].
    used: AtomicU64,
}

/// The code of a component in the cache.
pub(crate) trait CachedCode: Send + Sync {
    /// Returns whether the cache has the code.
    fn exists(&self) -> bool;

    /// Reads and links the code. `None` if the cache does not have it.
    fn read(&self) -> Option<Code>;
}

enum CodeState {
    Here(Arc<Code>),
    Away { since: Instant },
}

impl HeldCode {
    /// Holds code. When it is dropped, the idle instances go with it, because they need it.
    pub(crate) fn new(
        code: Code,
        cached: Box<dyn CachedCode>,
        all: Arc<CodeInMemory>,
        idle: Option<Arc<IdleInstances>>,
    ) -> Arc<Self> {
        let (state, used) = (Mutex::new(CodeState::Here(Arc::new(code))), AtomicU64::new(all.now()));
        Arc::new(Self { cached, all, idle, state, used })
    }

    /// Allows the code to be dropped in favour of other plugins' code.
    pub(crate) fn may_go(self: &Arc<Self>) {
        self.all.add(self, false);
    }

    /// Returns the code. If it was dropped, blocks while it is read again.
    ///
    /// # Errors
    /// It is no longer in the cache.
    pub(crate) fn get(self: &Arc<Self>) -> Result<Arc<Code>, GuestError> {
        self.used.store(self.all.now(), Ordering::Relaxed);
        let mut state = self.lock();
        let since = match &*state {
            CodeState::Here(code) => return Ok(code.clone()),
            CodeState::Away { since } => *since,
        };
        let code = Arc::new(self.cached.read().ok_or(GuestError::NotLoaded)?);
        *state = CodeState::Here(code.clone());
        drop(state);
        self.all.add(self, since.elapsed() < SOON);
        Ok(code)
    }

    /// Returns whether the code is in memory, or in the cache. Costs a look at a file if it was dropped.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_away() || self.cached.exists()
    }

    /// Returns whether the code was dropped. A lock that is held means that it is used or read right now.
    fn is_away(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| matches!(*state, CodeState::Away { .. }))
    }

    /// Gives the code up, unless a call uses it or it could not be read again.
    fn give_up(&self) -> Option<Arc<Code>> {
        let mut state = self.state.try_lock().ok()?;
        let CodeState::Here(code) = &*state else { return None };
        if Arc::strong_count(code) > 1 || !self.cached.exists() {
            return None;
        }
        match std::mem::replace(&mut *state, CodeState::Away { since: Instant::now() }) {
            CodeState::Here(code) => Some(code),
            CodeState::Away { .. } => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, CodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The code of all plugins that may be dropped.
pub(crate) struct CodeInMemory {
    /// Counts uses.
    clock: AtomicU64,
    held: Mutex<RetainedCode>,
}

struct RetainedCode {
    code: Vec<Weak<HeldCode>>,
    /// Grows to the number of plugins that take turns.
    max_kept: usize,
}

impl Default for CodeInMemory {
    fn default() -> Self {
        let held = RetainedCode { code: Vec::new(), max_kept: MAX_KEPT };
        Self { clock: AtomicU64::new(0), held: Mutex::new(held) }
    }
}

impl CodeInMemory {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of plugins whose code is in memory and may be dropped.
    pub(crate) fn count(&self) -> usize {
        self.lock().in_memory().len()
    }

    /// Adds code that came into memory, and makes room for it, unless it was dropped too early before.
    fn add(&self, new: &Arc<HeldCode>, is_back_soon: bool) {
        let mut held = self.lock();
        let mut all = held.in_memory();
        if !all.iter().any(|code| Arc::ptr_eq(code, new)) {
            all.push(new.clone());
        }
        held.code = all.iter().map(Arc::downgrade).collect();
        if is_back_soon {
            held.max_kept = held.max_kept.max(all.len());
        }
        let surplus = all.len().saturating_sub(held.max_kept);
        let gone = give_up(all, surplus);
        // Freed after the lock, as the idle instances that go with it.
        drop(held);
        for (held, code) in gone {
            if let Some(idle) = &held.idle {
                idle.clear();
            }
            drop(code);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RetainedCode> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetainedCode {
    fn in_memory(&self) -> Vec<Arc<HeldCode>> {
        self.code.iter().filter_map(Weak::upgrade).filter(|code| !code.is_away()).collect()
    }
}

/// Gives up the code of `count` plugins, of those that were not used for longest and run no call.
fn give_up(mut all: Vec<Arc<HeldCode>>, count: usize) -> Vec<(Arc<HeldCode>, Arc<Code>)> {
    all.sort_by_key(|held| held.used.load(Ordering::Relaxed));
    let given_up = all.into_iter().filter_map(|held| held.give_up().map(|code| (held, code)));
    given_up.take(count).collect()
}
