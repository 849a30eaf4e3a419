//! One rule about commands, directories or hosts.

use crate::command_scene::{glob, normal};
use crate::shell::{Simple, Word, WordKind, word};
use crate::tool_rule::{self, ToolName, ToolRule};
use crate::{git, options};
use std::path::{Component, Path, PathBuf};

/// Maximum bytes of a rule.
const MAX_BYTES: usize = 1_000;

/// A rule without its effect: the calls that it is about.
///
/// Written as the beginning of a command (`cargo test`, `git push --force`), as `write:DIRECTORY` or `read:DIRECTORY`,
/// as `net:HOST`, where `*.` stands for all hosts below, as `mcp:SERVER` or `mcp:SERVER/TOOL`, or as `tool:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    subject: RuleSubject,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleSubject {
    Command(Vec<Word>),
    Write(String),
    Read(String),
    Host(String),
    Tool(ToolRule),
}

/// The reason why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule `{rule}`: {reason}")]
pub struct RuleError {
    rule: String,
    reason: String,
}

/// The certainty that a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hit {
    No,
    /// The shell computes the words that decide.
    Maybe,
    Yes,
}

impl Rule {
    /// Reads a rule. `~` stands for `home`.
    ///
    /// # Errors
    /// The text is not a rule.
    pub fn parse(text: &str, home: Option<&Path>) -> Result<Self, RuleError> {
        let trimmed = text.trim();
        let failed = |reason: &str| RuleError { rule: text.chars().take(100).collect(), reason: reason.to_owned() };
        if trimmed.is_empty() || trimmed.len() > MAX_BYTES || trimmed.chars().any(char::is_control) {
            return Err(failed("it is empty, too long, or contains control characters"));
        }
        let home = home.and_then(|home| home.to_str());
        let path = |path: &str| match (path.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => Ok(format!("{home}{rest}")),
            _ if path.is_empty() => Err(failed("a directory is missing")),
            _ => Ok(path.to_owned()),
        };
        if let Some(form) = tool_rule::other_form(trimmed) {
            return Err(failed(&form));
        }
        let subject = match trimmed.split_once(':') {
            Some(("write", at)) => RuleSubject::Write(path(at.trim())?),
            Some(("read", at)) => RuleSubject::Read(path(at.trim())?),
            Some(("net", host)) => {
                let host = host.trim().trim_end_matches('.').to_ascii_lowercase();
                let plain = host.strip_prefix("*.").unwrap_or(&host);
                let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
                if host != "*" && (plain.is_empty() || !plain.chars().all(is_host)) {
                    return Err(failed(
                        "`net:` takes the name of a host, such as `net:example.com` or `net:*.example.com`",
                    ));
                }
                RuleSubject::Host(host)
            }
            Some((kind @ ("mcp" | "tool"), name)) => {
                RuleSubject::Tool(ToolRule::parse(kind, name.trim()).map_err(failed)?)
            }
            Some((kind, _)) if tool_rule::is_kind(kind) => return Err(failed(tool_rule::KINDS)),
            _ => RuleSubject::Command(split_words(trimmed, home).map_err(|reason| failed(&reason))?),
        };
        Ok(Self { text: trimmed.to_owned(), subject })
    }

    /// Returns the rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the rule contains `*`, which rules that allow may not.
    pub fn has_pattern(&self) -> bool {
        match &self.subject {
            RuleSubject::Command(words) => words.iter().any(|word| word.kind == WordKind::Pattern),
            RuleSubject::Write(path) | RuleSubject::Read(path) => path.contains('*'),
            RuleSubject::Host(host) => host == "*",
            RuleSubject::Tool(rule) => rule.has_pattern(),
        }
    }

    /// Returns whether the rule is about tools of MCP servers or plugins.
    pub fn is_about_tools(&self) -> bool {
        matches!(self.subject, RuleSubject::Tool(_))
    }

    /// Returns whether the rule is about a tool.
    pub fn covers_tool(&self, tool: &ToolName) -> bool {
        matches!(&self.subject, RuleSubject::Tool(rule) if rule.covers(tool))
    }

    /// Returns the number of words of a command that the rule covers by being its beginning, exactly as written.
    pub(crate) fn prefix(&self, command: &Simple) -> Option<usize> {
        let RuleSubject::Command(words) = &self.subject else { return None };
        let is_same = |(wanted, given): (&Word, &Word)| wanted.kind == WordKind::Literal && wanted == given;
        let is_prefix = words.len() <= command.words.len() && words.iter().zip(&command.words).all(is_same);
        is_prefix.then_some(words.len())
    }

    /// Returns whether a rule that denies or asks applies: the program by its name, options at any place and in any
    /// grouping and spelling, and other words in their order.
    pub(crate) fn hits(&self, command: &Simple) -> Hit {
        let RuleSubject::Command(words) = &self.subject else { return Hit::No };
        let hit = Self::hit(words, command);
        git::in_other_words(command).map_or(hit, |same| hit.max(Self::hit(words, &same)))
    }

    fn hit(words: &[Word], command: &Simple) -> Hit {
        let program = match command.program() {
            Some(name) if matches_text(&words[0], name) => Hit::Yes,
            Some(name) if words[0].text.contains('/') && command.words[0].text == words[0].text && !name.is_empty() => {
                Hit::Yes
            }
            Some(_) => return Hit::No,
            None => Hit::Maybe,
        };
        let arguments = &command.words[1..];
        let is_computed = arguments.iter().any(|word| word.kind != WordKind::Literal);
        let (mut at, mut certain) = (0, program);
        for wanted in &words[1..] {
            let found = match wanted.text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                Some(option) => {
                    arguments.iter().any(|given| has_option(given, option))
                        || has_letters(arguments, option)
                        || options::has(command, &wanted.text)
                }
                None => {
                    let found = arguments[at..].iter().position(|given| is_word(wanted, given));
                    at += found.map_or(0, |found| found + 1);
                    found.is_some()
                }
            };
            match (found, is_computed) {
                (true, _) => {}
                (false, true) => certain = Hit::Maybe,
                (false, false) => return Hit::No,
            }
        }
        certain
    }

    /// Returns whether the rule is about writing (or reading) a path, which is absolute and normal.
    pub(crate) fn covers_path(&self, writes: bool, path: &Path, workspace: &Path) -> bool {
        let of = match (&self.subject, writes) {
            (RuleSubject::Write(of), true) | (RuleSubject::Read(of), false) => of,
            _ => return false,
        };
        let absolute: PathBuf = normal(&workspace.join(of));
        match absolute.to_str().zip(path.to_str()) {
            Some((pattern, path)) if pattern.contains('*') => glob(pattern, path),
            _ => path.starts_with(absolute),
        }
    }

    /// Returns whether the rule may be about writing (or reading) a file that an absolute pattern of the shell stands for.
    pub(crate) fn may_cover_pattern(&self, writes: bool, pattern: &Path, workspace: &Path) -> bool {
        let of = match (&self.subject, writes) {
            (RuleSubject::Write(of), true) | (RuleSubject::Read(of), false) => of,
            _ => return false,
        };
        if of.contains('*') || pattern.components().any(|part| part == Component::ParentDir) {
            return true;
        }
        let mut given = pattern.components();
        for wanted in normal(&workspace.join(of)).components() {
            let Some(part) = given.next() else { return false };
            let (part, wanted) = (part.as_os_str().to_string_lossy(), wanted.as_os_str().to_string_lossy());
            if part.contains(['{', '\\', '\'', '"']) {
                return true;
            }
            if !part.contains('[') && !glob(&part.replace('?', "*"), &wanted) {
                return false;
            }
        }
        true
    }

    /// Returns whether the rule is about writing, and the path as it was written; `None` if it is not about files.
    pub fn file(&self) -> Option<(bool, &str)> {
        match &self.subject {
            RuleSubject::Write(path) => Some((true, path)),
            RuleSubject::Read(path) => Some((false, path)),
            RuleSubject::Command(_) | RuleSubject::Host(_) | RuleSubject::Tool(_) => None,
        }
    }

    /// Returns the host that the rule is about; `*.` in it stands for all hosts below.
    pub fn host(&self) -> Option<&str> {
        match &self.subject {
            RuleSubject::Host(host) => Some(host),
            RuleSubject::Command(_) | RuleSubject::Write(_) | RuleSubject::Read(_) | RuleSubject::Tool(_) => None,
        }
    }

    /// Returns whether the rule is about files.
    pub(crate) fn is_about_files(&self) -> bool {
        matches!(self.subject, RuleSubject::Write(_) | RuleSubject::Read(_))
    }

    /// Returns whether the rule is about writing files.
    pub(crate) fn is_about_writing(&self) -> bool {
        matches!(self.subject, RuleSubject::Write(_))
    }

    /// Returns whether the rule is about connections to this host.
    pub(crate) fn covers_host(&self, host: &str) -> bool {
        let RuleSubject::Host(of) = &self.subject else { return false };
        match of.strip_prefix("*.") {
            Some(below) => host.strip_suffix(below).is_some_and(|rest| rest.ends_with('.')),
            None => of == "*" || of == host,
        }
    }
}

/// Splits the text of a rule into words. A star stands for any text, unless it is quoted or escaped.
fn split_words(text: &str, home: Option<&str>) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    for (start, end) in word_ranges(text)? {
        let read = word::read(&text[start..end], home).map_err(|error| error.to_string())?;
        match read.kind {
            WordKind::Dynamic => return Err("a rule cannot contain variables or substitutions".to_owned()),
            _ => words.push(read),
        }
    }
    match words.first() {
        Some(first) if first.text != "*" => Ok(words),
        _ => Err("it names no program".to_owned()),
    }
}

/// Returns where the words of a text are.
fn word_ranges(text: &str) -> Result<Vec<(usize, usize)>, String> {
    let (mut ranges, mut start, mut quote, mut is_escaped) = (Vec::new(), None, None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(open) => {
                if c == open {
                    quote = None;
                }
            }
            None if is_escaped => is_escaped = false,
            None if c == ' ' => {
                ranges.extend(start.take().map(|start| (start, at)));
                continue;
            }
            None => {
                is_escaped = c == '\\';
                quote = Some(c).filter(|c| matches!(c, '\'' | '"'));
            }
        }
        start.get_or_insert(at);
    }
    ranges.extend(start.map(|start| (start, text.len())));
    if quote.is_some() || is_escaped { Err("a quote is open".to_owned()) } else { Ok(ranges) }
}

/// Returns whether a word of a command is one of a rule. Spellings of the same path count as the same.
fn is_word(wanted: &Word, given: &Word) -> bool {
    match given.kind {
        WordKind::Dynamic => false,
        // `/*` in a rule that is quoted stands for the pattern itself.
        WordKind::Pattern => wanted.text == given.text,
        WordKind::Literal => matches_text(wanted, &given.text) || matches_text(wanted, &plain(&given.text)),
    }
}

fn matches_text(wanted: &Word, text: &str) -> bool {
    match wanted.kind {
        WordKind::Pattern => glob(&wanted.text, text),
        _ => wanted.text == text,
    }
}

/// Returns an absolute path in its shortest spelling, and any other word without slashes at its end.
fn plain(text: &str) -> String {
    match text.starts_with('/') {
        true => normal(Path::new(text)).display().to_string(),
        false => text.trim_end_matches('/').to_owned(),
    }
}

/// Returns whether a word is the option, as it is, with a value, or abbreviated as `getopt_long` permits.
fn has_option(given: &Word, option: &str) -> bool {
    let Some(text) = given.literal().and_then(|text| text.strip_prefix('-')) else { return false };
    let name = text.split('=').next().unwrap_or_default();
    name == option || (option.starts_with('-') && name.len() > 1 && option.starts_with(name))
}

/// Returns whether the short options of a command have all letters of one of a rule, in any order, case and grouping.
fn has_letters(arguments: &[Word], option: &str) -> bool {
    if !(1..=3).contains(&option.len()) || !option.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return false;
    }
    let options = arguments.iter().filter_map(|word| word.text.strip_prefix('-'));
    let given: String = options.filter(|option| !option.starts_with('-')).collect();
    let given = given.to_ascii_lowercase();
    option.to_ascii_lowercase().chars().all(|letter| given.contains(letter))
}
