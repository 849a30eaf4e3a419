//! Memory of a process that connects to servers again and again, and does nothing else.

use std::process::Command;

use crate::fake::{Bench, Log, NAME, text, tools, until};
use crate::http::{Web, ask, config, proper, servers};

const ALONE: &str = "PINION_MCP_ALONE";
/// Connections before those that count: pools and allocators keep memory that they needed once.
const WARM_UP: usize = 300;
const PROGRAMS: usize = 1_000;
/// Less than with programs, because each connects several times over the loopback.
const WEB_SERVERS: usize = 500;

/// A kilobyte that is kept for each connection is more than is allowed.
#[test]
fn memory_does_not_grow_with_connections() {
    for (name, count) in [("memory::alone_with_programs", PROGRAMS), ("memory::alone_with_web_servers", WEB_SERVERS)] {
        let program = std::env::current_exe().unwrap();
        let alone = ["--exact", name, "--nocapture", "--test-threads=1"];
        let output = Command::new(program).args(alone).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let grown = said.split("grew by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        assert!(
            grown.is_some_and(|grown| grown < count * 9 / 10),
            "{name}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn alone_with_programs() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let bench = Bench::new(|_, mut io| async move {
        while let Some(request) = io.connect(&tools()).await {
            io.reply(&request, text("fine")).await;
        }
    });
    let connect = async || {
        bench.servers.set_enabled(NAME, true).unwrap();
        bench.call("echo").await.unwrap();
        bench.servers.set_enabled(NAME, false).unwrap();
        until(|| bench.alive() == 0).await;
    };
    measure(PROGRAMS, bench.log(), connect).await;
}

#[tokio::test]
async fn alone_with_web_servers() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let web = Web::new(|_, got| proper(&got)).await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    let connect = async || {
        servers.set_enabled(NAME, true).unwrap();
        ask(&servers).await.unwrap();
        servers.set_enabled(NAME, false).unwrap();
    };
    measure(WEB_SERVERS, &web.log, connect).await;
}

/// Connects again and again, and prints how much the memory of the process grew.
#[allow(clippy::print_stdout, reason = "the other process reads it")]
async fn measure(count: usize, log: &Log, connect: impl AsyncFn()) {
    let mut before = 0;
    for number in 0..WARM_UP + count {
        if number == WARM_UP {
            before = resident();
        }
        connect().await;
        log.clear();
    }
    println!("grew by {} KiB", resident().saturating_sub(before));
}

/// Returns the resident memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
