//! Properties of the terminal: interactivity, colours and size.

use pinion_app::output::{Part, PartExt as _, Text};
use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time within which a new terminal gets its size.
const SIZED_WITHIN: Duration = Duration::from_secs(1);

/// Returns whether stdin and stdout are terminals.
pub fn is_interactive() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Set when the output has to be linear.
static IS_LINEAR: AtomicBool = AtomicBool::new(false);

/// Makes all further output linear, for screen readers: without colours and without movements of the cursor, so that
/// everything is written once, below earlier output.
pub fn set_linear() {
    IS_LINEAR.store(true, Ordering::Release);
}

/// Returns whether the output has to be linear.
pub fn is_linear() -> bool {
    IS_LINEAR.load(Ordering::Acquire)
}

/// Returns a mark at the beginning of a row; for linear output, a word, because screen readers name the shape of a mark.
pub fn mark(mark: &'static str) -> &'static str {
    match mark {
        "●" if is_linear() => "call",
        "✓" if is_linear() => "done",
        "✗" if is_linear() => "failed",
        "│" if is_linear() => "|",
        "┊" if is_linear() => ":",
        _ => mark,
    }
}

/// Use of colours. Output has no colours in a pipe, with `NO_COLOR` (<https://no-color.org>), and on a terminal without
/// colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    Plain,
    /// Text with colours and weights.
    Colour,
}

impl Style {
    /// Returns the style of text on stdout.
    pub fn of_stdout() -> Self {
        Self::when(stdout().is_terminal())
    }

    /// Returns the style of text on stderr.
    pub fn of_stderr() -> Self {
        Self::when(stderr().is_terminal())
    }

    fn when(is_terminal: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if is_terminal && !set("NO_COLOR") && !is_dumb && !is_linear() { Self::Colour } else { Self::Plain }
    }

    fn paint(self, code: &'static str, part: impl Part) -> Text {
        match self {
            Self::Plain => part.text(),
            Self::Colour => part.text().painted(code),
        }
    }

    /// Emphasizes a part.
    pub fn bold(self, part: impl Part) -> Text {
        self.paint("1", part)
    }

    /// Weakens a part, such as a detail.
    pub fn dim(self, part: impl Part) -> Text {
        self.paint("2", part)
    }

    /// Colours a part red, for failures and removed lines.
    pub fn red(self, part: impl Part) -> Text {
        self.paint("31", part)
    }

    /// Colours a part green, for success and added lines.
    pub fn green(self, part: impl Part) -> Text {
        self.paint("32", part)
    }

    /// Colours a part yellow, for warnings.
    pub fn yellow(self, part: impl Part) -> Text {
        self.paint("33", part)
    }

    /// Colours a part cyan, for marks and names.
    pub fn cyan(self, part: impl Part) -> Text {
        self.paint("36", part)
    }
}

/// Returns whether the terminal behind stdout has a size. Zellij, for one, starts the command of a terminal a moment before the
/// terminal gets its size, so that a second is waited for it.
pub fn gets_size() -> bool {
    let started = Instant::now();
    is_sized(size, || {
        std::thread::sleep(Duration::from_millis(5));
        stdout().is_terminal() && started.elapsed() < SIZED_WITHIN
    })
}

/// Looks for a size again after each wait for as long as one may come.
fn is_sized(mut size: impl FnMut() -> Option<(usize, usize)>, mut wait: impl FnMut() -> bool) -> bool {
    while size().is_none() {
        if !wait() {
            return false;
        }
    }
    true
}

/// Returns the columns and rows of the terminal behind stdout, if there is one.
pub fn size() -> Option<(usize, usize)> {
    // Without a terminal, crossterm would run `tput` from the PATH, twice.
    if !stdout().is_terminal() {
        return None;
    }
    let (columns, rows) = crossterm::terminal::size().ok()?;
    (columns > 0 && rows > 0).then_some((columns.into(), rows.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_that_a_terminal_gets_late_counts() {
        let mut sizes = [None, None, Some((80, 24))].into_iter();
        assert!(is_sized(|| sizes.next().unwrap(), || true));
        let mut waits = 3..=4;
        assert!(!is_sized(|| None, || waits.next().is_some()));
        assert!(waits.is_empty());
    }
}
