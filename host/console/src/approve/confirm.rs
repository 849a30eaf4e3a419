//! Yes-or-no questions on the terminal.

use crate::approve::{AnswerKey, DEFAULT_SIZE, RawKeyboard, question};
use crate::output::terminal::{Style, size};
use crate::output::{Attention, Text, text, wrapped};
use std::io;
use tokio_util::sync::CancellationToken;

/// Asks a question and blocks until a key answers it. Only `y` means yes, and only if it is pressed alone and after the
/// question has been visible for a moment. `n`, Esc and Ctrl-C mean no; other keys are ignored.
///
/// # Errors
/// The terminal cannot be used.
pub fn confirm(question: &Text) -> io::Result<bool> {
    let mut screen = Attention::take_terminal();
    let never = CancellationToken::new();
    let mut keys = RawKeyboard::open(&never)?;
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
            AnswerKey::Yes => break true,
            AnswerKey::No | AnswerKey::Interrupt => break false,
            _ => {}
        }
    };
    screen.write(&text!("{}\n", if is_yes { "yes" } else { "no" }))?;
    Ok(is_yes)
}

/// Shows a list page by page and asks a question about it. Blocks until a key answers it. Only `y` means yes, as for
/// [`confirm`], and only after all of the list was visible.
///
/// # Errors
/// The terminal cannot be used.
pub fn confirm_all(list: &str, question: &str) -> io::Result<bool> {
    let mut screen = Attention::take_terminal();
    let never = CancellationToken::new();
    let mut keys = RawKeyboard::open(&never)?;
    let ((columns, lines), style) = (size().unwrap_or(DEFAULT_SIZE), Style::of_stdout());
    let rows: Vec<Text> = list.lines().flat_map(|line| rows(line, columns)).collect();
    let asked: Vec<Text> = rows_of_question(question, columns);
    let (mut shown, mut next, mut hint) = (0_usize, lines.saturating_sub(3).max(3), None);
    loop {
        let end = rows.len().min(shown.saturating_add(next));
        rows[shown..end].iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        shown = end;
        let is_all = shown == rows.len();
        if keys.settle()?.is_some() {
            return Ok(false);
        }
        let mut foot = if is_all { asked.clone() } else { question::more(shown, rows.len(), style, columns) };
        foot.extend(hint.map(|hint| question::hint(hint, style, columns)).into_iter().flatten());
        foot.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        let key = keys.next()?;
        (next, hint) = match key {
            AnswerKey::More if !is_all => (lines.saturating_sub(3).max(3), None),
            AnswerKey::Rest if !is_all => (usize::MAX, None),
            AnswerKey::Yes if !is_all => (0, Some("read to the end before answering yes")),
            AnswerKey::Burst => (0, Some("several keys at once: press a single one")),
            AnswerKey::Yes | AnswerKey::No | AnswerKey::Interrupt => {
                let is_yes = key == AnswerKey::Yes;
                screen.write(&text!("  {}\n", if is_yes { "yes" } else { "no" }))?;
                return Ok(is_yes);
            }
            _ if is_all => (0, Some("press y or n")),
            _ => (0, Some("press space, ↓, End or n")),
        };
        screen.clear_above(foot.len())?;
    }
}

fn rows_of_question(question: &str, columns: usize) -> Vec<Text> {
    [question, "  [y] yes   [n] no"].into_iter().flat_map(|line| rows(line, columns)).collect()
}

/// Wraps a line; rows after the first are indented more.
fn rows(line: &str, columns: usize) -> Vec<Text> {
    let text = line.trim_start();
    let indent = (line.len() - text.len()).min(columns / 2);
    let first = wrapped(text, columns.saturating_sub(indent + 2));
    let row = |(at, part): (usize, &&str)| {
        let blanks = " ".repeat(if at == 0 { indent } else { indent + 2 });
        text!("{}{}", blanks, *part)
    };
    first.iter().enumerate().map(row).collect()
}
