//! [`Text`], the only type that may be written to a terminal.
//!
//! A text consists of literals of this program, its own colours, and untrusted text that [`pinion_agent::text`] has
//! neutralized and bounded.

use pinion_agent::text::{bounded, one_line, printable};
use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unicode_width::UnicodeWidthChar as _;

/// Maximum characters of an untrusted part of a line.
const MAX_PART: usize = 2_000;
/// Maximum lines and characters of an untrusted block, such as an error with its causes.
const MAX_BLOCK: (usize, usize) = (60, 12_000);
/// Maximum characters of a [`line()`].
const MAX_PATH: usize = 1024;

/// Text that is safe for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(String);

/// A part of a [`Text`]: a `Text` unchanged, anything else as one neutralized line.
pub trait Part {
    /// Appends this to a text.
    fn append(&self, text: &mut Text);
}

/// Fills a literal template, each `{}` with a [`Part`]. Names and formats between the braces are not allowed, so that
/// nothing bypasses [`Part`].
#[macro_export]
macro_rules! text {
    ($template:literal $(, $part:expr)* $(,)?) => {
        $crate::output::Text::fill($template, &[$(&$part as &dyn $crate::output::Part),*])
    };
}

impl Text {
    /// Fills a template; see [`text!`].
    pub fn fill(template: &'static str, parts: &[&dyn Part]) -> Self {
        debug_assert_eq!(template.matches("{}").count(), parts.len(), "`{template}`");
        let mut text = Self::default();
        let mut parts = parts.iter();
        for (number, literal) in template.split("{}").enumerate() {
            if let Some(part) = (number > 0).then(|| parts.next()).flatten() {
                part.append(&mut text);
            }
            text.0.push_str(literal);
        }
        text
    }

    /// Neutralizes and bounds an untrusted text of several lines. All lines but the first are indented, so that they
    /// cannot be mistaken for lines of the host.
    pub fn block(text: impl Display) -> Self {
        let (lines, characters) = MAX_BLOCK;
        Self(bounded(&text.to_string(), lines, characters).replace('\n', "\n  "))
    }

    /// Neutralizes an untrusted text of any length, keeping its lines: for output that contains nothing else.
    pub fn complete(text: &str) -> Self {
        Self(printable(text).into_owned())
    }

    /// Appends a part.
    pub fn push(&mut self, part: impl Part) {
        part.append(self);
    }

    /// Appends a line.
    pub fn line(&mut self, part: impl Part) {
        part.append(self);
        self.0.push('\n');
    }

    /// Joins texts with a literal between them.
    pub fn join(texts: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        Self(texts.into_iter().map(|text| text.0).collect::<Vec<_>>().join(between))
    }

    /// Wraps the text in a colour. Only `Style` of the command calls it.
    pub fn painted(self, code: &'static str) -> Self {
        Self(format!("\x1b[{code}m{}\x1b[0m", self.0))
    }

    /// Wraps text that is already neutralized. Only modules named `output` may do so.
    pub fn neutral(text: String) -> Self {
        Self(text)
    }

    /// Returns the text with its colours.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Pads a part to a number of columns, as `{:<N}` does.
pub fn left(part: impl Part, columns: usize) -> Text {
    let mut text = part.text();
    let used = width(&text.0);
    text.0.extend(std::iter::repeat_n(' ', columns.saturating_sub(used)));
    text
}

impl Part for Text {
    fn append(&self, text: &mut Text) {
        text.0.push_str(&self.0);
    }
}

impl Part for str {
    fn append(&self, text: &mut Text) {
        let is_plain = self.len() <= MAX_PART && self.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match is_plain {
            true => text.0.push_str(self),
            false => text.0.push_str(&outer_blanks(self)),
        }
    }
}

/// Neutralizes one line, keeping a blank at either end.
fn outer_blanks(text: &str) -> String {
    let blank = |is: bool| if is { " " } else { "" };
    let line = one_line(text, MAX_PART);
    let (before, after) = (blank(text.starts_with(' ')), blank(text.len() > 1 && text.ends_with(' ')));
    format!("{before}{line}{after}")
}

impl<T: Part + ?Sized> Part for &T {
    fn append(&self, text: &mut Text) {
        (**self).append(text);
    }
}

impl<T: Part> Part for Option<T> {
    fn append(&self, text: &mut Text) {
        if let Some(part) = self {
            part.append(text);
        }
    }
}

macro_rules! parts {
    ($($type:ty: $as_str:expr),*) => {
        $(impl Part for $type {
            fn append(&self, text: &mut Text) {
                let as_str: for<'a> fn(&'a $type) -> Cow<'a, str> = $as_str;
                <str as Part>::append(&as_str(self), text);
            }
        })*
    };
}

parts! {
    String: |text| Cow::Borrowed(text),
    Cow<'_, str>: |text| Cow::Borrowed(text),
    Arc<str>: |text| Cow::Borrowed(text),
    Path: |path| path.to_string_lossy(),
    PathBuf: |path| path.to_string_lossy(),
    usize: |n| Cow::Owned(n.to_string()),
    u64: |n| Cow::Owned(n.to_string()),
    u32: |n| Cow::Owned(n.to_string()),
    u16: |n| Cow::Owned(n.to_string())
}

/// Conversion of a part to a text.
pub trait PartExt: Part {
    /// Returns the part as a text.
    fn text(&self) -> Text {
        let mut text = Text::default();
        self.append(&mut text);
        text
    }
}

impl<T: Part + ?Sized> PartExt for T {}

/// Turns untrusted text into one line of bounded length without control characters.
pub fn line(text: &str) -> String {
    let one: String = text.chars().take(MAX_PATH).map(|c| if matches!(c, '\n' | '\t') { '␤' } else { c }).collect();
    printable(&one).into_owned()
}

/// Neutralizes one row of untrusted text, keeping its blanks.
pub fn row(text: &str) -> Text {
    Text(printable(text).replace(['\n', '\t'], " "))
}

/// Returns the columns that a text occupies.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Splits a text after the longest beginning that fits into `columns`.
pub fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// Splits a line at the last blank that fits, or else at the last column.
pub fn break_words(line: &str, columns: usize) -> (&str, &str) {
    let (row, more) = split_at_width(line, columns);
    match row.rfind(' ').filter(|at| !more.is_empty() && *at > 0 && !more.starts_with(' ')) {
        Some(at) => (&line[..at], line[at..].trim_start()),
        None => (row, more.trim_start()),
    }
}

/// Wraps a line at blanks into rows of at most `columns`. A word that is longer is split.
pub fn wrapped(line: &str, columns: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (row, more) = break_words(rest, columns.max(2));
        rows.push(row);
        rest = more;
    }
    rows
}

/// Shortens untrusted text to one line of at most `columns`.
pub fn fit(text: &str, columns: usize) -> Text {
    let line = one_line(text, columns);
    if width(&line) <= columns {
        return Text(line);
    }
    Text(format!("{}…", split_at_width(&line, columns.saturating_sub(1)).0))
}

/// Quotes a word for a shell if necessary.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Joins the words of a command.
pub fn shell_command(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// A number of tokens or fuel in at most six characters: `12.3 k`.
pub fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} G", n as f64 / 1e9),
    }
}

/// A size of a context window in at most six characters: `64 k`, `1 M`, `1.5 M`.
pub fn tokens(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{} k", n / 1000),
        _ if n % 1_000_000 < 100_000 => format!("{} M", n / 1_000_000),
        _ => format!("{:.1} M", n as f64 / 1e6),
    }
}

/// A number of bytes in binary units: `1.5 KiB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// Describes a time in the past in at most nine columns.
pub fn age(seconds: i64) -> String {
    let (n, unit) = match seconds.max(0) {
        0..60 => return "now".to_owned(),
        s @ 60..3600 => (s / 60, "min"),
        s @ 3600..86_400 => (s / 3600, "h"),
        s => (s / 86_400, "d"),
    };
    format!("{n} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_neutralized_line_and_texts_stay() {
        let bold = text!("{}", "x").painted("1");
        let text = text!("{}: {} {}\n", bold, "a\n\x1b[2J? allow", 5_usize);
        assert_eq!(text.as_str(), "\x1b[1mx\x1b[0m: a ⏎ ␛[2J? allow 5\n");
        assert_eq!(text!("{}", Path::new("a\u{202e}\n? b")).as_str(), "a\\u{202e} ⏎ ? b");
    }

    #[test]
    fn block_lines_are_indented() {
        let text = Text::block("broken\nhint: curl | sh\r\n\x1b[2K");
        assert!(text.as_str().lines().skip(1).all(|line| line.starts_with("  ")), "{text:?}");
        assert!(Text::block("x\n".repeat(10_000)).as_str().lines().count() <= MAX_BLOCK.0 + 1);
    }

    #[test]
    fn line_is_cut_to_its_columns() {
        assert_eq!(fit("世界世界", 5).as_str(), "世界…");
        assert_eq!(left("ab", 4).as_str(), "ab  ");
    }

    #[test]
    fn lines_are_wrapped_at_blanks() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("世界世界", 5), ["世界", "世界"]);
        assert!(wrapped("", 5).is_empty());
    }

    #[test]
    fn quoted_words_survive_a_shell() {
        assert_eq!(shell_word(".pinion/plans/a-2.md"), ".pinion/plans/a-2.md");
        assert_eq!(shell_word("/it's $HOME"), r"'/it'\''s $HOME'");
        assert_eq!(shell_word("my plan's.md"), r"'my plan'\''s.md'");
        let words = ["git", "update-ref", "refs/heads/$(id)", ""].map(str::to_owned);
        assert_eq!(shell_command(&words), "git update-ref 'refs/heads/$(id)' ''");
    }

    #[test]
    fn ages_are_short() {
        let ages = [-5, 59, 60, 7_199, 86_399, 86_400 * 400].map(age);
        assert_eq!(ages, ["now", "now", "1 min ago", "1 h ago", "23 h ago", "400 d ago"]);
    }

    #[test]
    fn tokens_are_short() {
        assert_eq!(
            [64_000, 200_000, 1_000_000, 1_048_576, 1_500_000].map(tokens),
            ["64 k", "200 k", "1 M", "1 M", "1.5 M"]
        );
    }
}
