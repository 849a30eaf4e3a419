//! The configured wasmtime engine, and the clock that interrupts guests.

use crate::compiler::CompiledCode;
use crate::functions::Functions;
use pinion_plugin_limits::EngineLimits;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wasmtime::component::Component;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The interval between checks of a running guest's deadline and cancellation.
const TICK: Duration = Duration::from_millis(5);

/// Ticks that the clock keeps running after the last call, so that calls in a row need not wake it.
const LINGER_TICKS: u32 = 40;

/// Memories of one component: one for each component that it is composed of. Each takes 4 GiB of address space in the
/// pool, which reserves about 6 of 128 TiB.
const MEMORIES: u32 = 3;
/// Tables of one component: usually one for each program that it is composed of, and one for the component. The pool
/// keeps 56 bytes for each table of each instance, and writes them when it starts.
const TABLES: u32 = 20;
/// Core instances of one component.
const CORE_INSTANCES: u32 = 64;

/// A wasmtime engine with its clock.
pub struct Engine {
    engine: wasmtime::Engine,
    ticker: Ticker,
    limits: EngineLimits,
    compatibility: String,
}

/// The engine could not be created.
#[derive(Debug, thiserror::Error)]
#[error("could not start the WebAssembly engine on this machine")]
pub struct EngineError {
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl EngineError {
    /// Wraps an error of the engine itself.
    pub fn from_wasmtime(error: wasmtime::Error) -> Self {
        Self { source: error.into() }
    }
}

impl Engine {
    /// Starts an engine and its clock. The process is made dumpable meanwhile if it is not.
    ///
    /// # Errors
    /// The system does not give it memory or a thread.
    pub fn start(limits: EngineLimits) -> Result<Self, EngineError> {
        while_dumpable(|| Self::new(limits))
    }

    /// Starts an engine and its clock in a process that stays as it is.
    ///
    /// # Errors
    /// The system does not give it memory or a thread.
    pub fn new(limits: EngineLimits) -> Result<Self, EngineError> {
        let engine = pooled(&limits).or_else(|error| {
            // The pool reserves address space by the terabyte; `ulimit -v` and some containers forbid that.
            tracing::info!(%error, "no instance pool; calls are slower");
            wasmtime::Engine::new(&config(&limits))
        });
        let engine = engine.map_err(EngineError::from_wasmtime)?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| EngineError { source: error.into() })?;
        let compatibility = compatibility(&engine);
        Ok(Self { ticker, engine, limits, compatibility })
    }

    /// The engine of wasmtime.
    pub fn wasmtime(&self) -> &wasmtime::Engine {
        &self.engine
    }

    /// The limits that it was started with.
    pub fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// Compiles a component on all cores, in about 100 ms for 100 KB.
    ///
    /// # Errors
    /// It is not a valid component.
    pub fn compile(&self, bytes: &[u8]) -> wasmtime::Result<Component> {
        Component::from_binary(&self.engine, bytes)
    }

    /// Loads the code that a child process compiled.
    ///
    /// # Errors
    /// It belongs to another version or configuration.
    pub fn load_compiled(&self, compiled: &CompiledCode) -> wasmtime::Result<Component> {
        self.deserialize(compiled.code())
    }

    /// Loads code that the cache sealed, or that came from the child of a compiler.
    ///
    /// # Errors
    /// It belongs to another version or configuration.
    #[allow(unsafe_code, reason = "wasmtime cannot check compiled code; the cache's seal does, see there")]
    pub(crate) fn deserialize(&self, own_code: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: called by `CodeCache::load`, with bytes whose keyed hash shows that the cache of this user wrote them,
        // from `Component::serialize` or a `CompiledCode`; and by `load_compiled`, with a `CompiledCode`, whose bytes the
        // embedder's own program wrote to a private pipe. Only a `Compiler` makes one.
        unsafe { Component::deserialize(&self.engine, own_code) }
    }

    /// The hash of everything that compiled code and descriptions depend on, in hexadecimal.
    pub fn compatibility(&self) -> &str {
        &self.compatibility
    }

    /// Returns whether at most one guest runs.
    pub fn is_quiet(&self) -> bool {
        self.ticker.shared.running.load(Ordering::Relaxed) <= 1
    }

    /// Returns whether no guest runs.
    pub fn is_idle(&self) -> bool {
        self.ticker.shared.running.load(Ordering::Relaxed) == 0
    }

    /// Keeps the clock running until the guard is dropped.
    pub fn running(&self) -> InterruptGuard<'_> {
        self.ticker.enter();
        InterruptGuard(&self.ticker)
    }
}

fn compatibility(engine: &wasmtime::Engine) -> String {
    let mut hasher = Blake3Hasher(blake3::Hasher::new());
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.finalize().to_hex().to_string()
}

/// Adapts BLAKE3 to [`std::hash::Hash`], which wasmtime uses to describe its compatibility. The standard hashers are
/// not stable enough to name files on disk.
struct Blake3Hasher(blake3::Hasher);

impl Hasher for Blake3Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().unwrap_or_default())
    }
}

/// Compiles a component to code for [`Engine::deserialize`], in a process that does nothing else. Takes functions that were
/// compiled before from `functions`, and adds the others.
pub(crate) fn compile_alone(bytes: &[u8], functions: Option<Arc<Functions>>) -> wasmtime::Result<Vec<u8>> {
    // The code is the same with and without an instance pool; wasmtime checks that when it loads the code.
    let mut config = config(&EngineLimits::default());
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions)?;
    }
    wasmtime::Engine::new(&config)?.precompile_component(bytes)
}

fn config(limits: &EngineLimits) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        // The host's own frames run on the same stack as the guest's.
        .async_stack_size(limits.stack_bytes + 1024 * 1024)
        .wasm_component_model(true)
        // The same bits on every processor, so that a recorded call can be repeated elsewhere.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        // Backtraces name functions, which does not require any of these.
        .generate_address_map(false)
        .debug_symbols(false)
        .native_unwind_info(false);
    config
}

fn pooled(limits: &EngineLimits) -> wasmtime::Result<wasmtime::Engine> {
    let calls = limits.all_calls();
    // Each limit is the most that all instances together can have, so that no instance takes resources that another one
    // needs.
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls)
        .total_stacks(calls)
        .total_core_instances(calls * CORE_INSTANCES)
        .total_memories(calls * MEMORIES)
        .total_tables(calls * TABLES)
        .table_elements(1_000_000)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_component_instance_size(8 * 1024 * 1024)
        .max_core_instance_size(8 * 1024 * 1024);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        // Linux reports the pages that a guest wrote to (since 6.7). Resetting them is cheaper than unmapping them, which
        // interrupts all cores, as does every first write of the next guest. Most calls touch less.
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(1024 * 1024)
            .table_keep_resident(64 * 1024)
            .async_stack_keep_resident(64 * 1024);
    }
    let mut config = config(limits);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}

/// Runs `start` while the process may open its own files in `/proc`.
///
/// The engine opens `/proc/self/pagemap` once, to reset memory page by page; without it, each call costs more. The system
/// denies that file to a process that is not dumpable, except to root. So the process is made dumpable while the engine
/// starts, when no guest and no program of a guest runs yet. The user's own key commands may run, in a sandbox that does
/// not show them this process.
#[cfg(target_os = "linux")]
fn while_dumpable<T>(start: impl FnOnce() -> T) -> T {
    use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
    let is_hidden = matches!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    if !is_hidden || rustix::process::geteuid().is_root() {
        return start();
    }
    // If the system refuses, the engine works without the file.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let started = start();
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::error!(%error, "the process stays dumpable");
    }
    started
}

#[cfg(not(target_os = "linux"))]
fn while_dumpable<T>(start: impl FnOnce() -> T) -> T {
    start()
}

/// A guard: until it is dropped, guests are interrupted every five milliseconds.
pub struct InterruptGuard<'a>(&'a Ticker);

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A thread that advances the epoch while calls run. It sleeps while no call runs, so that an idle agent costs nothing.
struct Ticker {
    shared: Arc<TickerState>,
    thread: JoinHandle<()>,
}

struct TickerState {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    fn start(engine: wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(TickerState {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let thread = {
            let shared = shared.clone();
            thread::Builder::new().name("pinion-epoch".into()).spawn(move || tick(&engine, &shared))?
        };
        Ok(Self { shared, thread })
    }

    fn enter(&self) {
        // Sequentially consistent, here and in `tick`: each side must see earlier writes of the other one.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        self.thread.thread().unpark();
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
    }
}

fn tick(engine: &wasmtime::Engine, shared: &TickerState) {
    let mut idle = 0;
    while !shared.stop.load(Ordering::Acquire) {
        idle = if shared.running.load(Ordering::Acquire) > 0 { 0 } else { idle + 1 };
        if idle < LINGER_TICKS {
            thread::sleep(TICK);
            engine.increment_epoch();
            continue;
        }
        shared.asleep.store(true, Ordering::SeqCst);
        // A call that begins now is either counted here, or sees `asleep` and wakes this thread.
        if shared.running.load(Ordering::SeqCst) == 0 && !shared.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        shared.asleep.store(false, Ordering::SeqCst);
        idle = 0;
    }
}

/// Computations whose results WebAssembly leaves to the processor have one result.
#[cfg(test)]
mod determinism_tests {
    use super::*;
    use wasmtime::{Instance, Module, Store, WasmParams, WasmResults};

    /// Returns a module that exports a function of this type and body as `f`.
    fn module(signature: &[u8], body: &[u8]) -> Vec<u8> {
        let section = |id: u8, content: &[u8]| {
            let length = u8::try_from(content.len()).unwrap();
            [&[id, length], content].concat()
        };
        let code = [&[1, u8::try_from(body.len() + 2).unwrap(), 0], body, &[0x0b]].concat();
        [
            b"\0asm\x01\0\0\0".to_vec(),
            section(1, &[&[1, 0x60], signature].concat()),
            section(3, &[1, 0]),
            section(7, &[1, 1, b'f', 0, 0]),
            section(10, &code),
        ]
        .concat()
    }

    fn run<P: WasmParams, R: WasmResults>(bytes: &[u8], parameters: P) -> R {
        let engine = Engine::new(EngineLimits::default()).unwrap();
        let module = Module::new(engine.wasmtime(), bytes).unwrap();
        let mut store = Store::new(engine.wasmtime(), ());
        store.set_fuel(1_000).unwrap();
        store.set_epoch_deadline(1_000);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        instance.get_typed_func(&mut store, "f").unwrap().call(&mut store, parameters).unwrap()
    }

    #[test]
    fn results_that_are_no_number_have_the_same_bits() {
        // (func (param f64 f64) (result i64) (i64.reinterpret_f64 (f64.div (local.get 0) (local.get 1))))
        let divided = module(&[2, 0x7c, 0x7c, 1, 0x7e], &[0x20, 0, 0x20, 1, 0xa3, 0xbd]);
        let canonical = 0x7ff8_0000_0000_0000_u64.cast_signed();
        assert_eq!(run::<_, i64>(&divided, (0.0_f64, 0.0_f64)), canonical);
        assert_eq!(run::<_, i64>(&divided, (f64::from_bits(0xfff8_0000_0000_1234), 1.0_f64)), canonical);
    }

    #[test]
    fn relaxed_conversion_has_one_result() {
        // (func (param f32) (result i32)
        //   (i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (f32x4.splat (local.get 0)))))
        let converted = module(&[1, 0x7d, 1, 0x7f], &[0x20, 0, 0xfd, 0x13, 0xfd, 0x81, 2, 0xfd, 0x1b, 0]);
        assert_eq!(run::<_, i32>(&converted, f32::NAN), 0);
        assert_eq!(run::<_, i32>(&converted, 3e9_f32), i32::MAX);
    }
}
