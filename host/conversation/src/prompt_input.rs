//! The prompt of a non-interactive run: the arguments, followed by stdin if that is piped.

use pinion_app::failure::{Failure, MORE_THREADS, Result};
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::{note, text};
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Read as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Maximum bytes of stdin, more than any model accepts.
const MAX_STDIN_BYTES: u64 = 16 * 1024 * 1024;
/// Time before a notice says that the run waits for stdin. A program that starts this one may leave a pipe open without
/// ever writing to it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Joins the prompt of the command line and the text on stdin, which is read to its end.
///
/// # Errors
/// Both are empty, or stdin is too long or cannot be read.
pub(crate) fn prompt(args: &RunArgs, global: &GlobalArgs) -> Result<String> {
    read_prompt(args, global)?.ok_or_else(no_prompt)
}

pub(crate) fn no_prompt() -> Failure {
    Failure::usage("no prompt").hint("use `pinion -p \"TASK\"`, or pipe the task to stdin")
}

/// Like [`prompt`]; returns `None` if both are empty.
pub(crate) fn read_prompt(args: &RunArgs, global: &GlobalArgs) -> Result<Option<String>> {
    let mut prompt = args.prompt.join(" ");
    if !io::stdin().is_terminal() {
        let bytes = read(global.quiet)?;
        if bytes.len() as u64 > MAX_STDIN_BYTES {
            return Err(Failure::usage(format!("stdin is longer than {MAX_STDIN_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, Cow::Owned(_)) && !global.quiet {
            note(&text!("! stdin is not UTF-8 text; its invalid bytes are replaced by `{}`", "\u{fffd}"));
        }
        if !text.trim().is_empty() {
            if !prompt.is_empty() {
                prompt.push_str("\n\n");
            }
            prompt.push_str(text.trim_end());
        }
    }
    Ok(Some(prompt).filter(|prompt| !prompt.trim().is_empty()))
}

/// Returns the part of a prompt that may name pictures: the arguments, or stdin if there are none.
pub(crate) fn naming_text(args: &RunArgs, prompt: &str) -> String {
    match args.prompt.join(" ") {
        arguments if arguments.trim().is_empty() => prompt.to_owned(),
        arguments => arguments,
    }
}

/// Reads stdin on a separate thread, so that a long wait can be reported.
fn read(is_quiet: bool) -> Result<Vec<u8>> {
    let failed = |error: io::Error| Failure::usage("could not read stdin").because(error);
    let (sender, receiver) = mpsc::channel();
    let reading = move || {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MAX_STDIN_BYTES + 1).read_to_end(&mut bytes);
        // The receiver waits for it.
        let _ = sender.send(read.map(|_| bytes));
    };
    thread::Builder::new()
        .name("pinion-stdin".to_owned())
        .spawn(reading)
        .map_err(|error| Failure::failed("could not start a thread").because(error).hint(MORE_THREADS))?;
    let read = match receiver.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => {
            if !is_quiet {
                note(&text!("! waiting for the end of stdin (use `< /dev/null` if it adds nothing to the prompt)"));
            }
            receiver.recv().ok()
        }
        received => received.ok(),
    };
    read.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into())).map_err(failed)
}
