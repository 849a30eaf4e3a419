//! Leaves a mark in memory and looks for marks that other calls left.

use core::arch::wasm32;
use pinion_plugin_sdk::prelude::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 65_536;

static SEEN: AtomicU64 = AtomicU64::new(0);

#[derive(Deserialize, JsonSchema)]
struct Pages {
    pages: usize,
}

/// Computed at run time, so that the mark is not in the code or its data.
fn mark() -> u64 {
    black_box(0x1234_5678_u64).wrapping_mul(black_box(0x9e37_79b9_7f4a_7c15))
}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "leave_traces",
            "Fills that many pages, sets a static, and counts what it finds then.",
            |a: Pages, _| {
                let words = black_box(vec![mark(); a.pages * PAGE / 8]);
                SEEN.store(mark(), Ordering::Relaxed);
                let found = found();
                drop(words);
                Ok(found.to_string())
            },
        ),
        Tool::new("find_traces", "Counts what it finds in its memory, grown by that many pages.", |a: Pages, _| {
            wasm32::memory_grow(0, a.pages);
            Ok(found().to_string())
        }),
    ]
}

/// Returns how often the mark occurs in memory beyond the first page.
fn found() -> usize {
    let bytes = wasm32::memory_size(0) * PAGE;
    let words = (PAGE..bytes).step_by(8).filter(|at| read(*at) == mark()).count();
    words + usize::from(SEEN.load(Ordering::Relaxed) == mark())
}

/// Reads a word at any address of the linear memory.
#[allow(unsafe_code, reason = "an attack on what the instance before it left")]
fn read(at: usize) -> u64 {
    // SAFETY: the callers stay below the size of the memory, which can all be read.
    unsafe { (at as *const u64).read_volatile() }
}
