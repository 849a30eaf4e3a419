//! A line of commands as it was read.

use crate::shell::word::Word;
use std::path::PathBuf;

/// The reason why a command cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(crate) String);

impl Unreadable {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A line as the shell would run it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// All simple commands, also those in substitutions, functions and arguments of wrappers.
    pub commands: Vec<Simple>,
    /// Reasons why the meaning of its commands is not certain: variables, functions and built-ins that change the
    /// following commands.
    pub changes: Vec<String>,
    /// True if the shell may run the content of a variable, a pipe or a here-string, which rules that deny cannot see.
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
    /// Directories where it may start, all absolute; `None` if they are not known.
    pub directories: Option<Vec<PathBuf>>,
    /// True if another command's output is its input.
    pub reads_pipe: bool,
    /// Content of a here-document without expansions.
    pub here: Option<String>,
    /// The reason why the programs that it runs are not known, such as `eval` of a variable.
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
