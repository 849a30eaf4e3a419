//! Tests of the client against local servers, with a network whose names and addresses are set by the test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy allows them in tests, but not in what tests share")]

mod attacks;
mod credentials;
mod inspection;
mod limits;
mod proxy;
mod requests;
mod sent;
mod support;
