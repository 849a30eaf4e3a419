//! Tests of the UI as a whole: inputs in, screens and requests out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod agents;
mod branches;
mod calls;
mod code;
mod commands;
mod completion;
mod dialogs;
mod history;
mod hostile;
mod inline;
mod lists;
mod mouse;
mod places;
mod plan;
mod queue;
mod quitting;
mod random;
mod search;
mod setup;
mod states;
mod status;
mod terminal;
mod ui;
mod vi;
mod work;
mod wrapping;
