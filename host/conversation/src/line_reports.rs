//! Reports of the terminal that the line editor took for keys.
//!
//! The editor drops the introducer of a sequence that it does not know, and inserts the rest: of the mode report `ESC [ ? 2026 ; 2 $ y`,
//! `2026;2$y` is in the line. Such a rest arrives at once, faster than a person types, and is removed from the line that was
//! read.

use pinion_tui::terminal::report_rest;
use std::time::{Duration, Instant};

/// Time between two characters that arrive together.
const TOGETHER: Duration = Duration::from_millis(100);

/// The characters of a line as they arrive.
#[derive(Debug, Default)]
pub(super) struct LineReports {
    line: String,
    /// Characters that arrived together.
    burst: String,
    last: Option<Instant>,
    found: Vec<String>,
}

impl LineReports {
    /// Takes the line after a key, and the position of the cursor.
    pub(super) fn saw(&mut self, line: &str, at: usize, now: Instant) {
        let inserted = line.get(..at).and_then(|before| before.chars().next_back()).filter(|c| {
            let start = at - c.len_utf8();
            line.len() == self.line.len() + c.len_utf8()
                && self.line.get(..start) == Some(&line[..start])
                && self.line.get(start..) == Some(&line[at..])
        });
        let is_together = self.last.is_some_and(|last| now.saturating_duration_since(last) < TOGETHER);
        if inserted.is_none() || !is_together {
            self.settle();
        }
        self.burst.extend(inserted);
        line.clone_into(&mut self.line);
        self.last = Some(now);
    }

    /// Returns the line that was read, without the reports in it.
    pub(super) fn without(&mut self, mut line: String) -> String {
        self.settle();
        for report in std::mem::take(self).found {
            if let Some(at) = line.find(&report) {
                line.replace_range(at..at + report.len(), "");
            }
        }
        line
    }

    /// Looks for reports in the characters that arrived together.
    fn settle(&mut self) {
        let burst = std::mem::take(&mut self.burst);
        let mut at = 0;
        // Behind other text, only text that people do not write is a report.
        let mut is_behind_text = false;
        while let Some(rest) = burst.get(at..).filter(|rest| !rest.is_empty()) {
            match report_rest(rest, is_behind_text) {
                Some(length) => {
                    self.found.push(rest[..length].to_owned());
                    at += length;
                }
                None => {
                    at += rest.chars().next().map_or(1, char::len_utf8);
                    is_behind_text = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types texts, the characters of each at once, and returns the line without reports.
    fn read(texts: &[&str]) -> String {
        let (mut reports, mut line, mut now) = (LineReports::default(), String::new(), Instant::now());
        for text in texts {
            now += Duration::from_secs(1);
            for c in text.chars() {
                line.push(c);
                reports.saw(&line, line.len(), now);
                now += Duration::from_millis(2);
            }
        }
        reports.without(line)
    }

    #[test]
    fn reports_are_removed_wherever_they_arrive() {
        for texts in [
            &["2026;2$y", "hello"][..],
            &["2026;2$yhello"],
            &["hel", "2026;2$y", "lo"],
            &["hel2026;2$ylo"],
            &["997;1n", "hel", "5;5R", "lo"],
            &["11;rgb:1e1e/1e1e/1e1e", "hello"],
            &["11;rgb:1e1e/1e1e/1e1e2026;2$yhello"],
            &["4;12;rgb:ff/ff/ff", "84;0;0chello"],
            &[">|tmux 3.4", "hello"],
        ] {
            assert_eq!(read(texts), "hello", "{texts:?}");
        }
    }

    #[test]
    fn text_of_the_user_stays() {
        for text in ["2nd item", "1c", "5n", "see 2;3 and 5;6R", "fix a;b;c", "10;20", "rgb:1/2/3", "$y", ">| x"] {
            assert_eq!(read(&[text]), text);
            let typed: Vec<String> = text.chars().map(String::from).collect();
            assert_eq!(read(&typed.iter().map(String::as_str).collect::<Vec<_>>()), text);
        }
        let typed: Vec<String> = "2026;2$y".chars().map(String::from).collect();
        assert_eq!(read(&typed.iter().map(String::as_str).collect::<Vec<_>>()), "2026;2$y", "a person types slowly");
    }
}
