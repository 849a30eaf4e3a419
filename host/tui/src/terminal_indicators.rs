//! Terminal state around a conversation: the title of its window, the progress of the work, and marks in its
//! scrollback.

use pinion_protocol::text::one_line;

/// Characters of a title.
const MAX_TITLE: usize = 100;
/// Saves the title of the window, and restores it. Terminals without a stack of titles ignore both.
const SAVE_TITLE: &str = "\x1b[22;2t";
const RESTORE_TITLE: &str = "\x1b[23;2t";
/// Shows progress of unknown length, and removes it (ConEmu's OSC 9;4).
const WORKING: &str = "\x1b]9;4;3\x1b\\";
const IDLE: &str = "\x1b]9;4;0\x1b\\";
/// Marks the beginning of a message of the user, and the beginning of the text after it (FinalTerm's OSC 133).
pub(crate) const PROMPT: &str = "\x1b]133;A\x1b\\";
pub(crate) const OUTPUT: &str = "\x1b]133;C\x1b\\";

/// The activity of a conversation, as its surroundings show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    /// It waits for a message.
    #[default]
    Idle,
    /// The agent works.
    Working,
    /// A question waits for an answer.
    Asking,
}

/// The title and the progress that a terminal shows.
#[derive(Debug, Default)]
pub struct TerminalIndicators {
    has_title: bool,
    has_progress: bool,
    shown: Option<(Activity, String)>,
}

impl TerminalIndicators {
    /// Creates the surroundings of a terminal that shows nothing yet.
    pub fn new(has_title: bool, has_progress: bool) -> Self {
        Self { has_title, has_progress, shown: None }
    }

    /// Returns the sequences that show the activity in a directory; empty if the terminal shows it.
    pub fn show(&mut self, activity: Activity, directory: &str) -> String {
        let is_new = self.shown.as_ref().is_none_or(|(shown, of)| (*shown, of.as_str()) != (activity, directory));
        if !is_new {
            return String::new();
        }
        let before = self.shown.replace((activity, directory.to_owned()));
        let mut sequences = String::new();
        if self.has_title {
            let mark = match activity {
                Activity::Idle => "",
                Activity::Working => "● ",
                Activity::Asking => "? ",
            };
            let title = one_line(&format!("{mark}{directory} · pinion"), MAX_TITLE);
            let save = if before.is_none() { SAVE_TITLE } else { "" };
            sequences.push_str(&format!("{save}\x1b]2;{title}\x1b\\"));
        }
        let was_working = before.is_some_and(|(shown, _)| shown != Activity::Idle);
        if self.has_progress && was_working != (activity != Activity::Idle) {
            sequences.push_str(if was_working { IDLE } else { WORKING });
        }
        sequences
    }

    /// Returns the sequences that undo the terminal's state.
    pub fn clear(&mut self) -> String {
        let undoing = undoing(self.undoes());
        self.shown = None;
        undoing
    }

    /// Returns the parts that have to be undone: the title, and the progress.
    pub fn undoes(&self) -> (bool, bool) {
        let is_working = self.shown.as_ref().is_some_and(|(shown, _)| *shown != Activity::Idle);
        (self.has_title && self.shown.is_some(), self.has_progress && is_working)
    }
}

/// Returns the sequences that restore the title and remove the progress, where a terminal shows them.
pub fn undoing((has_title, has_progress): (bool, bool)) -> String {
    [if has_title { RESTORE_TITLE } else { "" }, if has_progress { IDLE } else { "" }].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_and_progress_follow_the_work_and_are_undone() {
        let mut around = TerminalIndicators::new(true, true);
        assert_eq!(around.show(Activity::Idle, "~/a"), "\x1b[22;2t\x1b]2;~/a · pinion\x1b\\");
        assert_eq!(around.show(Activity::Idle, "~/a"), "");
        assert_eq!(around.show(Activity::Working, "~/a"), "\x1b]2;● ~/a · pinion\x1b\\\x1b]9;4;3\x1b\\");
        assert_eq!(around.show(Activity::Asking, "~/a"), "\x1b]2;? ~/a · pinion\x1b\\");
        assert_eq!(around.undoes(), (true, true));
        assert_eq!(around.clear(), "\x1b[23;2t\x1b]9;4;0\x1b\\");
        assert_eq!(around.clear(), "");
        assert_eq!(around.show(Activity::Working, "~/a"), "\x1b[22;2t\x1b]2;● ~/a · pinion\x1b\\\x1b]9;4;3\x1b\\");
        assert_eq!(around.show(Activity::Idle, "~/a"), "\x1b]2;~/a · pinion\x1b\\\x1b]9;4;0\x1b\\");
        assert_eq!(TerminalIndicators::new(false, false).show(Activity::Working, "~/a"), "");
    }

    #[test]
    fn title_ends_only_where_it_should() {
        let title = TerminalIndicators::new(true, false).show(Activity::Idle, "a\x07b\x1b\\c\u{9c}\n");
        assert_eq!(title, "\x1b[22;2t\x1b]2;a␇b␛\\c\\u{9c} ⏎ · pinion\x1b\\");
    }
}
