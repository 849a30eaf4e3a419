//! Splits text into words before merging, as the vocabulary's own tokenizer did.

use crate::error::GgufError;
use regex::Regex;

/// GPT-2's words, without the lookahead that `word_end` replaces.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|(?P<blank>\s+)";
/// Llama 3's words: at most three digits, and line breaks end words.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|(?P<blank>\s+)";
/// Qwen's words: the same, and each digit is a word.
const QWEN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|(?P<blank>\s+)";

/// The rule of a vocabulary.
#[derive(Debug)]
pub(crate) struct WordRule {
    words: Regex,
    /// Digits are words before the rule applies.
    splits_digits: bool,
}

impl WordRule {
    /// Returns the rule that the metadata names, and GPT-2's for unknown ones.
    pub(crate) fn named(name: &str) -> Result<Self, GgufError> {
        let pattern = match name {
            "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe" => LLAMA3,
            "qwen2" | "deepseek-r1-qwen" => QWEN,
            _ => GPT2,
        };
        let splits_digits = matches!(name, "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone");
        let words = Regex::new(pattern).map_err(|_| GgufError::Vocabulary(name.to_owned()))?;
        Ok(Self { words, splits_digits })
    }

    /// Calls `found` with each word.
    pub(crate) fn split<'t>(&self, text: &'t str, found: &mut dyn FnMut(&'t str)) {
        if !self.splits_digits {
            return self.split_segment(text, found);
        }
        let mut start = 0;
        for (at, digit) in text.char_indices().filter(|(_, c)| c.is_numeric()) {
            self.split_segment(&text[start..at], found);
            start = at + digit.len_utf8();
            found(&text[at..start]);
        }
        self.split_segment(&text[start..], found);
    }

    fn split_segment<'t>(&self, text: &'t str, found: &mut dyn FnMut(&'t str)) {
        let mut at = 0;
        while let Some(captures) = self.words.captures_at(text, at) {
            let Some(whole) = captures.get(0).filter(|whole| !whole.is_empty()) else { break };
            let end = match captures.name("blank") {
                Some(_) => blank_end(text, whole.start(), whole.end()),
                None => whole.end(),
            };
            if whole.start() > at {
                found(&text[at..whole.start()]);
            }
            found(&text[whole.start()..end]);
            at = end;
        }
        if at < text.len() {
            found(&text[at..]);
        }
    }
}

/// Returns the end of a word of whitespace. The last character before a word belongs to that word, as `\s+(?!\S)` says.
fn blank_end(text: &str, start: usize, end: usize) -> usize {
    let last = text[start..end].char_indices().next_back().map_or(0, |(at, _)| at);
    if end == text.len() || last == 0 { end } else { start + last }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(rule: &str, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        WordRule::named(rule).unwrap().split(text, &mut |word| words.push(word.to_owned()));
        assert_eq!(words.concat(), text);
        words
    }

    #[test]
    fn words_are_those_of_the_vocabulary() {
        assert_eq!(split_words("gpt2", "I'm  here 42!"), ["I", "'m", " ", " here", " 42", "!"]);
        assert_eq!(split_words("smollm", "a 42\n\n b "), ["a", " ", "4", "2", "\n\n", " b", " "]);
        assert_eq!(
            split_words("qwen2", "It'S 42\n  x(y)\n\n"),
            ["It", "'S", " ", "4", "2", "\n", " ", " x", "(y", ")\n\n"]
        );
        assert_eq!(split_words("llama-bpe", "12345  \n"), ["123", "45", "  \n"]);
        assert_eq!(split_words("gpt2", ""), [""; 0]);
        assert_eq!(split_words("gpt2", "\u{a0}日本 é"), ["\u{a0}", "日本", " é"]);
    }
}
