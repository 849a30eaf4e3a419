//! Tests of packages, as a table of attacks and of ordinary use. No test opens a connection or runs a component.

mod archives;
mod formats;
mod signing;
mod storing;
mod support;
