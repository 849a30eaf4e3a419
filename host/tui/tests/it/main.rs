//! Tests of the UI as a whole: inputs in, screens and requests out.

mod random;
mod screens;
mod states;
mod terminal;
mod ui;
mod work;
