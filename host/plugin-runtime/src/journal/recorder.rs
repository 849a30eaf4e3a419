//! The record of one call while it runs.

use crate::journal::value::EncodeValue;
use pinion_journal::event::{CallOutcome, CallRecord, ImportRecord, InstanceStart, JournalEvent, JournalValue};
use pinion_journal::writer::JournalSink;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of the next instance of the process.
static NEXT_INSTANCE: AtomicU64 = AtomicU64::new(1);

/// Records the calls on one instance.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<InstanceRecorder>);

struct InstanceRecorder {
    sink: Arc<dyn JournalSink>,
    instance: u64,
    /// The call that runs.
    call: Mutex<Option<CallRecord>>,
}

/// The beginning of a call.
pub(crate) struct CallStart {
    pub(crate) export: String,
    pub(crate) session: String,
    pub(crate) grants: Vec<String>,
    /// The fuel that the call may use.
    pub(crate) fuel: u64,
}

impl Recorder {
    /// Begins the record of an instance. `start` gets its number.
    pub(crate) fn begin_instance(sink: &Arc<dyn JournalSink>, start: InstanceStart) -> Self {
        let instance = NEXT_INSTANCE.fetch_add(1, Ordering::Relaxed);
        sink.record(JournalEvent::Instance(InstanceStart { instance, ..start }));
        Self(Arc::new(InstanceRecorder { sink: sink.clone(), instance, call: Mutex::new(None) }))
    }

    pub(crate) fn begin_call(&self, start: CallStart, arguments: &impl EncodeValue) {
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
        *self.call() = Some(record);
    }

    /// Ends the call. `fuel_left` is the fuel that it did not use.
    pub(crate) fn end_call<R: EncodeValue>(&self, result: &wasmtime::Result<R>, fuel_left: u64) {
        self.finish(fuel_left, |call| call.outcome = outcome(result));
    }

    /// Ends a call that the host stopped.
    pub(crate) fn stop(&self, fuel_left: u64) {
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

    pub(crate) fn begin_import(&self, name: &str, arguments: &impl EncodeValue) {
        if let Some(call) = &mut *self.call() {
            let (name, arguments) = (name.to_owned(), encoded(arguments));
            call.imports.push(ImportRecord { name, arguments, outcome: CallOutcome::Stopped });
        }
    }

    /// Ends the import that began last.
    pub(crate) fn end_import<R: EncodeValue, E: Display>(&self, result: &Result<R, E>) {
        if let Some(import) = self.call().as_mut().and_then(|call| call.imports.last_mut()) {
            import.outcome = outcome(result);
        }
    }

    /// Notes that the call used an interface that is not recorded.
    pub(crate) fn note_unrecorded(&self, interface: &str) {
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
