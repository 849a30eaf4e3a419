//! Limits on the memory and tables of one instance.

use crate::limits::Limits;
use crate::shares::Share;
use std::sync::Arc;
use wasmtime::ResourceLimiter;

/// Allows growth within the limits, and records the growth that it refused: a guest that dies of a refusal is
/// distinguished from one that traps for other reasons.
pub struct Limiter {
    limits: Arc<Limits>,
    memory: u64,
    table_elements: u64,
    /// The most bytes of memory that the instance had in this call.
    pub peak_memory: u64,
    /// Bytes that a refused growth of memory wanted.
    pub refused_memory: Option<u64>,
    /// Elements that a refused growth of a table wanted.
    pub refused_table: Option<u64>,
    /// The limit for all calls of the plugin, if it caused a refusal.
    pub refused_total: Option<u64>,
    share: Arc<Share>,
    /// Bytes of memory that all instances of the plugin may have together.
    total: u64,
    /// False while the instance is idle: its memory does not count then.
    is_counted: bool,
}

impl Limiter {
    /// Begins the account of a new instance. `total` bounds the memory of all instances of the plugin, in bytes.
    pub fn new(limits: Arc<Limits>, share: Arc<Share>, total: u64) -> Self {
        Self {
            limits,
            memory: 0,
            table_elements: 0,
            peak_memory: 0,
            refused_memory: None,
            refused_table: None,
            refused_total: None,
            share,
            total,
            is_counted: true,
        }
    }

    /// Begins an account of memory that the host allocates for the call.
    pub fn reserve(&self) -> ReservedMemory {
        ReservedMemory { share: self.share.clone(), total: self.total, bytes: 0 }
    }

    /// Records that memory was refused because the plugin's calls together would have too much.
    pub fn refuse_total(&mut self) {
        self.refused_total = Some(self.total);
    }

    /// Bytes of linear memory.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Stops counting the memory towards the memory of the plugin's calls, until [`Limiter::wake`].
    pub fn pause_counting(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.share.shrink(self.memory);
        }
    }

    /// Counts the memory again. Returns false if the plugin's calls together would have too much.
    pub fn wake(&mut self) -> bool {
        self.is_counted = self.is_counted || self.share.grow(self.memory, self.total);
        self.is_counted
    }

    /// Begins a call on an instance that stays: forgets refusals, and counts the peak from here.
    pub fn begin(&mut self) {
        self.peak_memory = self.memory;
        self.refused_memory = None;
        self.refused_table = None;
        self.refused_total = None;
    }
}

/// Memory of the host that holds data for a call. It counts towards the memory of the plugin's calls until it is dropped.
pub struct ReservedMemory {
    share: Arc<Share>,
    total: u64,
    bytes: u64,
}

impl ReservedMemory {
    /// Counts bytes that are about to be allocated. Returns false if the plugin's calls together would have too much.
    pub fn add(&mut self, bytes: u64) -> bool {
        let is_free = self.share.grow(bytes, self.total);
        if is_free {
            self.bytes += bytes;
        }
        is_free
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.share.shrink(self.bytes);
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.pause_counting();
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.memory.saturating_sub(current as u64).saturating_add(desired as u64);
        if wanted > self.limits.memory_bytes {
            self.refused_memory = Some(wanted);
            return Ok(false);
        }
        if !self.share.grow(wanted.saturating_sub(self.memory), self.total) {
            self.refused_total = Some(self.total);
            return Ok(false);
        }
        self.memory = wanted;
        self.peak_memory = self.peak_memory.max(wanted);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.table_elements.saturating_sub(current as u64).saturating_add(desired as u64);
        if wanted > self.limits.table_elements {
            self.refused_table = Some(wanted);
            return Ok(false);
        }
        self.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        usize::try_from(self.limits.instances).unwrap_or(usize::MAX)
    }

    fn tables(&self) -> usize {
        self.instances()
    }

    fn memories(&self) -> usize {
        self.instances()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_an_idle_instance_does_not_count() {
        let share = Share::new(1, &Arc::default()).unwrap();
        let mut limiter = Limiter::new(Arc::new(Limits { memory_bytes: 60, ..Limits::default() }), share.clone(), 100);
        assert!(limiter.memory_growing(0, 60, None).unwrap() && !share.grow(100, 100));
        limiter.pause_counting();
        assert!(share.grow(100, 100) && !limiter.wake(), "calls have all of it");
        share.shrink(100);
        assert!(limiter.wake() && !share.grow(100, 100));
        drop(limiter);
        assert!(share.grow(100, 100));
    }

    #[test]
    fn memory_and_tables_of_all_kinds_count_together() {
        let limits = Limits { memory_bytes: 100, table_elements: 10, ..Limits::default() };
        let mut limiter = Limiter::new(Arc::new(limits), Share::new(1, &Arc::default()).unwrap(), 1_000);
        assert!(limiter.memory_growing(0, 60, None).unwrap() && limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.memory_growing(40, 41, None).unwrap());
        assert_eq!((limiter.refused_memory, limiter.peak_memory), (Some(101), 100));
        assert!(limiter.table_growing(0, 6, None).unwrap() && limiter.table_growing(0, 4, None).unwrap());
        assert!(!limiter.table_growing(6, 7, None).unwrap());
        assert_eq!(limiter.refused_table, Some(11));
        limiter.begin();
        assert_eq!((limiter.refused_memory, limiter.refused_table, limiter.peak_memory), (None, None, 100));
    }
}
