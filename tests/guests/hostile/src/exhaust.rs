//! Exhausts time, memory, stack, output and handles.

use pinion_plugin_sdk::bindings::imports::pinion::plugin::progress;
use pinion_plugin_sdk::prelude::*;
use std::fs;
use std::hint::black_box;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Amount {
    amount: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new("spin", "Never ends.", |_: Nothing, _| -> Result<String, Error> {
            let mut n = 0_u64;
            loop {
                n = black_box(n.wrapping_add(1));
            }
        }),
        Tool::new("sleep", "Sleeps for that many milliseconds.", |a: Amount, _| {
            // The purpose of the tool: a call that hangs.
            std::thread::sleep(std::time::Duration::from_millis(a.amount));
            Ok("slept")
        }),
        Tool::new("wait_for_cancellation", "Ends when it is cancelled.", |_: Nothing, call: &Call| {
            call.progress("waiting");
            while !call.cancelled() {}
            Ok("cancelled, and took note of it")
        }),
        Tool::new("eat_memory", "Allocates that many bytes.", |a: Amount, _| {
            let mut held = Vec::new();
            let mut left = a.amount as usize;
            while left > 0 {
                let size = left.min(1 << 20);
                held.push(black_box(vec![1_u8; size]));
                left -= size;
            }
            Ok(format!("{} pieces", held.len()))
        }),
        Tool::new("want_memory", "Returns an error if that many bytes are refused.", |a: Amount, _| {
            let mut wanted = Vec::<u8>::new();
            let got = wanted.try_reserve_exact(a.amount as usize);
            got.map_err(|_| Error::failed("no room"))?;
            Ok(black_box(wanted).capacity().to_string())
        }),
        Tool::new("recurse", "Calls itself that many times.", |a: Amount, _| Ok(recurse(a.amount).to_string())),
        Tool::new("talk", "Says that many bytes.", |a: Amount, _| Ok("x".repeat(a.amount as usize))),
        Tool::new("report", "Reports that many bytes of progress, a thousand at a time.", |a: Amount, call: &Call| {
            for _ in 0..a.amount / 1000 {
                call.progress(&"x".repeat(1000));
            }
            Ok("reported")
        }),
        Tool::new("alias", "Says the same megabyte that many times, without holding it more than once.", alias),
        Tool::new("knock", "Calls the host that many times.", |a: Amount, call: &Call| {
            let cancelled = (0..a.amount).filter(|_| call.cancelled()).count();
            Ok(cancelled.to_string())
        }),
        Tool::new("hold", "Opens a file that many times, and closes none.", |a: Amount, _| {
            let held: Result<Vec<_>, _> = (0..a.amount).map(|_| fs::File::open("held.txt")).collect();
            Ok(held?.len().to_string())
        })
        .reads(),
        Tool::new("open", "Opens a file, as it is.", |a: Path, _| {
            fs::File::open(a.path)?;
            Ok("opened")
        })
        .reads(),
        Tool::new("panic", "Panics.", |_: Nothing, _| Ok(give_up())),
        Tool::new("exit", "Exits.", |_: Nothing, _| -> Result<String, Error> { std::process::exit(3) }),
        Tool::new("divide", "Traps.", |_: Nothing, _| -> Result<String, Error> { core::arch::wasm32::unreachable() }),
    ]
}

#[allow(unconditional_recursion, reason = "it is the attack")]
fn recurse(depth: u64) -> u64 {
    if depth == 0 { 0 } else { black_box(recurse(depth - 1)) + 1 }
}

/// Returns a list of many strings that share one piece of memory: free for the guest, but a copy each for a host that
/// does not count.
fn alias(a: Amount, _call: &Call) -> Result<String, Error> {
    let piece = "y".repeat(1 << 20);
    let parts: Vec<progress::Content> = (0..a.amount)
        .map(|_| {
            // Never freed twice: the vector is forgotten below.
            let shared = unsafe { String::from_raw_parts(piece.as_ptr().cast_mut(), piece.len(), piece.len()) };
            progress::Content::Text(shared)
        })
        .collect();
    progress::update(&parts);
    std::mem::forget(parts);
    Ok("aliased".to_owned())
}

/// Not inlined, so that it is in the backtrace.
#[inline(never)]
fn give_up() -> String {
    panic!("as planned")
}
