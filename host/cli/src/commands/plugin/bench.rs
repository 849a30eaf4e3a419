//! `pinion plugin bench`: the time and resources of many calls of one tool.

use crate::commands::plugin::call::{self, LoadedForCalls};
use pinion_agent::Content;
use pinion_agent::ToolExecutor as _;
use pinion_agent::tool::{ToolInvocation, ToolProgress};
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::output::{bytes, json, print, short, text, written};
use pinion_plugin_runtime::Runtime;
use serde::Serialize;
use std::time::Instant;

/// The calls to measure.
pub(crate) struct Bench<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a str,
    pub(crate) more: &'a call::More,
    /// At least 1.
    pub(crate) calls: usize,
}

/// The resources of one call, in microseconds, fuel, bytes and calls.
#[derive(Debug, Clone, Copy, Serialize)]
struct Sample {
    time_us: u64,
    fuel: u64,
    memory: u64,
    host_calls: u64,
}

/// Percentiles of the samples. Each number has its own percentile.
#[derive(Debug, Serialize)]
struct BenchReport {
    plugin: String,
    tool: String,
    calls: usize,
    /// From starting to load the plugin until it was ready.
    load_us: u64,
    /// The first call, which loads the code if the description came from the cache.
    first: Sample,
    p50: Sample,
    p95: Sample,
    max: Sample,
}

pub(crate) async fn run(base: &Base, bench: Bench<'_>, as_json: bool) -> Result<()> {
    let arguments = call::parse(bench.arguments)?;
    let started = Instant::now();
    let LoadedForCalls { runtime, info, _file } = call::load(base, bench.plugin, bench.more).await?;
    let load_us = micros(started);
    // The description may come from the cache; the first call then loads the code, and the tool may be another one.
    let first = one(&runtime, call::prepare(&runtime, &info, bench.tool, arguments.clone()).await?).await?;
    let prepared = call::prepare(&runtime, &info, bench.tool, arguments).await?;
    let mut samples = Vec::with_capacity(bench.calls);
    for _ in 0..bench.calls.max(1) {
        samples.push(one(&runtime, prepared.clone()).await?);
    }
    let report = BenchReport {
        plugin: info.name.clone(),
        tool: bench.tool.to_owned(),
        calls: samples.len(),
        load_us,
        first,
        p50: percentile(&samples, 50),
        p95: percentile(&samples, 95),
        max: percentile(&samples, 100),
    };
    if as_json {
        return written(json(&report));
    }
    let mut text =
        text!("{} {}, {} calls, loaded in {} ms\n", report.plugin, report.tool, report.calls, load_us / 1000);
    for (name, sample) in [("first", report.first), ("p50", report.p50), ("p95", report.p95), ("max", report.max)] {
        let ms = format!("{}.{:03}", sample.time_us / 1000, sample.time_us % 1000);
        let (fuel, host_calls) = (short(sample.fuel), sample.host_calls);
        let name = pinion_console::output::left(name, 6);
        text.line(text!("  {} {} ms, {} fuel, {}, {} host calls", name, ms, fuel, bytes(sample.memory), host_calls));
    }
    print(&text)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Measures one call.
///
/// # Errors
/// The call fails: times of failing calls would mislead.
async fn one(runtime: &Runtime, call: ToolInvocation) -> Result<Sample> {
    let started = Instant::now();
    let reply = runtime.call(call, &SilentReporter).await;
    let time_us = micros(started);
    reply.result.map_err(|error| Failure::failed("a call failed").because(error))?;
    let ledger = reply.ledger.unwrap_or_default();
    Ok(Sample { time_us, fuel: ledger.fuel, memory: ledger.memory, host_calls: ledger.host_calls })
}

/// Returns the smallest values that are at least as large as `percent` of all.
fn percentile(samples: &[Sample], percent: usize) -> Sample {
    let of = |value: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = samples.iter().map(value).collect();
        values.sort_unstable();
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or_default()
    };
    Sample {
        time_us: of(|sample| sample.time_us),
        fuel: of(|sample| sample.fuel),
        memory: of(|sample| sample.memory),
        host_calls: of(|sample| sample.host_calls),
    }
}

struct SilentReporter;

impl ToolProgress for SilentReporter {
    fn report(&self, _message: String) {}

    fn update(&self, _partial: Vec<Content>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let sample = |time_us| Sample { time_us, fuel: 100 - time_us, memory: 0, host_calls: 0 };
        let samples: Vec<Sample> = (1..=20).map(sample).collect();
        let of = |percent| percentile(&samples, percent);
        assert_eq!((of(50).time_us, of(95).time_us, of(100).time_us), (10, 19, 20));
        assert_eq!((of(50).fuel, of(100).fuel), (89, 99));
        assert_eq!(percentile(&samples[..1], 95).time_us, 1);
    }
}
