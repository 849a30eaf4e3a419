//! Finds the parts of code, with the grammars of two-face.

use crate::highlight::{HighlightJob, Highlighted, HighlightedLine, MAX_LINE, SyntaxKind};
use std::time::{Duration, Instant};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

/// Time limit for a block; the rest stays plain. The expressions of some grammars take long on some texts.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Scopes of grammars and the parts that they stand for. The most specific scope comes first.
const SCOPES: &[(&str, SyntaxKind)] = &[
    ("comment", SyntaxKind::Comment),
    ("constant.character", SyntaxKind::Literal),
    ("string", SyntaxKind::String),
    ("constant", SyntaxKind::Literal),
    ("keyword.operator", SyntaxKind::Text),
    ("keyword", SyntaxKind::Keyword),
    ("storage.type.function", SyntaxKind::Keyword),
    ("storage", SyntaxKind::Keyword),
    ("variable.language", SyntaxKind::Keyword),
    ("entity.name.function", SyntaxKind::Function),
    ("support.function", SyntaxKind::Function),
    ("variable.function", SyntaxKind::Function),
    ("entity.other.attribute-name", SyntaxKind::Function),
    ("entity.name", SyntaxKind::Name),
    ("entity.other", SyntaxKind::Name),
    ("support", SyntaxKind::Name),
    ("markup.heading", SyntaxKind::Keyword),
    ("markup.inserted", SyntaxKind::String),
    ("markup.deleted", SyntaxKind::Keyword),
    ("markup.raw", SyntaxKind::String),
];

/// Finds the parts of blocks, one after another. Loads the grammars with the first one.
#[derive(Default)]
pub struct Highlighter {
    grammars: Option<(SyntaxSet, Vec<(Scope, SyntaxKind)>)>,
    /// The block that may continue, and the state behind it.
    last: Option<(Highlighted, ParseState, ScopeStack)>,
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Highlighter").field("is_loaded", &self.grammars.is_some()).finish()
    }
}

impl Highlighter {
    /// Finds the parts of a block. Takes milliseconds, or about a second for a text that is made to take long.
    pub fn run(&mut self, job: HighlightJob) -> Highlighted {
        let (grammars, scopes) = self.grammars.get_or_insert_with(|| (two_face::syntax::extra_newlines(), scopes()));
        let Some(grammar) = grammars.find_syntax_by_token(&job.language) else {
            return Highlighted { job, parts: Vec::new() };
        };
        let lines: Vec<&str> = job.lines.iter().map(String::as_str).collect();
        let begun =
            self.last.take().filter(|(block, ..)| block.is_complete() && block.job.is_prefix(&job.language, &lines));
        let (mut parts, mut state, mut stack) = match begun {
            Some((block, state, stack)) => (block.parts, state, stack),
            None => (Vec::new(), ParseState::new(grammar), ScopeStack::new()),
        };
        let end = Instant::now() + MAX_TIME;
        for line in &job.lines[parts.len()..] {
            let parsed = (line.len() <= MAX_LINE && Instant::now() < end).then_some(());
            let Some(found) = parsed.and_then(|()| parse(line, &mut state, &mut stack, grammars, scopes)) else {
                break;
            };
            parts.push(found);
        }
        let block = Highlighted { job, parts };
        self.last = Some((block.clone(), state, stack));
        block
    }
}

impl Highlighted {
    fn is_complete(&self) -> bool {
        self.parts.len() == self.job.lines.len()
    }
}

fn scopes() -> Vec<(Scope, SyntaxKind)> {
    SCOPES.iter().filter_map(|(name, part)| Some((Scope::new(name).ok()?, *part))).collect()
}

fn parse(
    line: &str,
    state: &mut ParseState,
    stack: &mut ScopeStack,
    grammars: &SyntaxSet,
    scopes: &[(Scope, SyntaxKind)],
) -> Option<HighlightedLine> {
    let operations = state.parse_line(&format!("{line}\n"), grammars).ok()?;
    let mut parts = HighlightedLine::new();
    for (at, operation) in operations {
        end_part(&mut parts, at.min(line.len()), classify_scope(stack, scopes));
        stack.apply(&operation).ok()?;
    }
    end_part(&mut parts, line.len(), classify_scope(stack, scopes));
    Some(parts)
}

/// Ends a part at an offset. Neighbours of one kind are one part.
fn end_part(parts: &mut HighlightedLine, end: usize, part: SyntaxKind) {
    let start = parts.last().map_or(0, |(end, _)| *end);
    match parts.last_mut() {
        _ if end <= start => {}
        Some((last, kind)) if *kind == part => *last = end,
        _ => parts.push((end, part)),
    }
}

/// Returns the part that the innermost known scope stands for.
fn classify_scope(stack: &ScopeStack, scopes: &[(Scope, SyntaxKind)]) -> SyntaxKind {
    let known = |scope: &Scope| scopes.iter().find(|(known, _)| known.is_prefix_of(*scope)).map(|(_, part)| *part);
    stack.as_slice().iter().rev().find_map(known).unwrap_or(SyntaxKind::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(language: &str, text: &str) -> Vec<HighlightedLine> {
        let lines = text.split('\n').map(str::to_owned).collect();
        Highlighter::default().run(HighlightJob { language: language.to_owned(), lines }).parts
    }

    fn parts_of<'a>(text: &'a str, parts: &[HighlightedLine], part: SyntaxKind) -> Vec<&'a str> {
        let mut found = Vec::new();
        for (line, parts) in text.split('\n').zip(parts) {
            let mut start = 0;
            for (end, kind) in parts {
                found.extend((*kind == part).then_some(&line[start..*end]));
                start = *end;
            }
        }
        found
    }

    #[test]
    fn common_languages_have_grammars() {
        for language in [
            "rust",
            "rs",
            "python",
            "js",
            "ts",
            "tsx",
            "go",
            "sh",
            "bash",
            "json",
            "toml",
            "yaml",
            "c",
            "cpp",
            "java",
            "html",
            "css",
            "sql",
            "diff",
            "dockerfile",
            "markdown",
            "kotlin",
            "swift",
            "lua",
            "ruby",
            "make",
        ] {
            assert_eq!(run(language, "x").len(), 1, "{language}");
        }
        assert_eq!(run("no such language", "x"), Vec::<HighlightedLine>::new());
    }

    #[test]
    fn parts_of_rust_are_found_over_lines() {
        let text = "/* a\nb */ fn main() {\n    let s = \"text\";\n}";
        let parts = run("rust", text);
        assert_eq!(parts_of(text, &parts, SyntaxKind::Comment), ["/* a", "b */"]);
        assert_eq!(parts_of(text, &parts, SyntaxKind::String), ["\"text\""]);
        assert_eq!(parts_of(text, &parts, SyntaxKind::Function), ["main"]);
        assert!(parts_of(text, &parts, SyntaxKind::Keyword).contains(&"let"));
    }

    #[test]
    fn rest_of_a_block_stays_plain_behind_a_long_line() {
        let text = format!("a\n{}\nb", "x".repeat(MAX_LINE + 1));
        assert_eq!(run("rust", &text).len(), 1);
    }
}
