//! The bytes that a call reads and writes, with the limits of writing.
//!
//! Everything that writes for a guest counts its bytes here before it writes: WASI's writes and streams, `replace-file`,
//! the standard input and the kept output of programs. A guest cannot ignore a limit: its call ends with the limit's own
//! fault.

use pinion_plugin_limits::{Exceeded, Limits};
use pinion_plugin_programs::WriteBudget;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read through streams, which outlive the calls that open them.
#[derive(Debug, Default)]
pub struct StreamedBytes {
    read: AtomicU64,
}

impl StreamedBytes {
    /// Counts bytes that were read.
    pub fn add(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes so far.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Bytes that one call has written. Streams share it with the call that opened them.
#[derive(Debug)]
pub struct Written {
    bytes: AtomicU64,
    max_bytes: u64,
    max_end: u64,
}

impl Written {
    /// Begins the account of a call with these limits.
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), max_bytes: limits.bytes_written, max_end: limits.file_bytes })
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).min(self.max_bytes)
    }

    /// Counts bytes that are about to be written.
    ///
    /// # Errors
    /// The call would write more than its limit.
    pub fn spend(&self, bytes: u64) -> Result<(), Exceeded> {
        // It saturates for all practical purposes: each call adds less than a guest's memory.
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let wanted = before.saturating_add(bytes);
        if wanted > self.max_bytes { Err(Exceeded::BytesWritten { wanted }) } else { Ok(()) }
    }

    /// Counts as many of these bytes as the limit leaves room for, and returns their number.
    pub fn spend_up_to(&self, bytes: u64) -> u64 {
        let taken = |so_far: u64| bytes.min(self.max_bytes.saturating_sub(so_far));
        let update = |so_far| Some(so_far + taken(so_far));
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).map_or(0, taken)
    }

    /// Returns [`Written::spend_up_to`] for the work behind an import.
    pub fn budget(self: Arc<Self>) -> WriteBudget {
        Arc::new(move |bytes| self.spend_up_to(bytes))
    }

    /// Checks where a file would end.
    ///
    /// # Errors
    /// The file would be longer than the limit.
    pub fn check_end(&self, end: u64) -> Result<(), Exceeded> {
        if end > self.max_end { Err(Exceeded::FileBytes { wanted: end }) } else { Ok(()) }
    }

    /// Counts bytes that are about to be written to a file from this offset on.
    ///
    /// # Errors
    /// The file or the bytes of the call would exceed a limit.
    pub fn spend_at(&self, offset: u64, bytes: u64) -> Result<(), Exceeded> {
        self.check_end(offset.saturating_add(bytes))?;
        self.spend(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes_written: u64, file_bytes: u64) -> Arc<Written> {
        Written::new(&Limits { bytes_written, file_bytes, ..Limits::default() })
    }

    #[test]
    fn all_bytes_of_a_call_count_together() {
        let written = written(10, 100);
        assert_eq!((written.spend_at(90, 4), written.spend_up_to(4), written.spend(2)), (Ok(()), 4, Ok(())));
        let exceeded = Err(Exceeded::BytesWritten { wanted: 11 });
        assert_eq!((written.spend_up_to(1), written.spend(1), written.bytes()), (0, exceeded, 10));
    }

    #[test]
    fn a_file_ends_within_its_limit_however_far_the_offset() {
        let written = written(1000, 100);
        assert_eq!(written.check_end(100), Ok(()));
        assert_eq!(written.spend_at(100, 1), Err(Exceeded::FileBytes { wanted: 101 }));
        assert_eq!(written.spend_at(u64::MAX, 1), Err(Exceeded::FileBytes { wanted: u64::MAX }));
        assert_eq!(written.bytes(), 0);
    }
}
