//! Splits a plan file into lines and classifies them.
//!
//! A text may contain lines that look like syntax of the file. They are escaped with a backslash, as in CommonMark:
//! before the first mark of a heading or fence, or before the colon of a label. If the text already has backslashes
//! there, one more is added, so that every text round-trips.

use super::StepStatus;

/// A line with its position and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlanLine<'a> {
    /// Line number, counted from 1.
    pub(super) number: usize,
    /// Byte offset of the line in the file.
    pub(super) start: usize,
    /// Text without the line ending.
    pub(super) text: &'a str,
    /// Line ending; may be empty for the last line.
    pub(super) end: &'a str,
    pub(super) kind: LineKind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind<'a> {
    /// A first-level heading before all steps, with its text.
    Title(&'a str),
    /// A second-level heading, with its text.
    Step(&'a str),
    /// A status line, with its value.
    Status(&'a str),
    /// The label before the files of a step.
    Files,
    /// The label before the acceptance criteria of a step.
    DoneWhen,
    /// Text that may be escaped, or a list item.
    Text,
    /// A line of a fenced code block, including its fences.
    Code,
}

/// Iterator over the lines of a plan file.
pub(super) struct PlanLines<'a> {
    rest: &'a str,
    at: usize,
    number: usize,
    section: Section,
    fence: Option<(Fence, usize)>,
}

/// The section of a line, if it affects the kind of the line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Start of the file, before the title.
    Top,
    /// Text between the title and the first step.
    Summary,
    /// Space below the heading of a step, before its first text.
    BelowHeading,
    /// Body of a step.
    InStep,
}

impl<'a> PlanLines<'a> {
    pub(super) fn from_text(text: &'a str) -> Self {
        // Some editors write a byte order mark.
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { rest, at: text.len() - rest.len(), number: 0, section: Section::Top, fence: None }
    }

    /// Returns the line number of the opening fence of an unclosed code block.
    pub(super) fn open_fence(&self) -> Option<usize> {
        self.fence.map(|(_, line)| line)
    }

    fn kind(&mut self, text: &'a str) -> LineKind<'a> {
        if self.is_code(text) {
            return LineKind::Code;
        }
        let section = self.section;
        let is_first = matches!(section, Section::Top | Section::BelowHeading);
        if is_first && !text.trim().is_empty() {
            self.section = if section == Section::Top { Section::Summary } else { Section::InStep };
        }
        if let Some(heading) = heading(text, "##") {
            self.section = Section::BelowHeading;
            return LineKind::Step(heading);
        }
        match (section, label(text)) {
            (Section::Top, _) => heading(text, "#").map_or(LineKind::Text, LineKind::Title),
            (Section::BelowHeading, Some((Label::Status, said))) => LineKind::Status(said),
            (Section::InStep, Some((Label::Status, said))) if StepStatus::of_word(said).is_some() => {
                LineKind::Status(said)
            }
            (Section::BelowHeading | Section::InStep, Some((Label::Files, ""))) => LineKind::Files,
            (Section::BelowHeading | Section::InStep, Some((Label::DoneWhen, ""))) => LineKind::DoneWhen,
            _ => LineKind::Text,
        }
    }

    fn is_code(&mut self, text: &str) -> bool {
        match self.fence {
            Some((fence, _)) if fence.is_closed_by(text) => self.fence = None,
            Some(_) => {}
            None => match Fence::opened_by(text) {
                Some(fence) => {
                    self.fence = Some((fence, self.number));
                    if self.section == Section::Top {
                        self.section = Section::Summary;
                    } else if self.section == Section::BelowHeading {
                        self.section = Section::InStep;
                    }
                }
                None => return false,
            },
        }
        true
    }
}

impl<'a> Iterator for PlanLines<'a> {
    type Item = PlanLine<'a>;

    fn next(&mut self) -> Option<PlanLine<'a>> {
        let line = self.rest.split_inclusive('\n').next()?;
        let start = self.at;
        self.rest = &self.rest[line.len()..];
        self.at += line.len();
        self.number += 1;
        let text = line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line);
        let kind = self.kind(text);
        Some(PlanLine { number: self.number, start, text, end: &line[text.len()..], kind })
    }
}

/// A fence of a code block.
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
        // Inline code may also start with three marks.
        let is_inline = mark == '`' && text[length..].contains('`');
        (length >= 3 && !is_inline).then_some(Self { mark, length })
    }

    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let text = line.trim();
        text.chars().all(|c| c == self.mark) && text.len() >= self.length
    }
}

/// Returns the text of a heading of the level given by `marks`.
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

    fn parse_label(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(label, _)| label)
    }
}

/// Splits a line into its label and the rest.
fn label(line: &str) -> Option<(Label, &str)> {
    let (name, said) = line.split_once(':')?;
    Some((Label::parse_label(name)?, said.trim()))
}

/// Returns the offset and the number of the backslashes that escape a line; `None` if the line is text without them.
fn marks(line: &str) -> Option<(usize, usize)> {
    let text = line.trim_start();
    let bare = text.trim_start_matches('\\');
    let indent = line.len() - text.len();
    if Fence::opened_by(bare).is_some() || (indent == 0 && heading(bare, "##").is_some()) {
        return Some((indent, text.len() - bare.len()));
    }
    let (name, said) = line.split_once(':')?;
    let bare = name.trim_end_matches('\\');
    let is_read = match Label::parse_label(bare)? {
        Label::Status => StepStatus::of_word(said).is_some(),
        Label::Files | Label::DoneWhen => said.trim().is_empty(),
    };
    is_read.then_some((bare.len(), name.len() - bare.len()))
}

/// Escapes a line, so that it is parsed as text.
pub(super) fn escaped(line: &str) -> String {
    let mut line = line.to_owned();
    if let Some((at, _)) = marks(&line) {
        line.insert(at, '\\');
    }
    line
}

/// Removes the escape of a line, if it has one.
pub(super) fn unescaped(line: &str) -> String {
    let mut line = line.to_owned();
    if let Some((at, 1..)) = marks(&line) {
        line.remove(at);
    }
    line
}
