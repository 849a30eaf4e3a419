//! Tests of the public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy allows them in tests, but not in what tests share")]

mod byte_pairs;
mod calibration;
mod causes;
mod requests;
mod session_costs;
