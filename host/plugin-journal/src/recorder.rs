//! The record of one call while it runs.

use crate::value::EncodeValue;
use pinion_journal::event::{CallOutcome, CallRecord, ImportRecord, InstanceStart, JournalEvent, JournalValue};
use pinion_journal::writer::JournalSink;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of the next instance of the process.
static NEXT_INSTANCE: AtomicU64 = AtomicU64::new(1);

/// Bytes of the imports of one call, which are in memory until it ends. A call with more is recorded without them.
const MAX_IMPORT_BYTES: usize = 64 << 20;
/// Bytes of an import besides its values.
const IMPORT_BYTES: usize = 256;

/// Records the calls on one instance.
#[derive(Clone)]
pub struct Recorder(Arc<InstanceRecorder>);

struct InstanceRecorder {
    sink: Arc<dyn JournalSink>,
    instance: u64,
    /// The call that runs.
    call: Mutex<Option<CallRecord>>,
    /// Bytes of its imports.
    bytes: AtomicUsize,
}

/// The beginning of a call.
pub struct CallStart {
    /// The name of the export.
    pub export: String,
    /// The session that the call belongs to.
    pub session: String,
    /// The grants of the plugin, in words.
    pub grants: Vec<String>,
    /// The fuel that the call may use.
    pub fuel: u64,
}

impl Recorder {
    /// Begins the record of an instance. `start` gets its number.
    pub fn begin_instance(sink: &Arc<dyn JournalSink>, start: InstanceStart) -> Self {
        let instance = NEXT_INSTANCE.fetch_add(1, Ordering::Relaxed);
        sink.record(JournalEvent::Instance(InstanceStart { instance, ..start }));
        let (call, bytes) = (Mutex::new(None), AtomicUsize::new(0));
        Self(Arc::new(InstanceRecorder { sink: sink.clone(), instance, call, bytes }))
    }

    /// Begins the record of a call.
    pub fn begin_call(&self, start: CallStart, arguments: &impl EncodeValue) {
        let record = CallRecord {
            instance: self.0.instance,
            session: start.session,
            export: start.export,
            grants: start.grants,
            arguments: encoded(arguments),
            imports: Vec::new(),
            outcome: CallOutcome::Stopped,
            fuel_limit: start.fuel,
            fuel: 0,
            unrecorded: None,
        };
        self.0.bytes.store(0, Ordering::Relaxed);
        *self.call() = Some(record);
    }

    /// Ends the call. `fuel_left` is the fuel that it did not use.
    pub fn end_call<R: EncodeValue>(&self, result: &wasmtime::Result<R>, fuel_left: u64) {
        self.finish(fuel_left, |call| call.outcome = outcome(result));
    }

    /// Ends a call that the host stopped.
    pub fn stop(&self, fuel_left: u64) {
        self.finish(fuel_left, |_| ());
    }

    fn finish(&self, fuel_left: u64, end: impl FnOnce(&mut CallRecord)) {
        let call = self.call().take();
        if let Some(mut call) = call {
            end(&mut call);
            call.fuel = call.fuel_limit.saturating_sub(fuel_left);
            self.0.sink.record(JournalEvent::Call(call));
        }
    }

    /// Begins the record of an import that the call makes.
    pub fn begin_import(&self, name: &str, arguments: &impl EncodeValue) {
        if let Some(call) = self.call().as_mut().filter(|_| self.has_room()) {
            let (name, arguments) = (name.to_owned(), encoded(arguments));
            let bytes = IMPORT_BYTES + arguments.bytes().map_or(0, <[u8]>::len);
            call.imports.push(ImportRecord { name, arguments, outcome: CallOutcome::Stopped });
            self.count(call, bytes);
        }
    }

    /// Ends the import that began last.
    pub fn end_import<R: EncodeValue, E: Display>(&self, result: &Result<R, E>) {
        if let Some(call) = self.call().as_mut().filter(|_| self.has_room())
            && let Some(import) = call.imports.last_mut()
        {
            import.outcome = outcome(result);
            let bytes = match &import.outcome {
                CallOutcome::Returned(value) => value.bytes().map_or(0, <[u8]>::len),
                CallOutcome::Trapped(message) => message.len(),
                CallOutcome::Stopped => 0,
            };
            self.count(call, bytes);
        }
    }

    fn has_room(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) <= MAX_IMPORT_BYTES
    }

    /// Counts bytes of imports, and forgets the imports of a call with too many, which then cannot be repeated.
    fn count(&self, call: &mut CallRecord, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.has_room() {
            call.imports = Vec::new();
            call.unrecorded.get_or_insert_with(|| "imports of more than 64 MiB".to_owned());
        }
    }

    /// Notes that the call used an interface that is not recorded.
    pub fn note_unrecorded(&self, interface: &str) {
        if let Some(call) = &mut *self.call() {
            call.unrecorded.get_or_insert_with(|| interface.to_owned());
        }
    }

    fn call(&self) -> MutexGuard<'_, Option<CallRecord>> {
        self.0.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn outcome<R: EncodeValue, E: Display>(result: &Result<R, E>) -> CallOutcome {
    match result {
        Ok(value) => CallOutcome::Returned(encoded(value)),
        Err(error) => CallOutcome::Trapped(error.to_string()),
    }
}

fn encoded(value: &impl EncodeValue) -> JournalValue {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    JournalValue::Bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct KeptEvents(Mutex<Vec<JournalEvent>>);

    impl JournalSink for KeptEvents {
        fn record(&self, event: JournalEvent) {
            self.0.lock().unwrap().push(event);
        }
    }

    #[test]
    fn call_with_too_many_imports_is_recorded_without_them() {
        let kept = Arc::new(KeptEvents::default());
        let sink: Arc<dyn JournalSink> = kept.clone();
        let (plugin, component, settings) = ("p".to_owned(), String::new(), String::new());
        let start = InstanceStart { instance: 0, plugin, component, generation: 1, settings, memory_limit: 1 };
        let recorder = Recorder::begin_instance(&sink, start);
        let large = "x".repeat(MAX_IMPORT_BYTES / 2);
        for imports in [1, 3] {
            let (export, session, grants) = ("e".to_owned(), String::new(), Vec::new());
            recorder.begin_call(CallStart { export, session, grants, fuel: 1 }, &true);
            for _ in 0..imports {
                recorder.begin_import("a#b", &large);
                recorder.end_import(&Ok::<bool, String>(true));
            }
            recorder.stop(0);
        }
        let events = kept.0.lock().unwrap();
        let seen: Vec<(usize, bool)> = events
            .iter()
            .filter_map(|event| match event {
                JournalEvent::Call(call) => Some((call.imports.len(), call.unrecorded.is_some())),
                _ => None,
            })
            .collect();
        assert_eq!(seen, [(1, false), (0, true)]);
    }
}
