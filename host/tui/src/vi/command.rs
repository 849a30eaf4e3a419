//! The grammar of vi's commands: a count, an operator with a separate count, and a key.

use crate::vi::text::ViKey;

/// Maximum count.
const MAX_COUNT: usize = 999;

/// A complete command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) count: Option<usize>,
    /// `d`, `c` or `y`. The key is a motion, a text object, or the operator again for lines.
    pub(super) operator: Option<char>,
    pub(super) key: ViKey,
}

/// The keys so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Unfinished,
    Command(Command),
}

/// Parses the keys of a command. Over a selection, operators need no motion, and `i` and `a` select text objects.
pub(super) fn parse(keys: &str, is_visual: bool) -> Parsed {
    let (first, rest) = count(keys);
    let operator = rest.chars().next().filter(|key| !is_visual && matches!(key, 'd' | 'c' | 'y'));
    let (second, rest) = if operator.is_some() { count(&rest[1..]) } else { (None, rest) };
    let mut rest = rest.chars();
    let Some(key) = rest.next() else { return Parsed::Unfinished };
    let has_object = is_visual || operator.is_some();
    let takes_character = match key {
        'f' | 'F' | 't' | 'T' | 'g' => true,
        'r' => operator.is_none(),
        'i' | 'a' => has_object,
        _ => false,
    };
    let with = rest.next();
    if takes_character && with.is_none() {
        return Parsed::Unfinished;
    }
    let count = match (first, second) {
        (None, None) => None,
        (first, second) => Some((first.unwrap_or(1) * second.unwrap_or(1)).min(MAX_COUNT)),
    };
    Parsed::Command(Command { count, operator, key: (key, with) })
}

/// Splits a count off. A zero at the beginning is a motion.
pub(super) fn count(keys: &str) -> (Option<usize>, &str) {
    let digits = if keys.starts_with('0') {
        0
    } else {
        keys.len() - keys.trim_start_matches(|c: char| c.is_ascii_digit()).len()
    };
    let (digits, rest) = keys.split_at(digits);
    let add = |count: usize, digit: char| (count * 10 + digit.to_digit(10).unwrap_or(0) as usize).min(MAX_COUNT);
    ((!digits.is_empty()).then(|| digits.chars().fold(0, add)), rest)
}
