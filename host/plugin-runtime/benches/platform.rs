//! Many plugins: the cost of 1,000 that are installed, of 100 of them that are called, and of 10,000 calls at once from
//! 100 plugins against bare wasmtime with the same components in the same run. Exits with 1 if one of them misses its bound,
//! which is meant for an optimised build on a machine with nothing else to do.
//!
//! Needs the guests of the tests: `tests/build-guests.sh`. Linux only: reads `/proc/self`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "call/bare.rs"]
#[allow(dead_code, reason = "shared with the bench `call`")]
mod bare;
#[path = "call/guests.rs"]
#[allow(dead_code, reason = "shared with the bench `call`")]
mod guests;

use bare::Bare;
use futures_util::future::join_all;
use guests::{Plugins, guest, renamed};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const INSTALLED: usize = 1_000;
const USED: usize = 100;
const AT_ONCE: usize = 10_000;
/// Repetitions; only the fastest counts: everything else on the machine only adds time.
const ROUNDS: usize = 7;
/// The most that a start with all plugins may take longer than one without.
const START: Duration = Duration::from_millis(30);
/// The most megabytes that all plugins may take.
const MEMORY: f64 = 20.0;
/// The most megabytes that the calls of many plugins may leave.
const USED_MEMORY: f64 = 10.0;
/// The least part of bare wasmtime's calls in a second, in percent.
const CALLS: f64 = 75.0;
/// Calls that bare wasmtime runs at a time. More of them only wait for the two cores, and each needs a stack.
const BARE_CALLS: usize = 64;

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Kept for the next run, because compiling all of them takes minutes.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("platform");
    let (directory, cache) = (kept.join("plugins"), kept.join("cache"));
    std::fs::create_dir_all(&directory).unwrap();
    let files = renamed(&guest("greet_one"), &directory, INSTALLED);
    if std::env::args().any(|argument| argument == PREPARE) {
        // Descriptions of files that were written just now are not kept.
        std::thread::sleep(Duration::from_millis(100));
        drop(tokio.block_on(Plugins::load_files(files, &cache)));
        return;
    }
    let begun = Instant::now();
    // In a separate process, so that this process uses only the memory of a start.
    let prepared = Command::new(std::env::current_exe().unwrap()).arg(PREPARE).status().unwrap();
    assert!(prepared.success());
    println!("{INSTALLED} plugins compiled, or read from the cache, and described in {:.1?}", begun.elapsed());
    let met = [tokio.block_on(installed(&files, &cache)), tokio.block_on(at_once(&files[..USED], &cache))];
    if met.contains(&false) {
        std::process::exit(1);
    }
}

/// Says whether a bound is met.
fn bounded(what: &str, is_met: bool) -> bool {
    if !is_met {
        println!("missed: {what}");
    }
    is_met
}

fn tool(number: usize) -> String {
    format!("gr{number:03}")
}

/// The argument of the process that compiles the missing code.
const PREPARE: &str = "prepare";

/// Megabytes of the process that are its own: neither shared with others nor of a file.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e3
}

fn least(durations: impl Iterator<Item = Duration>) -> Duration {
    durations.min().unwrap()
}

async fn start(files: &[PathBuf], cache: &Path) -> (Duration, Plugins) {
    let begun = Instant::now();
    let plugins = Plugins::load_files(files.to_vec(), cache).await;
    (begun.elapsed(), plugins)
}

async fn lookup(plugins: &Plugins) -> Duration {
    let outdated = plugins.outdated();
    let begun = Instant::now();
    for _ in 0..10_000 {
        plugins.look_up(&outdated).await;
    }
    begun.elapsed() / 10_000
}

async fn installed(files: &[PathBuf], cache: &Path) -> bool {
    drop(start(&[], cache).await);
    let without = memory();
    let (_, plugins) = start(files, cache).await;
    let taken = memory() - without;
    println!("{INSTALLED} plugins take {taken:.1} MB");
    drop(plugins);
    let (mut none, mut all) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        none.push(start(&[], cache).await.0);
        all.push(start(files, cache).await.0);
    }
    let (none, all) = (least(none.into_iter()), least(all.into_iter()));
    let more = all.saturating_sub(none);
    println!("start with no plugin {none:.1?}, with {INSTALLED} {all:.1?}: {more:.1?} more");
    let alone = lookup(&start(&files[..1], cache).await.1).await;
    let (_, plugins) = start(files, cache).await;
    println!("lookup among 1: {alone:.1?}, among {INSTALLED}: {:.1?}", lookup(&plugins).await);
    // The pool keeps the memory of some instances of any plugin.
    for _ in 0..20 {
        plugins.call(&tool(0), json!({})).await;
    }
    let before = memory();
    let begun = Instant::now();
    for number in 1..=USED {
        assert_eq!(plugins.call(&tool(number), json!({})).await, "hello from version one");
    }
    let (each, more_used) = (begun.elapsed() / USED as u32, memory() - before);
    println!("{USED} of them called once: {each:.1?} each, {more_used:.1} MB more than with one called");
    let met = [
        bounded(&format!("a start with {INSTALLED} plugins takes at most {START:?} more"), more <= START),
        bounded(&format!("{INSTALLED} plugins take at most {MEMORY} MB"), taken <= MEMORY),
        bounded(&format!("{USED} called plugins take at most {USED_MEMORY} MB more"), more_used <= USED_MEMORY),
    ];
    !met.contains(&false)
}

async fn at_once(files: &[PathBuf], cache: &Path) -> bool {
    let plugins = Arc::new(start(files, cache).await.1);
    let first = Bare::new(&files[0], plugins.workspace());
    let bare: Vec<Arc<Bare>> = files.iter().map(|file| Arc::new(first.beside(file))).collect();
    let definitions = plugins.definitions();
    for definition in &definitions {
        plugins.call_of(definition).await;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        // Each is a task, as the runs of agents and the calls of bare wasmtime are.
        let calls = (0..AT_ONCE).map(|call| {
            let (plugins, definition) = (plugins.clone(), definitions[call % USED].clone());
            tokio::spawn(async move { plugins.call_of(&definition).await })
        });
        let said: Vec<String> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert!(plugins_said(&said));
        ours.push(begun.elapsed());
        let begun = Instant::now();
        let permits = Arc::new(Semaphore::new(BARE_CALLS));
        let calls = (0..AT_ONCE).map(|call| {
            let (bare, permits) = (bare[call % USED].clone(), permits.clone());
            tokio::spawn(async move {
                let _permit = permits.acquire().await.unwrap();
                bare.tool_call(&tool(call % USED), "{}").await.1
            })
        });
        let said: Vec<String> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert!(plugins_said(&said));
        theirs.push(begun.elapsed());
    }
    let per_second = |time: Duration| AT_ONCE as f64 / time.as_secs_f64();
    let (ours, theirs) = (per_second(least(ours.into_iter())), per_second(least(theirs.into_iter())));
    let percent = 100.0 * ours / theirs;
    println!("{AT_ONCE} calls at once of {USED} plugins: {ours:.0} calls/s, bare wasmtime {theirs:.0}: {percent:.0} %");
    bounded(&format!("calls at once reach {CALLS} % of bare wasmtime"), percent >= CALLS)
}

fn plugins_said(texts: &[String]) -> bool {
    texts.len() == AT_ONCE && texts.iter().all(|text| text == "hello from version one")
}
