//! The user's words for the model when a call is denied.

use super::dialog::tail;
use super::question::host_rows;
use super::{RawKeyboard, Typed};
use crate::output::{Attention, text};
use std::io;

/// Maximum bytes of the words.
const MAX_TYPED: usize = 4_000;

/// Reads the words; `None` if the user returns to the question.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn read_refusal(
    screen: &mut Attention,
    keys: &mut RawKeyboard<'_>,
    columns: usize,
) -> io::Result<Option<String>> {
    let mut line = String::new();
    loop {
        let mut foot = host_rows("  ", "no, and tell the model why: text and enter   [esc] back", columns);
        foot.push(text!("  › {}", tail(&line, columns.saturating_sub(8))));
        foot.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        let typed = keys.typed()?;
        match typed {
            Typed::Enter if !line.trim().is_empty() => return Ok(Some(line)),
            Typed::Character(c) if line.len() < MAX_TYPED => line.push(c),
            Typed::Pasted(pasted) => line.extend(pasted.chars().take(MAX_TYPED.saturating_sub(line.len()))),
            Typed::Backspace => drop(line.pop()),
            // An empty refusal, an interruption and a late answer are decided on by the question itself.
            Typed::Enter | Typed::Escape | Typed::Interrupt | Typed::Late => {
                screen.clear_above(foot.len())?;
                return Ok(None);
            }
            _ => {}
        }
        screen.clear_above(foot.len())?;
    }
}
