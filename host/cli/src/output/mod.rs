//! All output to stdout and stderr.
//!
//! No other module writes to them; a test of the architecture enforces this. Output consists of [`Text`], in which
//! everything that is not a literal of this program is neutralized and bounded. Raw bytes, such as a model's answer, go
//! only to stdout, and only while it is not a terminal. Secrets are redacted in all of it.

mod clean;
mod command;
mod flow;
mod numbers;
mod prose;
mod report;
mod showing;
mod streams;
pub(crate) mod terminal;
mod text;

pub(crate) use self::clean::CleanWriter;
pub(crate) use self::command::{shell_command, shell_word};
pub(crate) use self::flow::{Flow, indented};
pub(crate) use self::numbers::{age, bytes, short};
pub(crate) use self::prose::{Prose, page, rows};
pub(crate) use self::report::{report, report_result, report_usage};
pub(crate) use self::showing::showing;
pub(crate) use self::streams::{
    Attention, Log, Sink, Stderr, Stdout, answer, document, has_left, json, keep_out, note, piece, print,
    report_panics, result, result_if_none, say, stdout_failure, usage, written,
};
pub(crate) use self::terminal::size;
pub(crate) use self::text::{
    Part, PartExt, Text, break_words, fit, left, line, row, split_at_width, text, width, wrapped,
};
pub(crate) use pinion_agent::text::count;
