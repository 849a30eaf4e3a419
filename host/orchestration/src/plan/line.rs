//! The lines of a plan file, and what each of them is.
//!
//! A text may hold lines that look like a part of the file. These are escaped by a backslash at the place where CommonMark
//! does it, too: before the first mark of a heading or fence, before the colon of a label. Whoever wrote backslashes there
//! gets one more, so that every text comes back as it was.

use super::StepStatus;

/// A line, where it is, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: usize,
    /// Where it begins in the file, in bytes.
    pub(super) start: usize,
    /// Without what ends it.
    pub(super) text: &'a str,
    /// What ends it: nothing, for the last one.
    pub(super) end: &'a str,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A heading of the first level, before all steps; its text.
    Title(&'a str),
    /// A heading of the second level; its text.
    Step(&'a str),
    /// What it says of the status.
    Status(&'a str),
    /// The files of a step follow.
    Files,
    /// The acceptance criteria of a step follow.
    DoneWhen,
    /// Text that may be escaped, or an item of a list.
    Text,
    /// In a code fence, its ends included.
    Code,
}

/// The lines of a plan file, in order.
pub(super) struct Lines<'a> {
    rest: &'a str,
    at: usize,
    number: usize,
    place: Place,
    fence: Option<(Fence, usize)>,
}

/// Where a line stands, as far as it matters for what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before everything.
    Top,
    /// Between the title and the first step.
    Summary,
    /// Directly below the heading of a step.
    BelowHeading,
    /// In a step.
    InStep,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        // Some editors begin a file with a mark of its encoding.
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { rest, at: text.len() - rest.len(), number: 0, place: Place::Top, fence: None }
    }

    /// The line on which a code fence begins that has not ended so far.
    pub(super) fn open_fence(&self) -> Option<usize> {
        self.fence.map(|(_, line)| line)
    }

    fn kind(&mut self, text: &'a str) -> Kind<'a> {
        if self.is_code(text) {
            return Kind::Code;
        }
        let place = self.place;
        let is_first = matches!(place, Place::Top | Place::BelowHeading);
        if is_first && !text.trim().is_empty() {
            self.place = if place == Place::Top { Place::Summary } else { Place::InStep };
        }
        if let Some(heading) = heading(text, "##") {
            self.place = Place::BelowHeading;
            return Kind::Step(heading);
        }
        match (place, label(text)) {
            (Place::Top, _) => heading(text, "#").map_or(Kind::Text, Kind::Title),
            (Place::BelowHeading, Some((Label::Status, said))) => Kind::Status(said),
            (Place::InStep, Some((Label::Status, said))) if StepStatus::of_word(said).is_some() => Kind::Status(said),
            (Place::BelowHeading | Place::InStep, Some((Label::Files, ""))) => Kind::Files,
            (Place::BelowHeading | Place::InStep, Some((Label::DoneWhen, ""))) => Kind::DoneWhen,
            _ => Kind::Text,
        }
    }

    fn is_code(&mut self, text: &str) -> bool {
        match self.fence {
            Some((fence, _)) if fence.is_closed_by(text) => self.fence = None,
            Some(_) => {}
            None => match Fence::opened_by(text) {
                Some(fence) => {
                    self.fence = Some((fence, self.number));
                    if self.place == Place::Top {
                        self.place = Place::Summary;
                    } else if self.place == Place::BelowHeading {
                        self.place = Place::InStep;
                    }
                }
                None => return false,
            },
        }
        true
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let whole = self.rest.split_inclusive('\n').next()?;
        let start = self.at;
        self.rest = &self.rest[whole.len()..];
        self.at += whole.len();
        self.number += 1;
        let text = whole.strip_suffix("\r\n").or_else(|| whole.strip_suffix('\n')).unwrap_or(whole);
        let kind = self.kind(text);
        Some(Line { number: self.number, start, text, end: &whole[text.len()..], kind })
    }
}

/// What begins a code block, and ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) mark: char,
    pub(super) length: usize,
}

impl Fence {
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let text = line.trim_start();
        let mark = text.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
        let length = text.chars().take_while(|c| *c == mark).count();
        // Code within a line may begin with three marks, too.
        let is_inline = mark == '`' && text[length..].contains('`');
        (length >= 3 && !is_inline).then_some(Self { mark, length })
    }

    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let text = line.trim();
        text.chars().all(|c| c == self.mark) && text.len() >= self.length
    }
}

/// The text of a heading, when it is one of this level.
fn heading<'a>(line: &'a str, marks: &str) -> Option<&'a str> {
    let text = line.strip_prefix(marks)?;
    (text.is_empty() || text.starts_with(char::is_whitespace)).then(|| text.trim())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Status,
    Files,
    DoneWhen,
}

impl Label {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Status, "Status"), (Self::Files, "Files"), (Self::DoneWhen, "Done when")];

    fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(label, _)| label)
    }
}

/// The label that a line begins with, and what comes after it.
fn label(line: &str) -> Option<(Label, &str)> {
    let (name, said) = line.split_once(':')?;
    Some((Label::of(name)?, said.trim()))
}

/// Where in a line the backslashes are that make it text, and how many; none when it would be text without them.
fn marks(line: &str) -> Option<(usize, usize)> {
    let text = line.trim_start();
    let bare = text.trim_start_matches('\\');
    let indent = line.len() - text.len();
    if Fence::opened_by(bare).is_some() || (indent == 0 && heading(bare, "##").is_some()) {
        return Some((indent, text.len() - bare.len()));
    }
    let (name, said) = line.split_once(':')?;
    let bare = name.trim_end_matches('\\');
    let is_read = match Label::of(bare)? {
        Label::Status => StepStatus::of_word(said).is_some(),
        Label::Files | Label::DoneWhen => said.trim().is_empty(),
    };
    is_read.then_some((bare.len(), name.len() - bare.len()))
}

/// A line of a text, so that it is read as one.
pub(super) fn escaped(line: &str) -> String {
    let mut line = line.to_owned();
    if let Some((at, _)) = marks(&line) {
        line.insert(at, '\\');
    }
    line
}

/// The line of a text that was written so.
pub(super) fn unescaped(line: &str) -> String {
    let mut line = line.to_owned();
    if let Some((at, 1..)) = marks(&line) {
        line.remove(at);
    }
    line
}
