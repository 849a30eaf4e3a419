//! Parses plan files, including edited ones.

use super::line::{LineKind, PlanLine, PlanLines, unescaped};
use super::{Plan, Step, StepStatus};

/// Maximum characters of a line that an error quotes.
const SHOWN: usize = 60;

/// A problem in a plan file, which the user has to fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The file is too large.
    #[error("the plan has {bytes} bytes, the maximum is {}", Plan::MAX_BYTES)]
    TooLarge {
        /// Size of the file.
        bytes: usize,
    },
    /// The plan has no steps.
    #[error("the plan has no steps: start each with a line such as `## Step 1: what to do`")]
    NoSteps,
    /// The plan has too many steps.
    #[error("line {line}: more than {} steps: split the plan", Plan::MAX_STEPS)]
    TooManySteps {
        /// Line of the first step in excess, from 1.
        line: usize,
    },
    /// A status is unknown.
    #[error("line {line}: unknown status `{found}`: write `open`, `running`, `done` or `failed`")]
    UnknownStatus {
        /// Line number, from 1.
        line: usize,
        /// The start of the status text.
        found: String,
    },
    /// A step has two statuses.
    #[error("line {line}: duplicate status in the same step: remove one of them")]
    SecondStatus {
        /// Line number, from 1.
        line: usize,
    },
    /// A code block is not closed.
    #[error("line {line}: unclosed code fence: close it with a line of the same marks")]
    OpenFence {
        /// Line number, from 1.
        line: usize,
    },
    /// The requested step does not exist.
    #[error("there is no step {step}: the plan has {steps}")]
    NoSuchStep {
        /// Number of the step, from 1.
        step: usize,
        /// Number of steps in the plan.
        steps: usize,
    },
}

impl Plan {
    /// Parses a plan file into a plan of normal form.
    ///
    /// # Errors
    /// Fails if the file is too large, has no steps or violates the format: see [`PlanError`].
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        if text.len() > Self::MAX_BYTES {
            return Err(PlanError::TooLarge { bytes: text.len() });
        }
        let mut draft = PlanDraft::default();
        let mut lines = PlanLines::from_text(text);
        lines.by_ref().try_for_each(|line| draft.read_line(line))?;
        match lines.open_fence() {
            Some(line) => Err(PlanError::OpenFence { line }),
            None if draft.plan.steps.is_empty() => Err(PlanError::NoSteps),
            None => Ok(draft.plan.normal()),
        }
    }

    /// Sets the status of a step, counted from 0, in the text of a plan file. Changes only the status line, or adds one
    /// below the heading; all other bytes remain the same.
    ///
    /// # Errors
    /// Fails if the step does not exist, or an unclosed code block hides its end.
    pub fn set_status(text: &str, index: usize, status: StepStatus) -> Result<String, PlanError> {
        let (mut steps, mut heading, mut old) = (0, None, None);
        let mut lines = PlanLines::from_text(text);
        for line in lines.by_ref() {
            let is_in_step = steps == index + 1;
            match line.kind {
                LineKind::Step(_) => {
                    heading = if steps == index { Some(line) } else { heading };
                    steps += 1;
                }
                LineKind::Status(_) if is_in_step && old.is_none() => old = Some(line),
                _ => {}
            }
        }
        if let Some(line) = lines.open_fence() {
            return Err(PlanError::OpenFence { line });
        }
        let heading = heading.ok_or(PlanError::NoSuchStep { step: index + 1, steps })?;
        Ok(match old {
            Some(line) => replaced(text, line, &format!("Status: {status}{}", line.end)),
            None => {
                // If the heading is the last line and has no line ending, it gets one and the new line does not.
                let end = match heading.end {
                    "" if text.contains("\r\n") => "\r\n",
                    "" => "\n",
                    end => end,
                };
                replaced(text, heading, &format!("{}{end}Status: {status}{}", heading.text, heading.end))
            }
        })
    }
}

fn replaced(text: &str, line: PlanLine<'_>, by: &str) -> String {
    let (before, after) = (&text[..line.start], &text[line.start + line.text.len() + line.end.len()..]);
    [before, by, after].concat()
}

/// A plan while it is being parsed.
#[derive(Default)]
struct PlanDraft {
    plan: Plan,
    list: Option<List>,
    has_status: bool,
}

/// The list that items belong to.
#[derive(Clone, Copy)]
enum List {
    Files,
    Acceptance,
}

impl PlanDraft {
    fn read_line(&mut self, line: PlanLine<'_>) -> Result<(), PlanError> {
        match line.kind {
            LineKind::Title(title) => self.plan.title = title.to_owned(),
            LineKind::Step(heading) => self.start_step(heading, line.number)?,
            LineKind::Status(said) => self.status(said, line.number)?,
            LineKind::Files => self.list = Some(List::Files),
            LineKind::DoneWhen => self.list = Some(List::Acceptance),
            LineKind::Code => self.text(line.text),
            LineKind::Text if self.item(line.text) => {}
            LineKind::Text => self.text(&unescaped(line.text)),
        }
        Ok(())
    }

    fn start_step(&mut self, heading: &str, line: usize) -> Result<(), PlanError> {
        if self.plan.steps.len() == Plan::MAX_STEPS {
            return Err(PlanError::TooManySteps { line });
        }
        self.plan.steps.push(Step { title: without_number(heading).to_owned(), ..Step::default() });
        (self.list, self.has_status) = (None, false);
        Ok(())
    }

    fn status(&mut self, said: &str, line: usize) -> Result<(), PlanError> {
        let unknown = || PlanError::UnknownStatus { line, found: said.escape_debug().take(SHOWN).collect() };
        let status = StepStatus::of_word(said).ok_or_else(unknown)?;
        if std::mem::replace(&mut self.has_status, true) {
            return Err(PlanError::SecondStatus { line });
        }
        self.list = None;
        if let Some(step) = self.plan.steps.last_mut() {
            step.status = status;
        }
        Ok(())
    }

    /// Adds a line to the current list. Returns false, and ends the list, if the line does not belong to it.
    fn item(&mut self, line: &str) -> bool {
        let (Some(list), Some(step)) = (self.list, self.plan.steps.last_mut()) else { return false };
        let items = match list {
            List::Files => &mut step.files,
            List::Acceptance => &mut step.acceptance,
        };
        let text = line.trim_start();
        match (without_bullet(text), items.last_mut()) {
            _ if text.is_empty() => {}
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(last)) if text.len() < line.len() => last.extend([" ", text]),
            (None, _) => {
                self.list = None;
                return false;
            }
        }
        true
    }

    fn text(&mut self, line: &str) {
        self.list = None;
        let text = match self.plan.steps.last_mut() {
            Some(step) => &mut step.description,
            None => &mut self.plan.summary,
        };
        text.extend([line, "\n"]);
    }
}

/// Removes the prefix `Step 3:`, which is for people.
fn without_number(heading: &str) -> &str {
    let title = || {
        let (name, title) = heading.split_once(':')?;
        let (word, number) = name.split_once(char::is_whitespace)?;
        let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        (word.eq_ignore_ascii_case("step") && is_number).then_some(title)
    };
    title().unwrap_or(heading).trim()
}

/// Returns a list item without its `-`, `*`, `+`, `1.` or `1)`; `None` if the text is not a list item.
fn without_bullet(text: &str) -> Option<&str> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let marks: &[char] = if digits > 0 { &['.', ')'] } else { &['-', '*', '+'] };
    let item = text[digits..].strip_prefix(marks)?;
    (item.is_empty() || item.starts_with(char::is_whitespace)).then(|| item.trim())
}
