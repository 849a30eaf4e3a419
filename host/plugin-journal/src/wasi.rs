//! WASI's clocks, random numbers, environment and streams, whose calls are recorded.
//!
//! wasmtime-wasi generates these bindings itself, so each of its traits is implemented here by a wrapper that records a
//! call and makes it. A function that wasmtime-wasi adds is missing in the wrapper, which then does not compile.

use crate::recorder::Recorder;
use crate::value::EncodeValue;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::cli::{WasiCliCtxView, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocksCtxView, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::io::{error, poll, streams};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, FsError, StreamError, StreamResult};
use wasmtime_wasi::random::{WasiRandomCtx, WasiRandomView as _};

/// The data of a store whose calls of WASI are recorded.
pub trait RecordedStore: WasiView + 'static {
    /// The recorder of the instance; `None` where calls are not recorded.
    fn recorder(&self) -> Option<Recorder>;
}

/// A part of WASI whose calls are recorded.
pub struct RecordedWasi<V> {
    pub(crate) view: V,
    recorder: Option<Recorder>,
}

/// The error of an import. An error of the contract is converted, and recorded, in a separate step.
pub(crate) trait ImportError {
    /// True if the guest sees it.
    const IS_VALUE: bool;
}

impl ImportError for wasmtime::Error {
    const IS_VALUE: bool = false;
}

impl ImportError for StreamError {
    const IS_VALUE: bool = true;
}

impl ImportError for FsError {
    const IS_VALUE: bool = true;
}

impl<V> RecordedWasi<V> {
    /// Wraps a part of WASI, whose calls `recorder` records.
    pub fn new(view: V, recorder: Option<Recorder>) -> Self {
        Self { view, recorder }
    }

    pub(crate) fn begin(&self, name: &str, arguments: &impl EncodeValue) {
        if let Some(recorder) = &self.recorder {
            recorder.begin_import(name, arguments);
        }
    }

    pub(crate) fn end<T: EncodeValue, E: ImportError + std::fmt::Display>(&self, result: &Result<T, E>) {
        let Some(recorder) = &self.recorder else { return };
        match result {
            Ok(value) if E::IS_VALUE => recorder.end_import(&Ok::<_, E>(Ok::<_, ()>(value))),
            Err(_) if E::IS_VALUE => {}
            _ => recorder.end_import(result),
        }
    }

    /// Records the error that the guest sees.
    pub(crate) fn end_with_error<T: EncodeValue>(&self, error: &wasmtime::Result<T>) {
        if let Some(recorder) = &self.recorder {
            recorder.end_import(&error.as_ref().map(Err::<(), _>));
        }
    }
}

/// Implements a trait by calls that are recorded.
macro_rules! recorded {
    (
        $interface:literal, $trait:path $(, drop $dropped:ty)? $(, drop_later $dropped_later:ty)?;
        $(now $now:literal fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*
        $(later $later:literal fn $async_name:ident($($async_argument:ident: $async_type:ty),*) -> $async_result:ty;)*
    ) => {
        impl<V: $trait + Send> $trait for RecordedWasi<V> {
            $(fn $name(&mut self, $($argument: $type),*) -> $result {
                self.begin(concat!("wasi:", $interface, "#", $now), &($(&$argument,)*));
                let result = <V as $trait>::$name(&mut self.view, $($argument),*);
                self.end(&result);
                result
            })*
            $(async fn $async_name(&mut self, $($async_argument: $async_type),*) -> $async_result {
                self.begin(concat!("wasi:", $interface, "#", $later), &($(&$async_argument,)*));
                let result = <V as $trait>::$async_name(&mut self.view, $($async_argument),*).await;
                self.end(&result);
                result
            })*
            $(fn drop(&mut self, resource: Resource<$dropped>) -> wasmtime::Result<()> {
                <V as $trait>::drop(&mut self.view, resource)
            })?
            $(async fn drop(&mut self, resource: Resource<$dropped_later>) -> wasmtime::Result<()> {
                <V as $trait>::drop(&mut self.view, resource).await
            })?
        }
    };
}
pub(crate) use recorded;

recorded! { "clocks/wall-clock", wall_clock::Host;
    now "now" fn now() -> wasmtime::Result<wall_clock::Datetime>;
    now "resolution" fn resolution() -> wasmtime::Result<wall_clock::Datetime>;
}
recorded! { "clocks/monotonic-clock", monotonic_clock::Host;
    now "now" fn now() -> wasmtime::Result<u64>;
    now "resolution" fn resolution() -> wasmtime::Result<u64>;
    now "subscribe-instant" fn subscribe_instant(when: u64) -> wasmtime::Result<Resource<DynPollable>>;
    now "subscribe-duration" fn subscribe_duration(when: u64) -> wasmtime::Result<Resource<DynPollable>>;
}
recorded! { "random/random", random::Host;
    now "get-random-bytes" fn get_random_bytes(length: u64) -> wasmtime::Result<Vec<u8>>;
    now "get-random-u64" fn get_random_u64() -> wasmtime::Result<u64>;
}
recorded! { "random/insecure", insecure::Host;
    now "get-insecure-random-bytes" fn get_insecure_random_bytes(length: u64) -> wasmtime::Result<Vec<u8>>;
    now "get-insecure-random-u64" fn get_insecure_random_u64() -> wasmtime::Result<u64>;
}
recorded! { "random/insecure-seed", insecure_seed::Host;
    now "insecure-seed" fn insecure_seed() -> wasmtime::Result<(u64, u64)>;
}
recorded! { "cli/environment", environment::Host;
    now "get-environment" fn get_environment() -> wasmtime::Result<Vec<(String, String)>>;
    now "get-arguments" fn get_arguments() -> wasmtime::Result<Vec<String>>;
    now "initial-cwd" fn initial_cwd() -> wasmtime::Result<Option<String>>;
}
recorded! { "cli/exit", exit::Host;
    now "exit" fn exit(status: Result<(), ()>) -> wasmtime::Result<()>;
    now "exit-with-code" fn exit_with_code(code: u8) -> wasmtime::Result<()>;
}
recorded! { "cli/stdin", stdin::Host;
    now "get-stdin" fn get_stdin() -> wasmtime::Result<Resource<DynInputStream>>;
}
recorded! { "cli/stdout", stdout::Host;
    now "get-stdout" fn get_stdout() -> wasmtime::Result<Resource<DynOutputStream>>;
}
recorded! { "cli/stderr", stderr::Host;
    now "get-stderr" fn get_stderr() -> wasmtime::Result<Resource<DynOutputStream>>;
}
recorded! { "cli/terminal-input", terminal_input::HostTerminalInput, drop terminal_input::TerminalInput; }
recorded! { "cli/terminal-input", terminal_input::Host; }
recorded! { "cli/terminal-output", terminal_output::HostTerminalOutput, drop terminal_output::TerminalOutput; }
recorded! { "cli/terminal-output", terminal_output::Host; }
recorded! { "cli/terminal-stdin", terminal_stdin::Host;
    now "get-terminal-stdin" fn get_terminal_stdin() -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>>;
}
recorded! { "cli/terminal-stdout", terminal_stdout::Host;
    now "get-terminal-stdout"
    fn get_terminal_stdout() -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>>;
}
recorded! { "cli/terminal-stderr", terminal_stderr::Host;
    now "get-terminal-stderr"
    fn get_terminal_stderr() -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>>;
}
recorded! { "io/error", error::HostError, drop error::Error;
    now "[method]error.to-debug-string" fn to_debug_string(error: Resource<error::Error>) -> wasmtime::Result<String>;
}
recorded! { "io/error", error::Host; }
recorded! { "io/poll", poll::HostPollable, drop DynPollable;
    later "[method]pollable.block" fn block(pollable: Resource<DynPollable>) -> wasmtime::Result<()>;
    later "[method]pollable.ready" fn ready(pollable: Resource<DynPollable>) -> wasmtime::Result<bool>;
}
recorded! { "io/poll", poll::Host;
    later "poll" fn poll(pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>>;
}
recorded! { "io/streams", streams::HostInputStream, drop_later DynInputStream;
    now "[method]input-stream.read" fn read(stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>>;
    now "[method]input-stream.skip" fn skip(stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64>;
    now "[method]input-stream.subscribe"
    fn subscribe(stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>>;
    later "[method]input-stream.blocking-read"
    fn blocking_read(stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>>;
    later "[method]input-stream.blocking-skip"
    fn blocking_skip(stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64>;
}
recorded! { "io/streams", streams::HostOutputStream, drop_later DynOutputStream;
    now "[method]output-stream.check-write" fn check_write(stream: Resource<DynOutputStream>) -> StreamResult<u64>;
    now "[method]output-stream.write" fn write(stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()>;
    now "[method]output-stream.subscribe"
    fn subscribe(stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>>;
    now "[method]output-stream.write-zeroes"
    fn write_zeroes(stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()>;
    now "[method]output-stream.flush" fn flush(stream: Resource<DynOutputStream>) -> StreamResult<()>;
    now "[method]output-stream.splice"
    fn splice(stream: Resource<DynOutputStream>, from: Resource<DynInputStream>, length: u64) -> StreamResult<u64>;
    later "[method]output-stream.blocking-write-and-flush"
    fn blocking_write_and_flush(stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()>;
    later "[method]output-stream.blocking-write-zeroes-and-flush"
    fn blocking_write_zeroes_and_flush(stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()>;
    later "[method]output-stream.blocking-flush"
    fn blocking_flush(stream: Resource<DynOutputStream>) -> StreamResult<()>;
    later "[method]output-stream.blocking-splice"
    fn blocking_splice(
        stream: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        length: u64
    ) -> StreamResult<u64>;
}

impl<V: streams::Host + Send> streams::Host for RecordedWasi<V> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        let error = self.view.convert_stream_error(error);
        self.end_with_error(&error);
        error
    }
}

/// The data of each part of WASI.
macro_rules! views {
    ($lifetime:lifetime; $($name:ident: $view:ty, |$state:ident| $of:expr;)+) => {$(
        struct $name;

        impl HasData for $name {
            type Data<$lifetime> = RecordedWasi<$view>;
        }

        impl $name {
            fn of_state<$lifetime, T: RecordedStore>($state: &$lifetime mut T) -> RecordedWasi<$view> {
                let recorder = $state.recorder();
                RecordedWasi { view: $of, recorder }
            }
        }
    )+};
}
views! { 'a;
    RecordedTable: &'a mut ResourceTable, |state| state.ctx().table;
    RecordedClocks: WasiClocksCtxView<'a>, |state| state.clocks();
    RecordedRandom: &'a mut WasiRandomCtx, |state| state.random();
    RecordedCli: WasiCliCtxView<'a>, |state| state.cli();
}

/// Replaces the interfaces of WASI that were linked before, except for its files.
///
/// # Errors
/// The linker refuses an interface.
pub fn link<T: RecordedStore>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    error::add_to_linker::<T, RecordedTable>(linker, RecordedTable::of_state)?;
    poll::add_to_linker::<T, RecordedTable>(linker, RecordedTable::of_state)?;
    streams::add_to_linker::<T, RecordedTable>(linker, RecordedTable::of_state)?;
    wall_clock::add_to_linker::<T, RecordedClocks>(linker, RecordedClocks::of_state)?;
    monotonic_clock::add_to_linker::<T, RecordedClocks>(linker, RecordedClocks::of_state)?;
    random::add_to_linker::<T, RecordedRandom>(linker, RecordedRandom::of_state)?;
    insecure::add_to_linker::<T, RecordedRandom>(linker, RecordedRandom::of_state)?;
    insecure_seed::add_to_linker::<T, RecordedRandom>(linker, RecordedRandom::of_state)?;
    exit::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    environment::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    stdin::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    stdout::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    stderr::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    terminal_input::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    terminal_output::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    terminal_stdin::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    terminal_stdout::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    terminal_stderr::add_to_linker::<T, RecordedCli>(linker, RecordedCli::of_state)?;
    linker.allow_shadowing(false);
    Ok(())
}
