//! wasmtime's engine as this host wants it, and the clock that interrupts guests.

pub(crate) mod pagemap;

use crate::limits::EngineLimits;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wasmtime::component::Component;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How often a running guest lets the host look at its deadline and its cancellation.
const TICK: Duration = Duration::from_millis(5);

/// Ticks that the clock goes on for after the last call, so that calls in a row need not wake it.
const LINGER_TICKS: u32 = 40;

/// Memories of one component. A component has one, and one for each component that it is composed of. Each takes 4 GiB of
/// address space in the pool, which has about 6 TiB of 128.
const MEMORIES: u32 = 3;
/// Tables of one component. One a module is usual, and one for the component.
const TABLES: u32 = 64;
/// Core instances of one component.
const CORE_INSTANCES: u32 = 64;

/// wasmtime's engine, with the clock that it needs.
pub(crate) struct Engine {
    engine: wasmtime::Engine,
    ticker: Ticker,
    limits: EngineLimits,
}

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine does not start on this machine")]
pub struct EngineError {
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl EngineError {
    pub(crate) fn from_wasmtime(error: wasmtime::Error) -> Self {
        Self { source: error.into() }
    }
}

impl Engine {
    pub(crate) fn new(limits: EngineLimits) -> Result<Self, EngineError> {
        let engine = pooled(&limits).or_else(|error| {
            // The pool reserves address space by the terabyte; `ulimit -v` and some containers forbid that.
            tracing::info!(%error, "no instance pool; calls will be slower");
            wasmtime::Engine::new(&config(&limits))
        });
        let engine = engine.map_err(EngineError::from_wasmtime)?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| EngineError { source: error.into() })?;
        Ok(Self { ticker, engine, limits })
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.engine
    }

    pub(crate) fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// Compiles, on all cores. Takes a tenth of a second for 100 KB.
    pub(crate) fn compile(&self, bytes: &[u8]) -> wasmtime::Result<Component> {
        Component::from_binary(&self.engine, bytes)
    }

    /// Takes code that [`crate::loading::cache`] has found to be its own, or that came from the child of [`crate::loading::compiler`].
    #[allow(unsafe_code, reason = "wasmtime cannot check compiled code; the cache's seal does, see there")]
    pub(crate) fn deserialize(&self, own_code: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: called by `Cache::load`, with bytes whose keyed hash shows that `Cache::store` of this user wrote them
        // from `Component::serialize`; and by `compiler::in_child`, with bytes that the embedder's own program wrote to a
        // pipe that nobody else holds.
        unsafe { Component::deserialize(&self.engine, own_code) }
    }

    /// Feeds everything on which compiled code depends to `hasher`.
    pub(crate) fn compatibility_hash(&self, hasher: &mut impl Hasher) {
        env!("CARGO_PKG_VERSION").hash(hasher);
        self.engine.precompile_compatibility_hash().hash(hasher);
    }

    /// Keeps the clock running as long as the guard lives.
    pub(crate) fn running(&self) -> Running<'_> {
        self.ticker.enter();
        Running(&self.ticker)
    }
}

/// Compiles a component to what [`Engine::deserialize`] takes, in a process that does nothing else.
pub(crate) fn compile_alone(bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    // Whether instances come from a pool changes nothing about code; wasmtime checks that on the other side.
    wasmtime::Engine::new(&config(&EngineLimits::default()))?.precompile_component(bytes)
}

fn config(limits: &EngineLimits) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        // The host's own frames run on the same stack as the guest's.
        .async_stack_size(limits.stack_bytes + 1024 * 1024)
        .wasm_component_model(true);
    config
}

fn pooled(limits: &EngineLimits) -> wasmtime::Result<wasmtime::Engine> {
    let calls = limits.all_calls();
    // As many of each as all instances can have at most, so that none takes what another one needs.
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
        // Linux tells which pages a guest wrote to (since 6.7). To put these back as they were is cheaper than to give
        // them back: that interrupts all cores, as does every first write of the next guest. Most calls touch less.
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(1024 * 1024)
            .table_keep_resident(64 * 1024)
            .async_stack_keep_resident(64 * 1024);
    }
    let mut config = config(limits);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}

/// As long as it lives, guests are interrupted every [`TICK`].
pub(crate) struct Running<'a>(&'a Ticker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A thread that advances the epoch while calls run, and sleeps while none do: an idle agent costs nothing.
struct Ticker {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    fn start(engine: wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared {
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
        // Sequentially consistent, here and in `tick`: either side must see what the other one wrote first.
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

fn tick(engine: &wasmtime::Engine, shared: &Shared) {
    let mut idle = 0;
    while !shared.stop.load(Ordering::Acquire) {
        idle = if shared.running.load(Ordering::Acquire) > 0 { 0 } else { idle + 1 };
        if idle < LINGER_TICKS {
            thread::sleep(TICK);
            engine.increment_epoch();
            continue;
        }
        shared.asleep.store(true, Ordering::SeqCst);
        // A call that began just now either is counted, or sees `asleep` and wakes us.
        if shared.running.load(Ordering::SeqCst) == 0 && !shared.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        shared.asleep.store(false, Ordering::SeqCst);
        idle = 0;
    }
}
