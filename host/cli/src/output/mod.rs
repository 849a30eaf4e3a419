//! All output to stdout and stderr.
//!
//! Only this module writes to them; a test of the architecture enforces this. Output consists of [`Text`], where
//! everything that is not a literal of this program is neutralized and bounded. Raw bytes, such as a model's answer, go
//! only to stdout, and only while it is not a terminal. Secrets are redacted in all of it.

mod prose;
mod report;
mod screen;
mod streamed_text;
mod streams;
pub(crate) mod terminal;

pub(crate) use self::prose::{Prose, page, rows};
pub(crate) use self::report::{report, report_result, report_usage};
pub(crate) use self::screen::TerminalScreen;
pub(crate) use self::streamed_text::{Flow, indented};
pub(crate) use self::streams::{
    Attention, CleanWriter, Log, Sink, StandardError, Stdout, answer, document, has_left, json, keep_out, note,
    patch_writer, print, print_line, report_panics, result, result_if_none, showing, stdout_failure, usage,
    write_piece, written,
};
pub(crate) use self::terminal::size;
pub(crate) use pinion_app::output::{
    PartExt, Text, age, break_words, bytes, count, fit, left, line, row, shell_word, short, split_at_width, text,
    width, wrapped,
};
