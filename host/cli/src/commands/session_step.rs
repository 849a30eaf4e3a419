//! `pinion session step`: the calls of a session, forwards and backwards.

use crate::commands::recorded_imports::{PrintedImports, RecordedImports};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::output::count;
use pinion_app::undo::calls::{CallHistory, SessionCall, diff_between};
use pinion_app::workspace_base::Base;
use pinion_checkpoints::Diff;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, note, print, text};
use pinion_session_store::SessionDirectory;

/// Lines of a result to show.
const MAX_RESULT_LINES: usize = 10;
/// Imports of a call to show.
const MAX_IMPORTS: usize = 50;

/// The arguments of `pinion session step`.
#[derive(Debug, Args)]
pub(super) struct StepArgs {
    /// ID of the session, or a unique prefix of it
    id: String,
}

/// The next action of a person who steps through calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepChoice {
    /// Show the call at this position.
    Show(usize),
    /// Show an explanation.
    Explain(&'static str),
    /// Stop.
    Quit,
}

impl StepArgs {
    pub(super) async fn run(self, base: &Base, directory: &SessionDirectory) -> Result<()> {
        let path = directory.find(&self.id).map_err(Failure::from)?;
        let history = CallHistory::read(base, &path).map_err(Failure::from)?;
        if history.calls.is_empty() {
            note(&text!("the session has no calls"));
            return Ok(());
        }
        let mut shown = ShownCalls { imports: RecordedImports::read(base, &path)?, history };
        if shown.imports.is_none() {
            note(&text!("! the session has no journal, so the imports of its calls are not known"));
        }
        if is_interactive() { shown.walk(base) } else { shown.print_all() }
    }
}

struct ShownCalls {
    history: CallHistory,
    imports: Option<RecordedImports>,
}

impl ShownCalls {
    fn print_all(&mut self) -> Result<()> {
        (0..self.history.calls.len()).try_for_each(|position| {
            let shown = self.shown(position)?;
            print(&shown)
        })
    }

    /// Shows one call after the other, as the user asks.
    fn walk(&mut self, base: &Base) -> Result<()> {
        let last = self.history.calls.len() - 1;
        let mut position = 0;
        print(&self.shown(position)?)?;
        loop {
            print(&text!("[n]ext, [p]revious, a number up to {}, [q]uit: ", last + 1))?;
            let line = base.screen.read_line();
            let line = line.map_err(|error| Failure::failed("could not read from the terminal").because(error))?;
            match choice(&line, position, last) {
                StepChoice::Quit => return Ok(()),
                StepChoice::Explain(reason) => print(&text!("{}\n", reason))?,
                StepChoice::Show(next) => {
                    position = next;
                    print(&self.shown(position)?)?;
                }
            }
        }
    }

    /// Describes the call at a position.
    fn shown(&mut self, position: usize) -> Result<Text> {
        let (mut out, calls) = (Text::default(), &self.history.calls);
        let Some(call) = calls.get(position) else { return Ok(out) };
        out.line(call_line(position + 1, call));
        match &call.result {
            Some(result) => {
                out.line(text!("  {}:", if result.is_error { "error" } else { "result" }));
                block(&mut out, &result.text, MAX_RESULT_LINES);
            }
            None => out.line(text!("  call of a sub-agent or of another call")),
        }
        if let Some(imports) = &mut self.imports {
            let session = call.result.as_ref().map(|_| self.history.session.as_str());
            for PrintedImports { plugin, lines } in imports.of_call(&call.id, session)? {
                out.line(text!("  {} of plugin {}:", count(lines.len() as u64, "import"), plugin));
                for line in lines.iter().take(MAX_IMPORTS) {
                    out.line(text!("    {}", line.as_str()));
                }
                more(&mut out, lines.len().saturating_sub(MAX_IMPORTS));
            }
        }
        let diff = match (call.snapshots, &self.history.store) {
            (Some((before, after)), Some(store)) => diff_between(store, before, after),
            _ => return Ok(out),
        };
        match diff {
            Ok(diff) if diff.changes == 0 => out.line(text!("  no files changed")),
            Ok(diff) => {
                out.line(text!("  {} changed:", count(diff.changes as u64, "path")));
                diff_lines(&mut out, &diff);
            }
            Err(error) => out.line(text!("  ! the changes are not known: {}", error.to_string())),
        }
        Ok(out)
    }
}

fn choice(line: &str, position: usize, last: usize) -> StepChoice {
    // Without a line break, the input has ended.
    if line.is_empty() {
        return StepChoice::Quit;
    }
    match line.trim() {
        "" | "n" if position < last => StepChoice::Show(position + 1),
        "" | "n" => StepChoice::Explain("this is the last call"),
        "p" if position > 0 => StepChoice::Show(position - 1),
        "p" => StepChoice::Explain("this is the first call"),
        "q" => StepChoice::Quit,
        number => match number.parse::<usize>() {
            Ok(number) if (1..=last + 1).contains(&number) => StepChoice::Show(number - 1),
            _ => StepChoice::Explain("there is no such call"),
        },
    }
}

/// Names a call in one line.
pub(super) fn call_line(number: usize, call: &SessionCall) -> Text {
    text!("call {}: {} {}", number, call.tool, call.arguments)
}

/// Appends differences, indented, so that no line of a file can be mistaken for another line.
pub(super) fn diff_lines(out: &mut Text, diff: &Diff) {
    block(out, &diff.text, usize::MAX);
    more(out, diff.omitted);
}

fn block(out: &mut Text, content: &str, limit: usize) {
    for line in content.lines().take(limit) {
        out.line(text!("    {}", line));
    }
    more(out, content.lines().count().saturating_sub(limit));
}

fn more(out: &mut Text, omitted: usize) {
    if omitted > 0 {
        out.line(text!("    and {} more", omitted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stay_among_the_calls() {
        let cases = [
            ("\n", 0, StepChoice::Show(1)),
            ("n\n", 1, StepChoice::Show(2)),
            ("n\n", 2, StepChoice::Explain("this is the last call")),
            ("p\n", 0, StepChoice::Explain("this is the first call")),
            ("p\n", 2, StepChoice::Show(1)),
            ("3\n", 0, StepChoice::Show(2)),
            ("4\n", 0, StepChoice::Explain("there is no such call")),
            ("0\n", 0, StepChoice::Explain("there is no such call")),
            ("what\n", 0, StepChoice::Explain("there is no such call")),
            ("q\n", 0, StepChoice::Quit),
            ("", 0, StepChoice::Quit),
        ];
        for (line, position, expected) in cases {
            assert_eq!(choice(line, position, 2), expected, "{line:?} at {position}");
        }
    }
}
