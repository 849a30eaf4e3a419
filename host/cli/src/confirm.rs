//! Asking the user on the terminal for a yes.

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// A key within this time after the question appeared was not pressed in answer to it.
const SETTLE: Duration = Duration::from_millis(300);

/// Asks, and waits for a key. Only `y` is a yes; Enter, Esc, Ctrl-C and keys pressed before the question appeared are not.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    write!(out, "{question} y yes   n no  ")?;
    out.flush()?;
    enable_raw_mode()?;
    let answer = discard(SETTLE).and_then(|()| answer());
    disable_raw_mode()?;
    let answer = answer?;
    writeln!(out, "{}", if answer { "yes" } else { "no" })?;
    Ok(answer)
}

/// Throws keys away that come within `time`.
fn discard(time: Duration) -> io::Result<()> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if !poll(left)? {
            return Ok(());
        }
        read()?;
    }
}

fn answer() -> io::Result<bool> {
    loop {
        let Event::Key(key) = read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Char('y' | 'Y') if !key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
            KeyCode::Char('n' | 'N') | KeyCode::Esc | KeyCode::Enter => return Ok(false),
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(false),
            _ => {}
        }
    }
}
