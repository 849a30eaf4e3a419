//! Reads one word of a command, independently of the grammar.

use crate::shell::script::Unreadable;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its text without quotes; the source if it is [`WordKind::Dynamic`].
    pub text: String,
    /// Share of it that is known.
    pub kind: WordKind,
}

/// The knowledge about a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordKind {
    /// The program gets exactly this text.
    Literal,
    /// The text is a pattern of file names.
    Pattern,
    /// The shell computes it.
    Dynamic,
}

impl Word {
    /// Creates a word that is known.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: WordKind::Literal }
    }

    pub(crate) fn dynamic(source: impl Into<String>) -> Self {
        Self { text: source.into(), kind: WordKind::Dynamic }
    }

    /// Returns the text if the program gets exactly this text.
    pub fn literal(&self) -> Option<&str> {
        (self.kind == WordKind::Literal).then_some(self.text.as_str())
    }

    /// Returns the word with quotes where it needs them.
    pub(crate) fn shown(&self) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || "_./:=@%+-,^".contains(c);
        match self.kind {
            WordKind::Literal if self.text.is_empty() || !self.text.chars().all(is_plain) => {
                format!("'{}'", self.text.replace('\'', "'\\''"))
            }
            _ => self.text.clone(),
        }
    }
}

/// Reads the source of one word. The shell's variable `HOME` and `~` stand for `home`.
///
/// # Errors
/// The source is not a single word.
pub fn read(source: &str, home: Option<&str>) -> Result<Word, Unreadable> {
    let mut reader = WordReader { rest: source, text: String::new(), home, is_pattern: false, brace: Brace::None };
    let kind = match reader.run(source)? {
        ReaderEnd::Dynamic => return Ok(Word::dynamic(source)),
        ReaderEnd::Known if reader.brace == Brace::Expands => return Ok(Word::dynamic(source)),
        ReaderEnd::Known if reader.is_pattern => WordKind::Pattern,
        ReaderEnd::Known => WordKind::Literal,
    };
    Ok(Word { text: reader.text, kind })
}

#[derive(PartialEq)]
enum ReaderEnd {
    Known,
    Dynamic,
}

#[derive(PartialEq)]
enum Brace {
    None,
    Open,
    Expands,
}

struct WordReader<'a> {
    rest: &'a str,
    text: String,
    home: Option<&'a str>,
    is_pattern: bool,
    brace: Brace,
}

impl WordReader<'_> {
    fn run(&mut self, source: &str) -> Result<ReaderEnd, Unreadable> {
        let refuse = |what: &str| Unreadable::new(format!("`{source}` has {what}"));
        let mut before = None;
        while let Some(c) = self.next() {
            match c {
                '\'' => {
                    let (quoted, rest) = self.rest.split_once('\'').ok_or_else(|| refuse("an open quote"))?;
                    self.text.push_str(quoted);
                    self.rest = rest;
                }
                '"' => {
                    if self.quoted().ok_or_else(|| refuse("an open quote"))? == ReaderEnd::Dynamic {
                        return Ok(ReaderEnd::Dynamic);
                    }
                }
                '\\' => match self.next() {
                    Some('\n') | None => return Err(refuse("a continued line")),
                    Some(escaped) => self.text.push(escaped),
                },
                '$' => match self.variable() {
                    Some(true) if !self.text.contains(char::is_whitespace) => {}
                    Some(_) => return Ok(ReaderEnd::Dynamic),
                    None => self.text.push('$'),
                },
                '`' => return Ok(ReaderEnd::Dynamic),
                '<' | '>' if self.rest.starts_with('(') => return Ok(ReaderEnd::Dynamic),
                '~' if before.is_none() => match (self.rest.chars().next(), self.home) {
                    (None | Some('/'), Some(home)) => self.text.push_str(home),
                    _ => return Ok(ReaderEnd::Dynamic),
                },
                '~' if matches!(before, Some('=' | ':')) => return Ok(ReaderEnd::Dynamic),
                '*' | '?' | '[' => {
                    self.is_pattern = true;
                    self.text.push(c);
                }
                '{' => {
                    self.brace = Brace::Open;
                    self.text.push(c);
                }
                ',' | '.' if self.brace == Brace::Open => {
                    if c == ',' || self.rest.starts_with('.') {
                        self.brace = Brace::Expands;
                    }
                    self.text.push(c);
                }
                '#' if before.is_none() => return Err(refuse("a comment")),
                ' ' | '\t' | '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')' => {
                    return Err(refuse(&format!("an unquoted `{}`", c.escape_default())));
                }
                c => self.text.push(c),
            }
            before = Some(c);
        }
        Ok(ReaderEnd::Known)
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(c)
    }

    /// Reads a quoted text to its end; `None` if it has no end.
    fn quoted(&mut self) -> Option<ReaderEnd> {
        loop {
            match self.next()? {
                '"' => return Some(ReaderEnd::Known),
                '\\' => match self.next()? {
                    '\n' => {}
                    c @ ('$' | '`' | '"' | '\\') => self.text.push(c),
                    c => self.text.extend(['\\', c]),
                },
                '`' => return Some(ReaderEnd::Dynamic),
                '$' if self.rest.starts_with(['"', '\'']) => self.text.push('$'),
                '$' => match self.variable() {
                    Some(true) => {}
                    Some(false) => return Some(ReaderEnd::Dynamic),
                    None => self.text.push('$'),
                },
                c => self.text.push(c),
            }
        }
    }

    /// Reads a variable behind `$`. Returns whether it is known; `None` if it is not a variable.
    fn variable(&mut self) -> Option<bool> {
        let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let end = self.rest.find(|c: char| !is_name(c)).unwrap_or(self.rest.len());
        let (used, is_home) = match (&self.rest[..end], self.rest.strip_prefix("{HOME}")) {
            ("HOME", _) => (end, true),
            (_, Some(_)) => ("{HOME}".len(), true),
            ("", _) => {
                let is_expansion = |c: char| "({[@*#?-$!'\"".contains(c);
                return self.rest.starts_with(is_expansion).then_some(false);
            }
            _ => return Some(false),
        };
        let Some(home) = self.home.filter(|_| is_home) else { return Some(false) };
        self.text.push_str(home);
        self.rest = &self.rest[used..];
        Some(true)
    }
}
