//! The account of files that a call uses, with the limits of writing.
//!
//! Everything that writes for a guest counts its bytes here before it writes: WASI's writes and streams, `replace-file`,
//! the standard input and the kept output of programs. A guest cannot ignore a limit: its call ends with the limit's own
//! fault.

use crate::capability::authority::Denied;
use pinion_plugin_limits::{Exceeded, Limits};
use pinion_plugin_programs::WriteBudget;
use pinion_protocol::Ledger;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The use that a call makes of files.
#[derive(Debug)]
pub(crate) struct FilesAccount {
    /// Bytes read through WASI.
    pub(crate) streamed: Arc<StreamedBytes>,
    /// Bytes that the host read to search them.
    pub(crate) searched: u64,
    /// Bytes written.
    pub(crate) written: Arc<Written>,
    /// Files opened, walked over or searched.
    pub(crate) files: u64,
    /// The guest asked for its directories, and the call has no directories.
    pub(crate) looked_in_vain: bool,
    /// A file could not be opened because the process has no file handle left. WASI has no error code for that.
    pub(crate) lacked_handles: bool,
    /// The last refusal of an excluded file. WASI has no text for that.
    pub(crate) excluded: Option<Denied>,
}

impl crate::capability::definition::CapabilityAccount for FilesAccount {
    fn open(limits: &Limits) -> Self {
        Self {
            streamed: Arc::default(),
            searched: 0,
            written: Written::new(limits),
            files: 0,
            looked_in_vain: false,
            lacked_handles: false,
            excluded: None,
        }
    }

    fn enter(&self, ledger: &mut Ledger) {
        ledger.bytes_read = self.streamed.read() + self.searched;
        ledger.bytes_written = self.written.bytes();
        ledger.files = self.files;
    }
}

/// Bytes read through streams, which outlive the calls that open them.
#[derive(Debug, Default)]
pub(crate) struct StreamedBytes {
    read: AtomicU64,
}

impl StreamedBytes {
    /// Counts bytes that were read.
    pub(crate) fn add(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes so far.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Bytes that one call has written. Streams share it with the call that opened them.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: AtomicU64,
    max_bytes: u64,
    max_end: u64,
}

impl Written {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), max_bytes: limits.bytes_written, max_end: limits.file_bytes })
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).min(self.max_bytes)
    }

    /// Counts bytes that are about to be written.
    pub(crate) fn spend(&self, bytes: u64) -> Result<(), Exceeded> {
        // It saturates for all practical purposes: each call adds less than a guest's memory.
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let wanted = before.saturating_add(bytes);
        if wanted > self.max_bytes { Err(Exceeded::BytesWritten { wanted }) } else { Ok(()) }
    }

    /// Counts as many of these bytes as the limit leaves room for, and returns their number.
    pub(crate) fn spend_up_to(&self, bytes: u64) -> u64 {
        let taken = |so_far: u64| bytes.min(self.max_bytes.saturating_sub(so_far));
        let update = |so_far| Some(so_far + taken(so_far));
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).map_or(0, taken)
    }

    /// Returns [`Written::spend_up_to`] for the work behind an import.
    pub(crate) fn budget(self: Arc<Self>) -> WriteBudget {
        Arc::new(move |bytes| self.spend_up_to(bytes))
    }

    /// Checks where a file would end.
    pub(crate) fn check_end(&self, end: u64) -> Result<(), Exceeded> {
        if end > self.max_end { Err(Exceeded::FileBytes { wanted: end }) } else { Ok(()) }
    }

    /// Counts bytes that are about to be written to a file from this offset on.
    pub(crate) fn spend_at(&self, offset: u64, bytes: u64) -> Result<(), Exceeded> {
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
