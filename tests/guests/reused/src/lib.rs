//! Counts the calls of each instance, and leaves behind the traces that its arguments name.

use pinion_plugin_sdk::prelude::*;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::time::Duration;

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static LEFT: RefCell<(Vec<File>, Vec<Vec<u8>>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Trap instead of returning.
    #[serde(default)]
    trap: bool,
    /// Compute until the fuel or the time is over.
    #[serde(default)]
    spin: bool,
    /// Return an error.
    #[serde(default)]
    fail: bool,
    /// Wait until this file exists.
    #[serde(default)]
    wait: Option<String>,
    /// Leave this many files open.
    #[serde(default)]
    files: u32,
    /// Leave this many bytes of memory allocated.
    #[serde(default)]
    bytes: usize,
    /// Return an error if this many bytes of memory are refused.
    #[serde(default)]
    want: usize,
}

struct Reused;

impl Plugin for Reused {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("visit", "Counts the calls of its instance.", visit).reads(),
            Tool::new("visit_to_write", "Counts the calls of its instance.", visit).writes(),
        ]
    }

    fn commands() -> Vec<Command> {
        let count = |typed: &str, _: &Call| {
            COUNT.set(COUNT.get() + 1);
            want(typed.parse().unwrap_or(0))?;
            Ok(vec![Action::Print(COUNT.get().to_string())])
        };
        vec![Command::new("visits", "Counts the calls of its instance", count)]
    }
}

/// Asks for memory, and returns it.
fn want(bytes: usize) -> Result<(), String> {
    Vec::<u8>::new().try_reserve_exact(std::hint::black_box(bytes)).map_err(|_| "no room".to_owned())
}

fn visit(arguments: Arguments, call: &Call) -> Result<String> {
    COUNT.set(COUNT.get() + 1);
    LEFT.with_borrow_mut(|(files, memory)| {
        files.extend((0..arguments.files).map(|_| File::open("kept").expect("a file to open")));
        memory.extend((arguments.bytes > 0).then(|| vec![1; arguments.bytes]));
    });
    want(arguments.want).map_err(Error::failed)?;
    call.progress("here");
    while arguments.wait.as_ref().is_some_and(|file| File::open(file).is_err()) {
        std::thread::sleep(Duration::from_millis(2));
    }
    while std::hint::black_box(arguments.spin) {}
    assert!(!arguments.trap, "told to");
    match arguments.fail {
        true => Err(Error::failed(format!("visit {}", COUNT.get()))),
        false => Ok(COUNT.get().to_string()),
    }
}

export!(Reused, exports = [tools, commands], asks = { "files": "write" }, lifetime = "reused");
