//! The writer of a journal, on a separate thread, so that a call pays only for the copy of its values.
//!
//! The journals of a session are files in a directory with its name. Each process writes a separate file, a DEFLATE
//! stream of entries, each with its length before it: a process that was killed leaves a file that ends within an entry,
//! and the reader ignores the rest. Large values are written once per file, and refer to the session's file, see
//! `session_references.rs`. Entries refer to earlier bytes of the file, see `long_matches.rs`. Secrets are masked before
//! anything else happens to a value, so that neither files nor digests nor references depend on them.

use crate::event::{JournalEvent, JournalValue, check_of};
use crate::long_matches::RepetitionWriter;
use crate::session_references::SessionIndex;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use pinion_files::open::create_directory;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

/// The extension of the files of a journal.
pub const EXTENSION: &str = "calls";
/// Stands in place of the first length in files whose entries refer to earlier bytes.
pub(crate) const REFERRING: u32 = u32::MAX;
/// Bytes of a value that is written once per file.
pub(crate) const MIN_SHARED: usize = 256;
/// Bytes of a value that may refer to the session's file.
const MIN_REFERRING: usize = 64;
/// Bytes of a value of which only the digest is kept.
const MAX_VALUE: usize = 8 << 20;
/// Bytes of a value that a journal of digests keeps as it is.
const MAX_BRIEF: usize = 32;
/// Bytes of entries that wait while the disk is slow; later ones are dropped.
const MAX_WAITING: usize = 64 << 20;
/// Bytes of entries for which the thread stops gathering.
const MAX_GATHERED: usize = 8 << 20;
/// Bytes that a flush of an encoder adds at most if it holds nothing.
const MARK: u64 = 8;
/// Bytes of one file before compression.
const MAX_FILE: u64 = 512 << 20;
/// The files of one session.
const MAX_FILES: u32 = 10_000;
/// The pause after which the thread writes entries that were not worth a write yet.
const QUIET: Duration = Duration::from_millis(300);
/// The time in which the thread gathers entries, so that few calls pay for waking it.
const GATHERING: Duration = Duration::from_millis(100);

/// The setting `journal`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalMode {
    /// Calls are recorded, so that they can be repeated.
    On,
    /// Nothing is recorded.
    #[default]
    Off,
    /// Calls are recorded with digests in place of values.
    Digest,
}

/// Overwrites the secrets in a value without a change of its length.
pub type MaskSecrets = Box<dyn Fn(&mut [u8]) + Send>;

/// Receives the entries of a journal.
pub trait JournalSink: Send + Sync {
    /// Adds an entry. Never waits for the disk.
    fn record(&self, event: JournalEvent);
}

/// Writes the journal of a session.
pub struct JournalWriter {
    sender: Mutex<mpsc::Sender<WriterMessage>>,
    waiting: Arc<AtomicUsize>,
    failure: WriteFailure,
    thread: Thread,
}

/// The first error of the thread that was not returned yet.
type WriteFailure = Arc<Mutex<Option<io::Error>>>;

/// The directory of a journal, and the session's file to which it refers.
struct JournalPlace {
    directory: PathBuf,
    session: Option<PathBuf>,
}

enum WriterMessage {
    Event(Box<JournalEvent>, usize),
    Begin(Option<JournalPlace>),
    Flush(mpsc::SyncSender<()>),
}

impl JournalWriter {
    /// Starts the thread. Entries are dropped until [`JournalWriter::begin`] names a directory.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(mode: JournalMode, mask: MaskSecrets) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (counter, failure) = (waiting.clone(), WriteFailure::default());
        let reported = failure.clone();
        let running = thread::Builder::new().name("pinion-journal".to_owned()).spawn(move || {
            let (file, place, session, seen) = (None, None, None, HashSet::new());
            let pending = Vec::new();
            let mut output =
                JournalOutput { mode, mask, file, place, session, seen, pending, waiting: counter, failure: reported };
            output.run(&receiver);
        })?;
        Ok(Self { sender: Mutex::new(sender), waiting, failure, thread: running.thread().clone() })
    }

    /// Continues in a new file of `directory`, which is created with the first entry. Without a directory, drops further
    /// entries.
    pub fn begin(&self, directory: Option<&Path>) {
        let place = |directory: &Path| JournalPlace { directory: directory.to_owned(), session: None };
        self.send(WriterMessage::Begin(directory.map(place)));
    }

    /// Continues in a new file of `directory` for a session, whose file it refers to. The reader finds that file by
    /// [`session_of`](crate::reader::session_of).
    pub fn begin_for_session(&self, directory: &Path, session: &Path) {
        let place = JournalPlace { directory: directory.to_owned(), session: Some(session.to_owned()) };
        self.send(WriterMessage::Begin(Some(place)));
    }

    /// Adds an entry, and first waits for the disk where entries would be dropped.
    pub fn record_in_full(&self, event: JournalEvent) {
        if self.waiting.load(Ordering::Relaxed) > MAX_WAITING / 2 {
            self.flush();
        }
        self.record(event);
    }

    /// Waits until all entries have been written.
    pub fn flush(&self) {
        let (done, finished) = mpsc::sync_channel(1);
        self.send(WriterMessage::Flush(done));
        self.thread.unpark();
        // Fails only if the thread panicked.
        let _ = finished.recv();
    }

    /// Ends the file and waits until all entries have been written.
    ///
    /// # Errors
    /// An entry could not be written since the last call.
    pub fn finish(&self) -> io::Result<()> {
        self.begin(None);
        self.flush();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    fn send(&self, message: WriterMessage) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // Fails only if the thread panicked.
        let _ = sender.send(message);
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        // The process may end before the thread does.
        self.begin(None);
        self.flush();
    }
}

impl JournalSink for JournalWriter {
    fn record(&self, event: JournalEvent) {
        let size = size_of_event(&event);
        let waiting = self.waiting.fetch_add(size, Ordering::Relaxed);
        if waiting > MAX_WAITING {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            tracing::warn!("the journal cannot keep up; a call is missing in it");
            return;
        }
        self.send(WriterMessage::Event(Box::new(event), size));
        if waiting > MAX_GATHERED {
            self.thread.unpark();
        }
    }
}

fn size_of_event(event: &JournalEvent) -> usize {
    let length = |value: &JournalValue| value.bytes().map_or(0, <[u8]>::len);
    match event {
        JournalEvent::Call(call) => {
            let imports = call.imports.iter().map(|import| {
                let returned = match &import.outcome {
                    crate::event::CallOutcome::Returned(value) => length(value),
                    _ => 0,
                };
                128 + length(&import.arguments) + returned
            });
            256 + length(&call.arguments) + imports.sum::<usize>()
        }
        JournalEvent::Instance(start) => 256 + start.settings.len(),
        JournalEvent::Full => 0,
    }
}

/// The thread's own data.
struct JournalOutput {
    mode: JournalMode,
    mask: MaskSecrets,
    file: Option<JournalFile>,
    place: Option<JournalPlace>,
    /// The text of the session's file.
    session: Option<SessionIndex>,
    /// Digests of the values in the file.
    seen: HashSet<[u8; 32]>,
    /// Entries that wait until the session has the results of their calls, with their bytes.
    pending: Vec<(JournalEvent, usize)>,
    /// Bytes of entries that were not written yet.
    waiting: Arc<AtomicUsize>,
    failure: WriteFailure,
}

struct JournalFile {
    encoder: DeflateEncoder<BufWriter<File>>,
    repetitions: RepetitionWriter,
    bytes: u64,
    is_dirty: bool,
}

impl JournalOutput {
    fn run(&mut self, receiver: &mpsc::Receiver<WriterMessage>) {
        // Entries that were there when the thread last waited.
        let mut known = 0;
        loop {
            let next = receiver.try_recv();
            let is_first = next.is_err();
            if is_first {
                self.add_pending(known);
                known = self.pending.len();
            }
            let is_dirty = known > 0 || self.file.as_ref().is_some_and(|file| file.is_dirty);
            let message = match (next, is_dirty) {
                (Ok(message), _) => Ok(message),
                (Err(_), true) => receiver.recv_timeout(QUIET),
                (Err(_), false) => receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            };
            if is_first && matches!(message, Ok(WriterMessage::Event(..))) {
                thread::park_timeout(GATHERING);
            }
            match message {
                Ok(WriterMessage::Event(event, size)) => self.pending.push((*event, size)),
                Ok(WriterMessage::Begin(place)) => {
                    self.close();
                    self.session = place.as_ref().and_then(|place| place.session.as_deref()).map(SessionIndex::new);
                    self.place = place;
                }
                Ok(WriterMessage::Flush(done)) => {
                    self.flush();
                    let _ = done.send(());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => self.flush(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.close(),
            }
            known = known.min(self.pending.len());
        }
    }

    /// Adds the first entries that wait. A call ends before the session has its result, so the newest entries wait until
    /// the next pause.
    fn add_pending(&mut self, count: usize) {
        if count > 0
            && self.mode == JournalMode::On
            && let Some(session) = &mut self.session
            && let Err(error) = session.update()
        {
            tracing::debug!(%error, "the journal refers to no more of the session's file");
            self.session = None;
        }
        for (event, size) in self.pending.drain(..count).collect::<Vec<_>>() {
            self.add(event);
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
    }

    fn add(&mut self, mut event: JournalEvent) {
        if self.place.is_none() {
            return;
        }
        let (mask, seen, mode, session) = (&self.mask, &mut self.seen, self.mode, self.session.as_ref());
        event.for_each_text(|text| {
            let mut bytes = std::mem::take(text).into_bytes();
            mask(&mut bytes);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        });
        event.for_each_value(|value| {
            if let JournalValue::Bytes(bytes) = value {
                mask(bytes);
                *value = shortened(std::mem::take(bytes), mode, seen, session);
            }
        });
        if let Err(error) = self.write(&event) {
            self.fail(error);
        }
    }

    fn write(&mut self, event: &JournalEvent) -> io::Result<()> {
        if self.file.is_none() {
            let Some(place) = &self.place else { return Ok(()) };
            let file = BufWriter::new(create_file(&place.directory)?);
            let mut encoder = DeflateEncoder::new(file, Compression::default());
            encoder.write_all(&REFERRING.to_le_bytes())?;
            let repetitions = RepetitionWriter::new();
            self.file = Some(JournalFile { encoder, repetitions, bytes: 0, is_dirty: false });
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.bytes > MAX_FILE {
            return Ok(());
        }
        file.add(event)?;
        if file.bytes > MAX_FILE {
            file.add(&JournalEvent::Full)?;
        }
        file.is_dirty = true;
        Ok(())
    }

    fn flush(&mut self) {
        self.add_pending(self.pending.len());
        if let Some(file) = self.file.as_mut().filter(|file| file.is_dirty) {
            file.is_dirty = false;
            if let Err(error) = file.flush() {
                self.fail(error);
            }
        }
    }

    /// Ends the journal of the directory after an error.
    fn fail(&mut self, error: io::Error) {
        tracing::warn!(%error, "the journal could not be written; it ends here");
        (self.file, self.place) = (None, None);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn close(&mut self) {
        self.flush();
        if let Some(file) = self.file.take()
            && let Err(error) = file.encoder.finish().and_then(|mut writer| writer.flush())
        {
            self.fail(error);
        }
        self.seen.clear();
    }
}

impl JournalFile {
    /// Writes everything that the encoder holds. One flush of it leaves entries behind where they fill its buffer; once it
    /// holds nothing, a flush adds only a mark.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            let before = self.encoder.total_out();
            self.encoder.flush()?;
            if self.encoder.total_out().saturating_sub(before) <= MARK {
                return Ok(());
            }
        }
    }

    fn add(&mut self, event: &JournalEvent) -> io::Result<()> {
        let encoded = postcard::to_stdvec(event).map_err(io::Error::other)?;
        self.bytes += encoded.len() as u64;
        let entry = self.repetitions.shorten(&encoded);
        let length = u32::try_from(entry.len()).map_err(io::Error::other)?;
        self.encoder.write_all(&length.to_le_bytes())?;
        self.encoder.write_all(&entry)
    }
}

/// Replaces bytes that the file or the session has already, or that the mode leaves out.
fn shortened(
    bytes: Vec<u8>,
    mode: JournalMode,
    seen: &mut HashSet<[u8; 32]>,
    session: Option<&SessionIndex>,
) -> JournalValue {
    let is_brief = mode == JournalMode::Digest && bytes.len() > MAX_BRIEF;
    if is_brief || bytes.len() > MAX_VALUE {
        return JournalValue::Digest(*blake3::hash(&bytes).as_bytes(), bytes.len() as u64);
    }
    if bytes.len() >= MIN_SHARED {
        let digest = *blake3::hash(&bytes).as_bytes();
        if !seen.insert(digest) {
            return JournalValue::Repeated(digest);
        }
    }
    let referring = session.filter(|_| bytes.len() >= MIN_REFERRING).and_then(|session| session.shorten(&bytes));
    match referring {
        Some(tokens) => JournalValue::Referring { check: check_of(blake3::hash(&bytes).as_bytes()), tokens },
        None => JournalValue::Bytes(bytes),
    }
}

/// Creates the next file of a directory, readable only for its owner.
fn create_file(directory: &Path) -> io::Result<File> {
    create_directory(directory)?;
    for number in 1..=MAX_FILES {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(directory.join(format!("{number:04}.{EXTENSION}"))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened,
        }
    }
    Err(io::Error::other("the session has too many journals"))
}
