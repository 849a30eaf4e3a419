//! The console of the `pinion` command: the parts that every command and every conversation needs of the process and
//! its terminal.
//!
//! [`args`] declares the options of a run, and [`invocation`] loads the parts of the application that a command asks for.
//! [`output`] is the only code that writes to stdout and stderr. [`approve`] asks the user on the terminal, and [`process`]
//! receives signals. The crate knows no single command and runs no agent.

pub mod approve;
pub mod args;
pub mod invocation;

/// The process of the command: its streams at the start, its signals and its log.
pub mod process {
    pub mod closed_stdout;
    pub mod logging;
    pub mod signals;
}

/// All output to stdout and stderr.
///
/// Only this module writes to them; a test of the architecture enforces this. Output consists of [`output::Text`], where
/// everything that is not a literal of this program is neutralized and bounded. Raw bytes, such as a model's answer, go
/// only to stdout, and only while it is not a terminal. Secrets are redacted in all of it.
pub mod output {
    mod prose;
    mod report;
    mod screen;
    mod streamed_text;
    mod streams;
    pub mod terminal;

    pub use self::prose::{Prose, page, rows};
    pub use self::report::{report, report_result, report_usage};
    pub use self::screen::{TerminalScreen, open_browser};
    pub use self::streamed_text::{Flow, indented};
    pub use self::streams::{
        Attention, CleanWriter, Log, Sink, StandardError, Stdout, answer, document, errors_of_program, has_left, json,
        keep_out, note, patch_writer, print, print_line, report_panics, result, result_if_none, showing,
        stdout_failure, usage, write_piece, written,
    };
    pub use self::terminal::size;
    pub use pinion_app::output::{
        PartExt, Text, age, break_words, bytes, count, fit, left, line, row, shell_word, short, split_at_width, text,
        tokens, width, wrapped,
    };
}
