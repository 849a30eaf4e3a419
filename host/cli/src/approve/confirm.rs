//! Yes-or-no questions on the terminal.

use crate::approve::{Key, Keys};
use crate::output::{Attention, Text, text};
use std::io;
use tokio_util::sync::CancellationToken;

/// Asks a question and blocks until a key answers it. Only `y` means yes, and only if it is pressed alone and after the
/// question has been visible for a moment. `n`, Esc and Ctrl-C mean no; other keys are ignored.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) fn confirm(question: &Text) -> io::Result<bool> {
    let mut screen = Attention::take();
    let never = CancellationToken::new();
    let mut keys = Keys::open(&never)?;
    screen.write(question)?;
    let mut has_choice = false;
    let is_yes = loop {
        if keys.settle()?.is_some() {
            break false;
        }
        if !std::mem::replace(&mut has_choice, true) {
            screen.write(&text!(" [y] yes   [n] no  "))?;
        }
        match keys.next()? {
            Key::Yes => break true,
            Key::No | Key::Interrupt => break false,
            _ => {}
        }
    };
    screen.write(&text!("{}\n", if is_yes { "yes" } else { "no" }))?;
    Ok(is_yes)
}
