//! The lines of a result that are shown while it is folded.

use pinion_protocol::text::count;
use serde_json::Value;

/// Lines of a failure from its beginning and its end.
const FIRST: usize = 2;
const LAST: usize = 4;
/// Hints that are shown from between them.
const HINTS: usize = 3;

/// The beginning and the end of a text of several lines, and the hints between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// The first lines.
    pub first: Vec<&'a str>,
    /// The number of lines behind them that are not shown.
    pub hidden: usize,
    /// Hidden lines that say how to continue.
    pub hints: Vec<&'a str>,
    /// The last lines.
    pub last: Vec<&'a str>,
}

impl<'a> Excerpt<'a> {
    /// Returns the parts of a failure that say most: programs report the failure at the end, with a hint how to fix it.
    pub fn of_failure(text: &'a str) -> Self {
        Self::new(text, FIRST, LAST)
    }

    /// Returns at most so many lines of the beginning and the end. The place of a hidden line is never taken by the row that says
    /// so alone.
    pub(crate) fn new(text: &'a str, first: usize, last: usize) -> Self {
        let lines: Vec<&str> = text.trim_end().lines().collect();
        if lines.len() <= first + last + 1 {
            return Self { first: lines, hidden: 0, hints: Vec::new(), last: Vec::new() };
        }
        let (head, rest) = lines.split_at(first);
        let (middle, tail) = rest.split_at(rest.len() - last);
        let is_hint = |line: &&&str| line.trim_start().starts_with("hint: ");
        let mut hints: Vec<&str> = middle.iter().rev().filter(is_hint).take(HINTS).copied().collect();
        hints.reverse();
        Self { first: head.to_vec(), hidden: middle.len() - hints.len(), hints, last: tail.to_vec() }
    }

    /// Says how many lines are hidden.
    pub fn more(&self) -> Option<String> {
        (self.hidden > 0).then(|| format!("… {}", count(self.hidden as u64, "more line")))
    }
}

/// Returns how a program ended, from the details of its result: `exit 1` or `signal 9`.
pub(crate) fn ending(details: Option<&Value>) -> Option<String> {
    let number = |name| details.and_then(|details| details.get(name)).and_then(Value::as_i64);
    match (number("exit_code"), number("signal")) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
    }
}

/// Returns whether a result comes from a program.
pub(crate) fn is_of_program(details: Option<&Value>) -> bool {
    details.is_some_and(|details| details.get("exit_code").is_some())
}

/// Returns the output of a program without the line that says how it ended.
pub(crate) fn without_ending(output: &str) -> String {
    let is_ending = |line: &&str| line.starts_with("[exit code ") && line.ends_with(']');
    let kept: Vec<&str> = output.lines().filter(|line| !is_ending(line)).collect();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failure_shows_its_beginning_its_end_and_hints() {
        let lines: Vec<String> =
            (1..=20).map(|n| if n == 9 { "hint: allow it".into() } else { format!("line {n}") }).collect();
        let text = lines.join("\n") + "\n\n";
        let excerpt = Excerpt::of_failure(&text);
        assert_eq!(excerpt.first, ["line 1", "line 2"]);
        assert_eq!((excerpt.hidden, excerpt.more().as_deref()), (13, Some("… 13 more lines")));
        assert_eq!(excerpt.hints, ["hint: allow it"]);
        assert_eq!(excerpt.last, ["line 17", "line 18", "line 19", "line 20"]);
        // A single line takes no more room than the row that says that it is missing.
        let seven = lines[..7].join("\n");
        assert_eq!((Excerpt::of_failure(&seven).first.len(), Excerpt::of_failure(&seven).hidden), (7, 0));
        assert_eq!(Excerpt::of_failure("").first, Vec::<&str>::new());
        let many = format!("a\nb\n{}c\nd\ne\nf", "hint: again\n".repeat(50));
        assert_eq!((Excerpt::of_failure(&many).hints.len(), Excerpt::of_failure(&many).hidden), (3, 47));
    }

    #[test]
    fn ending_is_in_the_details() {
        let said = |details: Value| ending(Some(&details));
        assert_eq!(said(json!({ "exit_code": 101, "signal": null })).as_deref(), Some("exit 101"));
        assert_eq!(said(json!({ "exit_code": null, "signal": 9 })).as_deref(), Some("signal 9"));
        assert_eq!((said(json!({ "exit_code": 0 })), said(json!(3)), ending(None)), (None, None, None));
        assert_eq!(without_ending("a\n[exit code 3]\nhint: b"), "a\nhint: b");
    }
}
