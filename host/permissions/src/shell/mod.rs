//! Reads shell commands.
//!
//! Two readings must agree: the grammar of bash (`tree-sitter-bash`) finds the commands and where their words are, and
//! [`word`] reads each word by itself. Between the parts that the grammar found, only blanks may stand. Everything else
//! is [`Unreadable`], because a difference between this reader and bash is how a command hides.

mod computed;
mod here;
mod names;
mod unwrap;
mod walk;
pub mod word;

pub use word::{Kind, Word};

use crate::scene::Scene;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tree_sitter::{ParseOptions, Parser, Tree};

/// Maximum bytes of a command.
pub const MAX_BYTES: usize = 64 * 1024;
/// Maximum nesting of the grammar's nodes.
const MAX_DEPTH: usize = 100;
/// Maximum number of nodes.
const MAX_NODES: usize = 50_000;
/// Maximum number of simple commands, after unwrapping.
const MAX_COMMANDS: usize = 500;
/// Maximum nesting of commands in arguments, as in `bash -c "bash -c …"`.
const MAX_NESTING: usize = 4;
/// Time for the grammar.
const PARSE_TIME: Duration = Duration::from_millis(500);

/// The reason why a command cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(crate) String);

impl Unreadable {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A line as the shell would run it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// All simple commands, also those in substitutions, functions and arguments of wrappers.
    pub commands: Vec<Simple>,
    /// Reasons why the meaning of its commands is not certain: variables, functions and built-ins that change what follows.
    pub changes: Vec<String>,
    /// True if the shell may run what a variable, a pipe or a here-string holds, which no rule that denies sees.
    pub runs_data: bool,
    /// A function that starts itself over and over.
    pub is_fork_bomb: bool,
}

/// A simple command: a program with its arguments, or a built-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    /// The program and its arguments; at least one word.
    pub words: Vec<Word>,
    /// Variables that are set for it alone.
    pub assignments: Vec<(String, Word)>,
    /// Files that the shell opens for it.
    pub redirects: Vec<Redirect>,
    /// Directories in which it may start, all absolute; `None` if they are not known.
    pub directories: Option<Vec<PathBuf>>,
    /// True if another command's output is its input.
    pub reads_pipe: bool,
    /// Content of a here-document without expansions.
    pub here: Option<String>,
    /// The reason why nobody knows what it runs, such as `eval` of a variable.
    pub unknown: Option<&'static str>,
    /// True if it needs no permission by itself, because it is a guess or contained in a command that needs one. Rules that
    /// deny and ask still apply to it.
    pub is_contained: bool,
    /// True if the words may be no command at all, such as those behind the options of `ssh`.
    pub is_guess: bool,
}

/// A redirection to or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// False if the file is only read.
    pub writes: bool,
    /// The file.
    pub target: Word,
}

impl Simple {
    /// Returns the name of the program without its directory, if it is known.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first().and_then(Word::literal)?;
        Some(name.rsplit('/').next().unwrap_or(name))
    }

    /// Returns the command as a line, for people.
    pub fn line(&self) -> String {
        let assignments = self.assignments.iter().map(|(name, value)| format!("{name}={}", value.text));
        let line = assignments.chain(self.words.iter().map(Word::shown)).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(200) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// Reads a line.
///
/// # Errors
/// The line is too long or too deep, is no valid bash, or is written such that its reading is not certain.
pub fn parse(text: &str, scene: &Scene<'_>) -> Result<Script, Unreadable> {
    nested(text, scene, &Some(vec![crate::scene::normal(scene.directory)]), 0)
}

/// Reads a line in directories, as deep in arguments of other commands.
fn nested(
    text: &str,
    scene: &Scene<'_>,
    directories: &Option<Vec<PathBuf>>,
    depth: usize,
) -> Result<Script, Unreadable> {
    if depth > MAX_NESTING {
        return Err(Unreadable::new("commands are nested too deep"));
    }
    if text.len() > MAX_BYTES {
        return Err(Unreadable::new(format!("it is longer than {MAX_BYTES} bytes")));
    }
    if let Some(c) = text.chars().find(|c| is_strange(*c)) {
        return Err(Unreadable::new(format!("it contains the character U+{:04X}", u32::from(c))));
    }
    let mut tree = tree_of(text)?;
    let reordered = if tree.root_node().has_error() { here::reordered(text) } else { None };
    if let Some(text) = &reordered {
        tree = tree_of(text)?;
    }
    let text = reordered.as_deref().unwrap_or(text);
    let script = walk::walk(text, &tree, scene, directories, depth)?;
    match script.commands.len() > MAX_COMMANDS {
        true => Err(Unreadable::new(format!("it has more than {MAX_COMMANDS} commands"))),
        false => Ok(script),
    }
}

fn tree_of(text: &str) -> Result<Tree, Unreadable> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|error| Unreadable::new(error.to_string()))?;
    let until = Instant::now() + PARSE_TIME;
    let mut slow = |_: &tree_sitter::ParseState| {
        if Instant::now() > until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut slow);
    let bytes = text.as_bytes();
    let mut read = |at: usize, _: tree_sitter::Point| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    tree.ok_or_else(|| Unreadable::new("it takes too long to read"))
}

/// Returns whether a character has no place in a command, or looks like another one.
fn is_strange(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\t');
    let is_blank = c.is_whitespace() && !matches!(c, '\n' | '\t' | ' ');
    let is_invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{180e}'
        | '\u{61c}' | '\u{e0000}'..='\u{e0fff}');
    is_control || is_blank || is_invisible
}
