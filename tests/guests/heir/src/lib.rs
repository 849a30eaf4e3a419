//! Saves and restores its state in the ways that a host must survive. A state is an attack, and for some a directory after a
//! colon.

use pinion_plugin_sdk::prelude::*;
use std::cell::RefCell;
use std::fs;

thread_local! {
    /// The next way to save the state: an attack, or the state itself.
    static STATE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// One byte more than a state may have.
const TOO_LARGE: usize = 1024 * 1024 + 1;
/// Steps that take more fuel than the calls of the tests have, and less than a load has.
const WORK: u32 = 200_000_000;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The new state.
    state: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Heir;

impl Plugin for Heir {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("inherit", "Shows the state.", |_: Nothing, _| Ok(STATE.with_borrow(Clone::clone))),
            Tool::new("bequeath", "Sets the state.", |arguments: Arguments, _| {
                STATE.set(arguments.state);
                Ok("set")
            }),
            Tool::new("reach", "Tries what saving tries.", |arguments: Arguments, _| Ok(reach(&arguments.state)))
                .writes(),
        ]
    }
}

impl State for Heir {
    fn save() -> Vec<u8> {
        let state = STATE.with_borrow(Clone::clone);
        let (attack, directory) = state.split_once(':').unwrap_or((&state, ""));
        match attack {
            "save too much" => vec![b'x'; TOO_LARGE],
            "save as much as possible" => vec![b'x'; TOO_LARGE - 1],
            "save and trap" => panic!("as planned"),
            "save forever" => spin(),
            "save after work" => {
                (0..WORK).fold(0, |sum, step| std::hint::black_box(sum ^ step));
                state.into_bytes()
            }
            "save and reach" => reach(directory).into_bytes(),
            _ => state.into_bytes(),
        }
    }

    fn restore(saved: Vec<u8>, _from_version: &str) -> Result<(), String> {
        let state = String::from_utf8(saved).map_err(|error| error.to_string())?;
        let (attack, directory) = state.split_once(':').unwrap_or((&state, ""));
        match attack {
            "restore and fail" => return Err("as planned".to_owned()),
            "restore and trap" => panic!("as planned"),
            "restore forever" => spin(),
            "restore and reach" => STATE.set(reach(directory)),
            _ => STATE.set(state),
        }
        Ok(())
    }
}

fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

/// Reads and writes a file of a directory, and returns the outcomes.
fn reach(directory: &str) -> String {
    let read = fs::read_to_string(format!("{directory}/secret.txt")).unwrap_or_else(|_| "no secret".to_owned());
    let written = fs::write(format!("{directory}/written.txt"), "x").map_or("not written", |()| "written");
    format!("{read}, {written}")
}

export!(Heir, exports = [tools, state], asks = { "files": "write" }, lifetime = "session");
