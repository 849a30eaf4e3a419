//! Dialogs of plugins on the terminal, line by line.
//!
//! Like an approval: the host words the frame, the plugin's text stands behind a bar with nothing hidden, and only keys
//! count that were pressed after all of it was visible for a moment.

use crate::approve::question::{guest_rows, hint, host_rows, more};
use crate::approve::{DEFAULT_SIZE, RawKeyboard, Typed};
use crate::output::terminal::Style;
use crate::output::{Attention, Text, row, size, split_at_width, text};
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogKind, asker};
use pinion_agent::text::{exposed, one_line};
use std::io;
use tokio_util::sync::CancellationToken;

/// Characters that can be typed.
const MAX_TYPED: usize = 4_000;

/// The end of a dialog: with an answer, without one, or by Ctrl-C.
pub(super) enum DialogEnd {
    Answered(DialogAnswer),
    Without(DialogError),
    Interrupted,
}

/// Shows a dialog and blocks until a key answers it, or until the answer no longer matters.
pub(super) fn ask(dialog: &Dialog, token: &CancellationToken, style: Style) -> io::Result<DialogEnd> {
    let mut screen = Attention::take_terminal();
    let mut keys = RawKeyboard::open(token)?;
    let (columns, lines) = size().unwrap_or(DEFAULT_SIZE);
    let rows = rows(dialog, style, columns);
    screen.write(&text!("\n"))?;
    let mut shown = 0;
    while shown < rows.len() {
        let end = rows.len().min(shown + lines.saturating_sub(4).max(3));
        rows[shown..end].iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        shown = end;
        if shown < rows.len() {
            let foot = more(shown, rows.len(), style, columns);
            foot.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
            if let Some(ended) = read_on(&mut keys)? {
                return Ok(ended);
            }
            screen.clear_above(foot.len())?;
        }
    }
    let ended = answer(dialog, &mut screen, &mut keys, style, columns)?;
    let word = match &ended {
        DialogEnd::Answered(DialogAnswer::Confirmed(true)) => "yes",
        DialogEnd::Answered(DialogAnswer::Confirmed(false)) => "no",
        DialogEnd::Answered(_) => "answered",
        DialogEnd::Without(DialogError::Muted) => "closed; no dialogs of this plugin in this session",
        DialogEnd::Without(_) | DialogEnd::Interrupted => "closed",
    };
    screen.write(&text!("  {}\n", word))?;
    Ok(ended)
}

/// Renders everything above the answer.
fn rows(dialog: &Dialog, style: Style, columns: usize) -> Vec<Text> {
    let asker = asker(&exposed(&one_line(&dialog.plugin, 128)));
    let mut rows = host_rows("? ", &format!("{asker} asks you; this grants nothing:"), columns);
    rows.iter_mut().for_each(|row| *row = style.bold(&*row));
    exposed(&dialog.question).split('\n').for_each(|line| guest_rows(&mut rows, line, style, columns));
    if let DialogKind::Select(options) = &dialog.kind {
        for (at, option) in options.iter().enumerate() {
            guest_rows(&mut rows, &format!("{:>3}  {}", at + 1, exposed(option)), style, columns);
        }
    }
    rows
}

/// Waits for the key that shows the next page.
fn read_on(keys: &mut RawKeyboard<'_>) -> io::Result<Option<DialogEnd>> {
    loop {
        match keys.typed()? {
            Typed::Character(' ') | Typed::Down | Typed::Enter => return Ok(None),
            other => {
                if let Some(ended) = closing(&other) {
                    return Ok(Some(ended));
                }
            }
        }
    }
}

fn closing(typed: &Typed) -> Option<DialogEnd> {
    match typed {
        Typed::Escape | Typed::Late => Some(DialogEnd::Without(DialogError::Dismissed)),
        Typed::Mute => Some(DialogEnd::Without(DialogError::Muted)),
        Typed::Interrupt => Some(DialogEnd::Interrupted),
        _ => None,
    }
}

/// Reads the answer.
fn answer(
    dialog: &Dialog,
    screen: &mut Attention,
    keys: &mut RawKeyboard<'_>,
    style: Style,
    columns: usize,
) -> io::Result<DialogEnd> {
    let mut line = match &dialog.kind {
        DialogKind::Input(initial) => initial.clone(),
        DialogKind::Confirm | DialogKind::Select(_) => String::new(),
    };
    let mut remark: Option<&'static str> = None;
    loop {
        // Name the keys only once they count.
        if let Some(typed) = keys.settled()? {
            return Ok(closing(&typed).unwrap_or(DialogEnd::Interrupted));
        }
        let mut foot = host_rows("  ", keys_of(&dialog.kind), columns);
        foot.extend(remark.take().map(|remark| hint(remark, style, columns)).into_iter().flatten());
        if !matches!(dialog.kind, DialogKind::Confirm) {
            foot.push(text!("  › {}", tail(&line, columns.saturating_sub(8))));
        }
        foot.iter().try_for_each(|row| screen.write(&text!("{}\n", row)))?;
        let typed = keys.typed()?;
        let is_text = !matches!(dialog.kind, DialogKind::Confirm);
        match (&dialog.kind, &typed) {
            (DialogKind::Confirm, Typed::Character('y' | 'Y')) => {
                return Ok(DialogEnd::Answered(DialogAnswer::Confirmed(true)));
            }
            (DialogKind::Confirm, Typed::Character('n' | 'N')) => {
                return Ok(DialogEnd::Answered(DialogAnswer::Confirmed(false)));
            }
            (DialogKind::Input(_), Typed::Enter) => return Ok(DialogEnd::Answered(DialogAnswer::Entered(line))),
            (DialogKind::Select(options), Typed::Enter) => match line.trim().parse::<usize>() {
                Ok(number @ 1..) if number <= options.len() => {
                    return Ok(DialogEnd::Answered(DialogAnswer::Selected(number - 1)));
                }
                _ => remark = Some("type the number of an option"),
            },
            (_, Typed::Character(c)) if is_text && line.len() < MAX_TYPED => line.push(*c),
            (_, Typed::Pasted(pasted)) if is_text => {
                line.extend(pasted.chars().take(MAX_TYPED.saturating_sub(line.len())));
            }
            (_, Typed::Backspace) => drop(line.pop()),
            (_, Typed::Pasted(_)) => remark = Some("several keys at once: press a single one"),
            _ => {
                if let Some(ended) = closing(&typed) {
                    return Ok(ended);
                }
            }
        }
        screen.clear_above(foot.len())?;
    }
}

fn keys_of(kind: &DialogKind) -> &'static str {
    match kind {
        DialogKind::Confirm => "[y] yes   [n] no   [esc] close   [ctrl+x] no dialogs of this plugin",
        DialogKind::Select(_) => "number and enter   [esc] close   [ctrl+x] no dialogs of this plugin",
        DialogKind::Input(_) => "text and enter   [esc] close   [ctrl+x] no dialogs of this plugin",
    }
}

/// Returns the end of the typed text that fits into one row.
pub(super) fn tail(line: &str, columns: usize) -> Text {
    let line = exposed(line);
    let mut rest = line.as_str();
    loop {
        let (part, more) = split_at_width(rest, columns.max(8));
        if more.is_empty() {
            return row(part);
        }
        rest = more;
    }
}

// The user's words for the model when a call is denied.

/// Maximum bytes of the words.
const MAX_REFUSAL: usize = 4_000;

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
            Typed::Character(c) if line.len() < MAX_REFUSAL => line.push(c),
            Typed::Pasted(pasted) => line.extend(pasted.chars().take(MAX_REFUSAL.saturating_sub(line.len()))),
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
