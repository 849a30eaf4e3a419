//! Reads shell commands.
//!
//! Two readings must agree: the grammar of bash (`tree-sitter-bash`) finds the commands and where their words are, and
//! [`word`] reads each word by itself. Between the parts that the grammar found, only blanks may stand. Everything else
//! is [`Unreadable`], because a difference between this reader and bash is how a command hides.

mod computed;
mod here;
mod names;
pub(crate) mod script;
mod unwrap;
mod walk;
pub mod word;

pub use script::{Redirect, Script, Simple, Unreadable};
pub use word::{Word, WordKind};

use crate::command_scene::Scene;
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

/// Reads a line.
///
/// # Errors
/// The line is too long or too deep, is not valid bash, or is written such that its reading is not certain.
pub fn parse(text: &str, scene: &Scene<'_>) -> Result<Script, Unreadable> {
    nested(text, scene, &Some(vec![crate::command_scene::normal(scene.directory)]), 0)
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
