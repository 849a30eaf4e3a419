//! The account of files that a call uses.

use crate::capability::authority::Denied;
use pinion_plugin_limits::Limits;
use pinion_plugin_streams::transferred_bytes::{StreamedBytes, Written};
use pinion_protocol::Ledger;
use std::sync::Arc;

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
