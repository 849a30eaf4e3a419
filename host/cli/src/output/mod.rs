//! Everything that this program writes to stdout and stderr.
//!
//! No other module writes to them; a test of the architecture enforces this. What is written is a [`Text`], in which
//! everything that is not a literal of this program is neutralized and bounded. Raw bytes, such as the answer of a model,
//! go to stdout alone, and only while it is not a terminal. Secrets are redacted in all of it.

mod clean;
mod flow;
mod numbers;
mod report;
mod streams;
pub(crate) mod terminal;
mod text;

pub(crate) use self::clean::CleanWriter;
pub(crate) use self::flow::{Flow, indented};
pub(crate) use self::numbers::{bytes, short};
pub(crate) use self::report::report;
pub(crate) use self::streams::{
    Attention, Log, Sink, Stderr, Stdout, answer, document, json, keep_out, note, print, report_panics, say,
    stdout_failure, usage,
};
pub(crate) use self::terminal::size;
pub(crate) use self::text::{Part, PartExt, Text, fit, left, line, row, split_at_width, text, width};
