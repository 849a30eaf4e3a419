//! The helper that `pinion` starts for every program: it confines itself and becomes the program. It does nothing else, so
//! that it starts quickly. Not meant to be run by hand.

#![allow(clippy::print_stderr, reason = "the parent reads it as the error of the program")]

use pinion_agent::text::printable;
use std::process::ExitCode;

fn main() -> ExitCode {
    pinion_sandbox::run_for_parent(std::env::args_os().skip(1), |message| {
        eprintln!("{}", printable(message));
    })
}
