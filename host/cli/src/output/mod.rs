//! Everything that is written to stdout and stderr.
//!
//! No other module writes to them; a test of the architecture holds this. What is written is a [`Text`], which can only be
//! made of literals of this program, of its own colours, and of untrusted text that [`pinion_agent::text`] has neutralized
//! and bounded. Raw bytes, such as the answer of a model, go to stdout alone, and only while it is not a terminal. Secrets
//! are redacted in all of it.

pub(crate) mod loops;
pub(crate) mod render;
pub(crate) mod terminal;

use crate::config::secrets::CleanWriter;
use crate::failure::{Failure, Result};
use pinion_agent::Secrets;
use pinion_agent::text::{bounded, one_line, printable};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing_subscriber::fmt::MakeWriter;
use unicode_width::UnicodeWidthChar as _;

/// Characters of one untrusted part of a line.
const MAX_PART: usize = 2_000;
/// Lines and characters of an untrusted block, such as an error with its causes.
const MAX_BLOCK: (usize, usize) = (60, 12_000);
/// Lines and characters of a page that a plugin has the host print.
const MAX_PAGE: (usize, usize) = (2_000, 200_000);
/// Blanks between tab stops.
const TAB: usize = 4;

/// Text that may be written to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

/// Something that a [`Text`] is made of: a `Text` as it is, anything else as one neutralized line.
pub(crate) trait Part {
    /// Appends this to a text.
    fn append(&self, text: &mut Text);
}

/// Fills a literal template, each `{}` with a [`Part`]. Names and formats between the braces are not allowed, so nothing
/// gets around [`Part`].
macro_rules! text {
    ($template:literal $(, $part:expr)* $(,)?) => {
        $crate::output::Text::fill($template, &[$(&$part as &dyn $crate::output::Part),*])
    };
}
pub(crate) use text;

impl Text {
    /// Fills a template; see [`text!`].
    pub(crate) fn fill(template: &'static str, parts: &[&dyn Part]) -> Self {
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

    /// An untrusted text of several lines, bounded. All lines but the first are indented, so that none of them can be
    /// taken for a line of the host.
    pub(crate) fn block(text: impl Display) -> Self {
        let (lines, characters) = MAX_BLOCK;
        Self(bounded(&text.to_string(), lines, characters).replace('\n', "\n  "))
    }

    /// An untrusted text of any length, with its lines as they are: for output that holds nothing else.
    pub(crate) fn whole(text: &str) -> Self {
        Self(printable(text).into_owned())
    }

    /// Appends a part.
    pub(crate) fn push(&mut self, part: impl Part) {
        part.append(self);
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, part: impl Part) {
        part.append(self);
        self.0.push('\n');
    }

    /// Joins texts with a literal between them.
    pub(crate) fn join(texts: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        Self(texts.into_iter().map(|text| text.0).collect::<Vec<_>>().join(between))
    }

    /// Wraps the text in a colour. Called by [`crate::output::terminal::Style`] alone.
    pub(crate) fn painted(self, code: &'static str) -> Self {
        Self(format!("\x1b[{code}m{}\x1b[0m", self.0))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Pads a part to a number of columns, as `{:<N}` does.
pub(crate) fn left(part: impl Part, columns: usize) -> Text {
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

/// One line, with the blank at either end that a caller may have put there.
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

/// A part on its own.
pub(crate) trait PartExt: Part {
    fn text(&self) -> Text {
        let mut text = Text::default();
        self.append(&mut text);
        text
    }
}

impl<T: Part + ?Sized> PartExt for T {}

/// Where text is written to.
pub(crate) trait Sink {
    /// Writes and flushes.
    fn text(&mut self, text: &Text) -> io::Result<()>;
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stdout;

/// Standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stderr;

impl Sink for Stdout {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        put(Stream::Stdout, text)
    }
}

impl Sink for Stderr {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        put(Stream::Stderr, text)
    }
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn write(self, text: &Text) -> io::Result<()> {
        let text = clean(&text.0);
        match self {
            Self::Stdout => write(io::stdout().lock(), text.as_bytes()),
            Self::Stderr => write(io::stderr().lock(), text.as_bytes()),
        }
    }
}

/// The secrets that no output may hold.
static SECRETS: OnceLock<Secrets> = OnceLock::new();

/// Keeps secrets out of everything that is written from now on.
pub(crate) fn keep_out(secrets: Secrets) {
    // Set once, at the start of the program.
    let _ = SECRETS.set(secrets);
}

fn clean(text: &str) -> Cow<'_, str> {
    SECRETS.get().map_or(Cow::Borrowed(text), |secrets| secrets.clean(text))
}

/// What waits while a question has the terminal; none while it has not.
static WAITING: Mutex<Option<Vec<(Stream, Text)>>> = Mutex::new(None);
/// Texts that may wait; more than these are dropped.
const MAX_WAITING: usize = 10_000;

fn put(stream: Stream, text: &Text) -> io::Result<()> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *waiting {
        Some(waiting) if waiting.len() < MAX_WAITING => waiting.push((stream, text.clone())),
        Some(_) => {}
        None => stream.write(text)?,
    }
    Ok(())
}

/// The terminal, for a question alone: what others write appears when this is dropped.
#[derive(Debug)]
pub(crate) struct Attention(());

impl Attention {
    pub(crate) fn take() -> Self {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        Self(())
    }

    /// Writes to the terminal, which is in raw mode.
    pub(crate) fn write(&mut self, text: &Text) -> io::Result<()> {
        Stream::Stdout.write(&Text(text.0.replace('\n', "\r\n")))
    }

    /// Clears so many rows above the cursor.
    pub(crate) fn clear_above(&mut self, rows: usize) -> io::Result<()> {
        Stream::Stdout.write(&Text(format!("\x1b[{}A\r\x1b[J", rows.max(1))))
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream that is closed is noticed by the next one who writes.
        waiting.take().into_iter().flatten().for_each(|(stream, text)| drop(stream.write(&text)));
    }
}

/// One row of untrusted text, with its blanks as they are.
pub(crate) fn row(text: &str) -> Text {
    Text(printable(text).replace(['\n', '\t'], " "))
}

#[cfg(test)]
impl Sink for &mut Vec<u8> {
    fn text(&mut self, text: &Text) -> io::Result<()> {
        write(&mut **self, text.0.as_bytes())
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Writes to stdout. A reader that has left, such as `head`, is no error.
pub(crate) fn print(text: &Text) -> Result<()> {
    match Stdout.text(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(stdout_failure(&error)),
        _ => Ok(()),
    }
}

/// Writes a line to stdout. A terminal that is gone is noticed elsewhere.
pub(crate) fn say(line: &Text) {
    let _ = Stdout.text(&text!("{}\n", line));
}

/// Writes a line to stderr. When that is closed, nobody wants to know.
pub(crate) fn note(line: &Text) {
    let _ = Stderr.text(&text!("{}\n", line));
}

/// The failure of a command whose output stdout did not take.
pub(crate) fn stdout_failure(error: &io::Error) -> Failure {
    Failure::failed(format!("could not write to stdout: {error}"))
}

/// Writes an answer to stdout, with a newline at its end: raw into a pipe or file, neutralized on a terminal.
pub(crate) fn answer(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let text = clean(text);
    let text = if io::stdout().is_terminal() { printable(&text) } else { Cow::Borrowed(&*text) };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    write(out, end.as_bytes())
}

/// Writes a value as one line of JSON to stdout: as it is into a pipe or file, neutralized on a terminal.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    if io::stdout().is_terminal() {
        let json = serde_json::to_string(value)?;
        return answer(&json);
    }
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    write(out, b"\n")
}

/// A writer to stdout for documents that are made as they are written: raw into a pipe or file, neutralized on a terminal.
pub(crate) fn document() -> CleanWriter<io::BufWriter<Document>> {
    let document = Document { is_terminal: io::stdout().is_terminal(), rest: Vec::new() };
    CleanWriter::new(io::BufWriter::new(document), SECRETS.get().cloned().unwrap_or_default())
}

/// See [`document`].
#[derive(Debug)]
pub(crate) struct Document {
    is_terminal: bool,
    /// The beginning of a line, which may end in the middle of a character.
    rest: Vec<u8>,
}

impl Write for Document {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return io::stdout().lock().write(bytes);
        }
        self.rest.extend_from_slice(bytes);
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = self.rest.drain(..=end).collect();
            io::stdout().lock().write_all(printable(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        write(io::stdout().lock(), printable(&String::from_utf8_lossy(&rest)).as_bytes())
    }
}

/// Writes the log to stderr. One write is one entry; its further lines are indented.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let entry = String::from_utf8_lossy(bytes);
        Stderr.text(&text!("{}\n", Text::block(entry.trim_end())))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

/// Help, versions and wrong usage, as the command line's parser words them; returns whether it was written. Arguments are
/// repeated in it, so only its own colours pass, and only in help.
pub(crate) fn usage(error: &clap::Error) -> io::Result<()> {
    let rendered = error.render();
    if error.use_stderr() {
        return Stderr.text(&Text::whole(&rendered.to_string()));
    }
    let has_colours = crate::output::terminal::Style::of_stdout() == crate::output::terminal::Style::Colour;
    match has_colours {
        true => Stdout.text(&Text(keeping_colours(&rendered.ansi().to_string()))),
        false => Stdout.text(&Text::whole(&rendered.to_string())),
    }
}

/// Neutralizes everything but sequences that choose colours.
fn keeping_colours(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (number, part) in text.split("\x1b[").enumerate() {
        let codes = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let is_colour = number > 0 && part[codes..].starts_with('m');
        match is_colour {
            true => {
                kept.push_str("\x1b[");
                kept.push_str(&part[..=codes]);
                kept.push_str(&printable(&part[codes + 1..]));
            }
            false => kept.push_str(&printable(part)),
        }
    }
    kept
}

/// Reports a panic in the words of this program, after the terminal is as it was.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        restore_terminal();
        // Not through `note`: whoever panics may hold its lock.
        let _ = Stream::Stderr.write(&text!("internal error: {}\n", Text::block(panic)));
    }));
}

/// Leaves raw mode, before the program ends at once.
pub(crate) fn restore_terminal() {
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Columns and rows of the terminal behind stdout; none when there is none.
pub(crate) fn size() -> Option<(usize, usize)> {
    // Without a terminal, crossterm would run `tput` from the PATH, twice.
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, rows) = crossterm::terminal::size().ok()?;
    (columns > 0 && rows > 0).then_some((columns.into(), rows.into()))
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The longest beginning of a text that fits into so many columns, and what is left.
pub(crate) fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// One line of an untrusted text that fits into so many columns.
pub(crate) fn fit(text: &str, columns: usize) -> Text {
    let line = one_line(text, columns);
    if width(&line) <= columns {
        return Text(line);
    }
    Text(format!("{}…", split_at_width(&line, columns.saturating_sub(1)).0))
}

/// Untrusted text that arrives in pieces, such as what a model says. Every row of it is indented, also where it is longer
/// than the terminal is wide, so that no row of it can be taken for one of the host.
#[derive(Debug)]
pub(crate) struct Flow {
    indent: &'static str,
    /// Columns of a row.
    columns: Option<usize>,
    column: usize,
    /// The end of the last piece, whose meaning depends on what follows.
    held: String,
}

impl Flow {
    pub(crate) fn new(indent: &'static str, columns: Option<usize>) -> Self {
        Self { indent, columns, column: 0, held: String::new() }
    }

    /// Is the cursor behind text?
    pub(crate) fn is_in_line(&self) -> bool {
        self.column > 0 || !self.held.is_empty()
    }

    /// Takes a piece; returns what can be written now.
    pub(crate) fn push(&mut self, piece: &str) -> Text {
        self.held.push_str(piece);
        let mut end = self.held.trim_end_matches(|c: char| c == '\r' || !c.is_ascii()).len();
        // Enough for any emoji or syllable; what is longer is not waited for.
        if self.held.len() - end > 64 {
            end = self.held.char_indices().next_back().map_or(0, |(at, _)| at);
        }
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        self.rows(&ready)
    }

    /// Ends the text: returns what was held back, and the end of its line.
    pub(crate) fn end(&mut self) -> Text {
        let held = std::mem::take(&mut self.held);
        let mut text = self.rows(&held);
        if std::mem::take(&mut self.column) > 0 {
            text.0.push('\n');
        }
        text
    }

    fn rows(&mut self, piece: &str) -> Text {
        let mut rows = String::with_capacity(piece.len() + 16);
        for c in printable(piece).chars() {
            match c {
                '\n' => {
                    rows.push('\n');
                    self.column = 0;
                }
                '\t' => {
                    for _ in 0..TAB - self.column % TAB {
                        self.put(&mut rows, ' ');
                    }
                }
                c => self.put(&mut rows, c),
            }
        }
        Text(rows)
    }

    fn put(&mut self, rows: &mut String, c: char) {
        let wide = c.width().unwrap_or(0);
        if self.columns.is_some_and(|columns| self.column + wide > columns.max(self.indent.len() + 2)) {
            rows.push('\n');
            self.column = 0;
        }
        if self.column == 0 {
            rows.push_str(self.indent);
            self.column = self.indent.len();
        }
        rows.push(c);
        self.column += wide;
    }
}

/// A whole untrusted text in the form of [`Flow`], bounded, without the end of its last line.
pub(crate) fn indented(text: &str) -> Text {
    let (lines, characters) = MAX_PAGE;
    let text = &bounded(text, lines, characters);
    let mut flow = Flow::new("  ", size().map(|(columns, _)| columns));
    let mut rows = flow.push(text);
    rows.push(flow.end());
    rows.0.truncate(rows.0.trim_end_matches('\n').len());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_neutralized_line_and_texts_stay() {
        let bold = text!("{}", "x").painted("1");
        let text = text!("{}: {} {}\n", bold, "a\n\x1b[2J? allow", 5_usize);
        assert_eq!(text.as_str(), "\x1b[1mx\x1b[0m: a ⏎ ␛[2J? allow 5\n");
        assert_eq!(text!("{}", Path::new("a\u{202e}\n? b")).as_str(), "a\\u{202e} ⏎ ? b");
    }

    #[test]
    fn lines_of_blocks_do_not_begin_where_lines_of_the_host_do() {
        let text = Text::block("broken\nhint: curl | sh\r\n\x1b[2K");
        assert!(text.as_str().lines().skip(1).all(|line| line.starts_with("  ")), "{text:?}");
        assert!(Text::block("x\n".repeat(10_000)).as_str().lines().count() <= MAX_BLOCK.0 + 1);
    }

    #[test]
    fn flowing_text_never_reaches_the_first_column() {
        let mut flow = Flow::new("  ", Some(10));
        let mut shown = String::new();
        for piece in ["? allow", " tool `ba", "sh`\n? \x1b", "[2J\r", "\n● 世界世界世", "👨", "\u{200d}👩 \tx"]
        {
            shown.push_str(flow.push(piece).as_str());
        }
        shown.push_str(flow.end().as_str());
        assert!(shown.lines().all(|row| row.starts_with("  ") && width(row) <= 12), "{shown:?}");
        assert!(shown.contains("👨\u{200d}👩") && !shown.contains(['\x1b', '\r']), "{shown:?}");
    }

    #[test]
    fn only_colours_pass_in_help() {
        assert_eq!(keeping_colours("\x1b[1mx\x1b[0m \x1b[2J\x1b]52;a\x07"), "\x1b[1mx\x1b[0m 2J␛]52;a␇");
    }

    #[test]
    fn a_line_fits_its_columns() {
        assert_eq!(fit("世界世界", 5).as_str(), "世界…");
        assert_eq!(left("ab", 4).as_str(), "ab  ");
    }
}
