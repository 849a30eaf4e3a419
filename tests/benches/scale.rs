//! Cost of many agents and long runs for the whole process, with real components: a hundred concurrent agents with ten
//! calls each, and a thousand turns of one agent whose context is compacted repeatedly.
//!
//! Run `tests/build-guests.sh`, then `cargo bench -p pinion-tests --bench scale`. Fails if the process holds over a
//! tenth more memory after 1,000 turns than after 100. Linux only: reads `/proc/self`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use futures_util::future::BoxFuture;
use pinion_agent::compaction::CompactionPolicy;
use pinion_agent::hooks::Flow;
use pinion_agent::outcome::Limit;
use pinion_agent::{Context, Hooks, Message, RunEnd, Usage};
use pinion_tests::{EchoModel, Sandbox};
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const AGENTS: usize = 100;
const CALLS: usize = 10;
/// Number of times the hundred agents are started.
const ROUNDS: usize = 20;
const TURNS: usize = 1_000;
/// The turn whose memory is compared with the last turn's.
const EARLY_TURN: usize = 100;
/// Context window in tokens; about twenty turns fill it.
const WINDOW: u64 = 8_000;
/// Maximum ratio of memory after the last turn to memory after the early turn.
const MAX_GROWTH: f64 = 1.10;

/// A variant of the long run.
struct Way {
    what: &'static str,
    turns_a_run: usize,
    by_model: bool,
}

fn main() -> ExitCode {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let is_bounded = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let sandbox = Sandbox::with(&["echo"]).await;
        println!("the process, with `echo` loaded: {:.1} MB", rss());
        let mut growth: f64 = 0.0;
        for way in [
            Way { what: "in one run, compacted to a list", turns_a_run: TURNS, by_model: false },
            Way { what: "in one run, compacted by the model", turns_a_run: TURNS, by_model: true },
            Way { what: "in twenty runs, compacted to a list", turns_a_run: TURNS / 20, by_model: false },
        ] {
            growth = growth.max(turns(&sandbox, way).await);
        }
        agents(&sandbox).await;
        growth <= MAX_GROWTH
    });
    if is_bounded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a hundred concurrent agents, several times.
async fn agents(sandbox: &Sandbox) {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = rss();
    let mut best = Duration::MAX;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let round = Instant::now();
        let mut running = JoinSet::new();
        for number in 0..AGENTS {
            let agent = EchoModel::new(format!("agent-{number}"), 1, CALLS).agent(sandbox.runtime.clone(), |_| {});
            running.spawn(async move {
                let end = agent.run(vec![Message::user("Go.")]).await.unwrap().end;
                assert!(matches!(end, RunEnd::Done { .. }), "{end:?}");
            });
        }
        running.join_all().await;
        best = best.min(round.elapsed());
    }
    let mean = begun.elapsed() / ROUNDS as u32;
    println!("\n{AGENTS} agents with {CALLS} calls each at once, {ROUNDS} times");
    println!("  time               {:>8.1} ms, best {:.1} ms", milliseconds(mean), milliseconds(best));
    println!("  calls              {:>8.0} /s", (AGENTS * CALLS) as f64 / mean.as_secs_f64());
    println!("  memory             {before:>8.1} MB before, {:.1} MB at its peak, {:.1} MB after", peak(), rss());
}

/// Runs a thousand turns of one agent; returns the ratio of memory after the last turn to an early one.
async fn turns(sandbox: &Sandbox, way: Way) -> f64 {
    let model = EchoModel::new("long", TURNS, 1);
    let sampler = Arc::new(Sampler::default());
    let agent = model.agent(sandbox.runtime.clone(), |config| {
        config.policy.model = EchoModel::with_window(Some(WINDOW));
        config.policy.compaction = CompactionPolicy { by_model: way.by_model, ..CompactionPolicy::default() };
        config.policy.limits.max_turns = u32::try_from(way.turns_a_run).ok();
        config.ports.hooks = vec![sampler.clone()];
    });
    let begun = Instant::now();
    for _ in 0..TURNS / way.turns_a_run {
        let end = agent.run(vec![Message::user("Go on.")]).await.unwrap().end;
        assert!(matches!(end, RunEnd::Limit { limit: Limit::Turns(_) }), "{end:?}");
    }
    let time = begun.elapsed();
    let (early, late) = (sampler.megabytes(&sampler.early), sampler.megabytes(&sampler.late));
    println!("\n{TURNS} turns of one agent in a window of {WINDOW} tokens, {}", way.what);
    println!("  time               {:>8.1} ms", milliseconds(time));
    println!("  calls              {:>8.0} /s", TURNS as f64 / time.as_secs_f64());
    println!("  longest request    {:>8} tokens", model.most_tokens());
    println!("  memory             {early:>8.1} MB after turn {EARLY_TURN}, {late:.1} MB after turn {TURNS}");
    late / early
}

/// Samples memory after two turns.
#[derive(Default)]
struct Sampler {
    turns: AtomicUsize,
    early: AtomicU64,
    late: AtomicU64,
}

impl Sampler {
    fn megabytes(&self, sample: &AtomicU64) -> f64 {
        f64::from_bits(sample.load(Ordering::Relaxed))
    }
}

impl Hooks for Sampler {
    fn after_turn<'a>(&'a self, _: &'a Context, _: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        match self.turns.fetch_add(1, Ordering::Relaxed) + 1 {
            EARLY_TURN => self.early.store(rss().to_bits(), Ordering::Relaxed),
            TURNS => self.late.store(rss().to_bits(), Ordering::Relaxed),
            _ => {}
        }
        Box::pin(async { Flow::Continue })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the resident memory of the process in MB.
fn rss() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as f64 / 1e6
}

/// Returns the peak resident memory since the last reset, in MB.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}
