//! One tool call: a fresh instance, 1 KB in and out, through registry, limits, WASI context and ledger; against bare
//! wasmtime with the same settings and component. Also loading, reloading, and the cost of fuel.
//!
//! Needs the guests of the tests: `tests/build-guests.sh`. With a command in `PINION_COMMAND`, a reload is also
//! measured with the process that compiles plugins.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "call/bare.rs"]
mod bare;
#[path = "call/guests.rs"]
mod guests;
#[path = "call/servers.rs"]
mod servers;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use guests::{Plugins, guest};
use pinion_journal::writer::{JournalMode, JournalWriter};
use pinion_plugin_runtime::Compiler;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime as Tokio;

fn tokio() -> Tokio {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Returns the time that `n` calls take, each after a pause that lets the processor sleep.
fn after_pauses<T>(n: u64, mut call: impl FnMut() -> T) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..n {
        std::thread::sleep(Duration::from_millis(1));
        let started = Instant::now();
        std::hint::black_box(call());
        spent += started.elapsed();
    }
    spent
}

fn one_call(c: &mut Criterion) {
    let tokio = tokio();
    let message = "x".repeat(1000);
    let mut group = c.benchmark_group("call 1 KB");
    let plugins = tokio.block_on(Plugins::load(&["echo"]));
    let arguments = json!({ "message": message });
    group.bench_function("through the runtime", |b| {
        b.iter(|| tokio.block_on(plugins.call("echo", arguments.clone())));
    });
    group.bench_function("through the runtime, after a pause of 1 ms", |b| {
        b.iter_custom(|n| after_pauses(n, || tokio.block_on(plugins.call("echo", arguments.clone()))));
    });
    let (directory, journal) = (tempfile::tempdir().unwrap(), JournalWriter::start(JournalMode::On, Box::new(|_| ())));
    let journal = Arc::new(journal.unwrap());
    journal.begin(Some(directory.path()));
    let recorded = tokio.block_on(Plugins::load_recorded(guest("echo"), journal));
    group.bench_function("through the runtime, recorded", |b| {
        b.iter(|| tokio.block_on(recorded.call("echo", arguments.clone())));
    });
    let bare = Arc::new(bare::Bare::new(&guest("echo"), plugins.workspace()));
    let arguments = arguments.to_string();
    // Calls run there, because guests may block.
    group.bench_function("bare wasmtime on a thread that may block, drop elsewhere", |b| {
        b.iter(|| tokio.block_on(bare.clone().call_on_blocking_thread(arguments.clone())));
    });
    group.bench_function("bare wasmtime on such a thread, after a pause of 1 ms", |b| {
        b.iter_custom(|n| after_pauses(n, || tokio.block_on(bare.clone().call_on_blocking_thread(arguments.clone()))));
    });
    group.bench_function("bare wasmtime here, after a pause of 1 ms", |b| {
        b.iter_custom(|n| after_pauses(n, || tokio.block_on(bare.call(&arguments))));
    });
    group.bench_function("bare wasmtime, drop included", |b| b.iter(|| tokio.block_on(bare.call(&arguments))));
    group.bench_function("bare wasmtime, drop elsewhere", |b| {
        b.iter_custom(|n| {
            let mut spent = Duration::ZERO;
            for _ in 0..n {
                let started = Instant::now();
                let store = tokio.block_on(bare.call_and_keep(&arguments));
                spent += started.elapsed();
                drop(store);
            }
            spent
        });
    });
    group.finish();
}

/// A call of a tool of an MCP server that answers at once: the time that the bridge and the runtime add to the server's
/// own.
fn bridged_call(c: &mut Criterion) {
    let tokio = tokio();
    let servers = Arc::new(servers::Immediate::new());
    let plugins = tokio.block_on(Plugins::load_with_servers(guests::builtin("mcp"), Some(servers)));
    let arguments = json!({ "message": "x".repeat(1000) });
    c.bench_function("call 1 KB/of an MCP server, through bridge and port", |b| {
        b.iter(|| tokio.block_on(plugins.call("bench__echo", arguments.clone())));
    });
}

fn loading(c: &mut Criterion) {
    let tokio = tokio();
    let mut group = c.benchmark_group("load");
    group.sample_size(10);
    let cache = tempfile::tempdir().unwrap();
    group
        .bench_function("engine", |b| b.iter_with_large_drop(|| tokio.block_on(Plugins::load_from(&[], cache.path()))));
    let names = ["echo", "counter", "configured"];
    tokio.block_on(Plugins::load_from(&names, cache.path()));
    group.bench_function("engine and three plugins, warm cache", |b| {
        b.iter_with_large_drop(|| tokio.block_on(Plugins::load_from(&names, cache.path())));
    });
    for count in [30, 300] {
        let directory = tempfile::tempdir().unwrap();
        let files = guests::renamed(&guest("greet_one"), directory.path(), count);
        // Descriptions of files that were written just now are not kept.
        std::thread::sleep(Duration::from_millis(100));
        tokio.block_on(Plugins::load_files(files.clone(), cache.path()));
        group.bench_function(format!("engine and {count} described plugins"), |b| {
            b.iter_with_large_drop(|| tokio.block_on(Plugins::load_files(files.clone(), cache.path())));
        });
    }
    group.bench_function("engine and three plugins, cold cache", |b| {
        b.iter_with_setup(
            || tempfile::tempdir().unwrap(),
            |cold| {
                tokio.block_on(Plugins::load_from(&names, cold.path()));
                cold
            },
        );
    });
    group.finish();
}

/// Returns the command that compiles plugins in a separate process.
fn compiler() -> Option<Compiler> {
    let program = std::env::var_os("PINION_COMMAND")?.into();
    Some(Compiler { program, arguments: vec!["compile-component-for-parent".into()] })
}

fn reloading(c: &mut Criterion) {
    let mut group = c.benchmark_group("reload");
    group.sample_size(20);
    reload(&mut group, "200 KB component, change to next call", None);
    if let Some(compiler) = compiler() {
        reload(&mut group, "200 KB component, change to next call, compiled in a process", Some(compiler));
    }
    group.finish();
}

/// Measures from the complete write of the file to the result of the next call, which the new generation returns.
fn reload(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, compiler: Option<Compiler>) {
    let tokio = tokio();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("greet.wasm");
    let versions = ["greet_one", "greet_two"].map(|name| guests::padded(&guest(name), 200 * 1024));
    std::fs::write(&file, &versions[0]).unwrap();
    let plugins = tokio.block_on(Plugins::load_file(file.clone(), compiler));
    let mut round = 0_u32;
    group.bench_function(name, |b| {
        b.iter_custom(|n| {
            let mut spent = Duration::ZERO;
            for _ in 0..n {
                round += 1;
                // Each version is new, so that the cache has no code for it.
                let mut bytes = versions[round as usize % 2].clone();
                bytes.extend([0, 6, 1, b'n']);
                bytes.extend(round.to_le_bytes());
                let started = Instant::now();
                std::fs::write(&file, bytes).unwrap();
                let said = tokio.block_on(plugins.call("greet", json!({})));
                spent += started.elapsed();
                let expected = ["hello from version one", "hello from version two"][round as usize % 2];
                assert_eq!(said, expected);
            }
            spent
        });
    });
}

fn fuel(c: &mut Criterion) {
    let mut group = c.benchmark_group("a loop in a guest, 20 M rounds");
    group.sample_size(10);
    for (name, metering) in [("epoch", bare::Metering::Epoch), ("fuel and epoch", bare::Metering::FuelAndEpoch)] {
        let mut spin = bare::Spin::new(metering);
        group.bench_function(name, |b| b.iter(|| spin.run(20_000_000)));
    }
    group.finish();
}

criterion_group!(benches, one_call, bridged_call, loading, reloading, fuel);
criterion_main!(benches);
