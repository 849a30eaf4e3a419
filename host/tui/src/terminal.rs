//! The terminal: raw mode, its input, and the sequences that prepare and restore it.
//!
//! Nothing here writes; the application writes the sequences to its stdout.

#[cfg(unix)]
mod bursts;
#[cfg(not(unix))]
mod console;
#[cfg(unix)]
mod decoder;
#[cfg(all(test, unix))]
mod decoder_tests;
#[cfg(unix)]
mod inputs;
#[cfg(unix)]
mod key_codes;
#[cfg(unix)]
mod reports;
#[cfg(all(test, unix))]
mod sampled_reports_tests;

#[cfg(not(unix))]
pub use self::console::Inputs;
#[cfg(unix)]
pub use self::inputs::Inputs;

use crate::terminal_indicators::{OUTPUT, PROMPT};
use crate::view::PrintedRow;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io;

/// Enters the alternate screen. Turns on bracketed paste, reports of focus, and distinguishable keys (the first level
/// of the kitty protocol); turns off the translation of the wheel into arrow keys, which would move the cursor, and the
/// wrapping of text that a terminal takes for wider than it is.
pub const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?1007l\x1b[?7l\x1b[>1u\x1b[2J";

/// Lets the terminal report clicks, drags and the wheel, by rows and columns of any size (SGR), until [`NO_MOUSE`] or [`LEAVE`].
/// Its own selection then needs Shift.
pub const MOUSE: &str = "\x1b[?1002h\x1b[?1006h";

/// Undoes [`MOUSE`].
pub const NO_MOUSE: &str = "\x1b[?1006l\x1b[?1002l";

/// Undoes [`ENTER`] and [`MOUSE`]. Harmless on a terminal that is not prepared.
pub const LEAVE: &str =
    "\x1b[?2026l\x1b[?1006l\x1b[?1002l\x1b[<u\x1b[?7h\x1b[?1007h\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?1049l\x1b[?25h";

/// Prepares the main screen for the inline form like [`ENTER`].
pub const ENTER_INLINE: &str = "\x1b[?2004h\x1b[?1004h\x1b[?7l\x1b[>1u";

/// Undoes [`ENTER_INLINE`]. Harmless on a terminal that is not prepared.
pub const LEAVE_INLINE: &str = "\x1b[?2026l\x1b[<u\x1b[?7h\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h";

/// Shows the whole conversation of the inline form on the alternate screen, which has its own state of the keyboard.
pub const ENTER_VIEW: &str = "\x1b[?1049h\x1b[?1007l\x1b[>1u\x1b[2J";

/// Undoes [`ENTER_VIEW`].
pub const LEAVE_VIEW: &str = "\x1b[?2026l\x1b[<u\x1b[?1007h\x1b[0m\x1b[?1049l";

/// Returns the sequences that leave the inline form without clearing its live region, which has this many rows below
/// the cursor: later output begins below it. `is_viewing` says that the whole conversation is shown.
pub fn left_inline(is_viewing: bool, rows_below: usize) -> String {
    let view = if is_viewing { LEAVE_VIEW } else { "" };
    let down = if rows_below == 0 { String::new() } else { format!("\x1b[{rows_below}B") };
    format!("{view}{LEAVE_INLINE}{down}\r\n")
}

/// Raw mode, until it is dropped.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Enters raw mode.
    ///
    /// # Errors
    /// There is no terminal, or it refuses.
    pub fn enter() -> io::Result<Self> {
        let was_raw = crossterm::terminal::is_raw_mode_enabled()?;
        crossterm::terminal::enable_raw_mode()?;
        #[cfg(unix)]
        if !was_raw {
            inputs::became_raw();
        }
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A lost terminal needs nothing.
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

/// Returns the size of the terminal in columns and rows.
///
/// # Errors
/// There is no terminal.
pub fn size() -> io::Result<(u16, u16)> {
    // On Unix, the other function runs `tput` from the PATH if the terminal is lost.
    #[cfg(unix)]
    return crossterm::terminal::window_size().map(|size| (size.columns, size.rows));
    #[cfg(not(unix))]
    crossterm::terminal::size()
}

/// Returns a line that the terminal edited, without the reports that the terminal sent in the meantime.
pub fn without_reports(line: &str) -> String {
    #[cfg(unix)]
    return String::from_utf8_lossy(&reports::without_reports(line.as_bytes()).0).into_owned();
    #[cfg(not(unix))]
    line.to_owned()
}

/// Returns the length of the rest of a report at the beginning of a text, if a line editor took it for keys and dropped only the
/// introducer. A rest that people could write counts only if `is_behind_text` is false.
pub fn report_rest(text: &str, is_behind_text: bool) -> Option<usize> {
    #[cfg(unix)]
    return reports::rest_length(text, is_behind_text);
    #[cfg(not(unix))]
    None
}

/// A program between this one and the terminal, which has to pass sequences on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplexer {
    /// None.
    None,
    /// tmux.
    Tmux,
    /// GNU screen.
    Screen,
}

/// Returns the sequence that copies a text to the clipboard (OSC 52), also over SSH.
pub fn copy(text: &str, multiplexer: Multiplexer) -> String {
    let sequence = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    match multiplexer {
        Multiplexer::None => sequence,
        // The first form is for tmux itself, the second one for the terminal around it.
        Multiplexer::Tmux => sequence.clone() + &through_tmux(&sequence),
        Multiplexer::Screen => {
            // screen passes at most 768 bytes on at once.
            let characters: Vec<char> = sequence.chars().collect();
            let part = |part: &[char]| format!("\x1bP{}\x1b\\", part.iter().collect::<String>());
            characters.chunks(700).map(part).collect()
        }
    }
}

/// The way to notify the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notification {
    /// A desktop notification of iTerm2, kitty, WezTerm, Ghostty and Windows Terminal, and the bell.
    #[default]
    Osc9,
    /// A desktop notification of foot, rxvt-unicode, WezTerm and Ghostty, and the bell.
    Osc777,
    /// The bell.
    Bell,
}

/// Returns the sequences that notify the user. `text` must be a text of the application.
pub fn notification(kind: Notification, text: &str, multiplexer: Multiplexer) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() && *c != ';').collect();
    let sequence = match kind {
        Notification::Osc9 => format!("\x1b]9;pinion: {text}\x07"),
        Notification::Osc777 => format!("\x1b]777;notify;pinion;{text}\x07"),
        Notification::Bell => String::new(),
    };
    let passed = match multiplexer {
        Multiplexer::Tmux if !sequence.is_empty() => through_tmux(&sequence),
        Multiplexer::Screen if !sequence.is_empty() => format!("\x1bP{sequence}\x1b\\"),
        _ => sequence,
    };
    // Multiplexers mark the window at a bell.
    passed + "\x07"
}

fn through_tmux(sequence: &str) -> String {
    format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
}

/// Returns rows of the transcript for the main screen, with or without styles, and with or without marks at the messages of
/// the user.
pub fn printed(rows: &[PrintedRow], has_styles: bool, has_marks: bool) -> String {
    let mut text = String::new();
    for PrintedRow(row) in rows {
        if has_marks && row.begins_prompt {
            text.push_str(PROMPT);
        }
        for piece in row.pieces() {
            let style = piece.style();
            let style = (style.fg.unwrap_or_default(), style.bg.unwrap_or_default(), style.add_modifier);
            let sgr = crate::cell_writer::sgr(style);
            match has_styles && sgr != "\x1b[m" {
                true => text.push_str(&format!("{sgr}{}\x1b[m", piece.text())),
                false => text.push_str(piece.text()),
            }
        }
        text.push('\n');
        if has_marks && row.ends_prompt {
            text.push_str(OUTPUT);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_passes_tmux_and_rings() {
        let sequence = |kind, multiplexer| notification(kind, "finished; after\x1b 2 s", multiplexer);
        assert_eq!(sequence(Notification::Osc9, Multiplexer::None), "\x1b]9;pinion: finished after 2 s\x07\x07");
        let expected = "\x1bPtmux;\x1b\x1b]777;notify;pinion;finished after 2 s\x07\x1b\\\x07";
        assert_eq!(sequence(Notification::Osc777, Multiplexer::Tmux), expected);
        assert_eq!(sequence(Notification::Bell, Multiplexer::Screen), "\x07");
    }

    #[test]
    fn clipboard_is_reached_through_tmux() {
        assert_eq!(copy("hi", Multiplexer::None), "\x1b]52;c;aGk=\x07");
        assert!(copy("hi", Multiplexer::Tmux).ends_with("\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"));
    }
}
