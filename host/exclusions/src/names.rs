//! A quick look at a name before the patterns are matched: most names contain no text that any pattern requires.

use crate::forms::folded;
use crate::patterns::{InvalidPattern, Pattern};
use aho_corasick::AhoCorasick;
use std::ffi::OsStr;

/// Texts; a name contains at least one of them if a pattern matches it. Letter case of ASCII makes no difference, as
/// for patterns.
#[derive(Debug)]
pub(crate) struct NameFilter {
    /// `None` if a pattern requires no text.
    texts: Option<AhoCorasick>,
}

impl NameFilter {
    /// Collects the texts of all patterns that exclude. Texts of exceptions do not matter.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn from_patterns<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Result<Self, InvalidPattern> {
        let mut texts = Vec::new();
        for pattern in patterns.filter(|pattern| !pattern.text().starts_with('!')) {
            match required(&folded(pattern.text())) {
                Some(text) => texts.push(text),
                None => return Ok(Self { texts: None }),
            }
        }
        let texts = AhoCorasick::builder().ascii_case_insensitive(true).build(texts);
        Ok(Self { texts: Some(texts.map_err(|error| Pattern::all().invalid(error.to_string()))?) })
    }

    /// Returns whether a pattern may match an entry of this name.
    pub(crate) fn may_match(&self, name: &OsStr) -> bool {
        self.texts.as_ref().is_none_or(|texts| texts.is_match(name.as_encoded_bytes()))
    }
}

/// Returns a text that every name contains which a pattern matches: the longest one outside of wildcards in the part
/// behind the last slash. `None` if that is uncertain.
fn required(pattern: &str) -> Option<String> {
    let (_, name) = pattern
        .trim_end()
        .trim_end_matches('/')
        .rsplit_once('/')
        .unwrap_or(("", pattern.trim_end().trim_end_matches('/')));
    let (mut longest, mut text, mut depth) = (String::new(), String::new(), 0_u32);
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => letters.next().filter(|_| depth == 0),
            '{' => {
                depth += 1;
                None
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                None
            }
            // Where a class ends depends on its beginning.
            '[' | ']' => return None,
            '*' | '?' => None,
            letter => Some(letter).filter(|_| depth == 0),
        };
        match plain.filter(char::is_ascii) {
            Some(letter) => text.push(letter),
            None => text.clear(),
        }
        if text.len() > longest.len() {
            longest.clone_from(&text);
        }
    }
    (depth == 0 && !longest.is_empty()).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_text_is_outside_of_wildcards() {
        for (pattern, text) in [
            (".env", Some(".env")),
            ("*.pem", Some(".pem")),
            ("a/b*cde/", Some("cde")),
            ("id_{rsa,dsa}", Some("id_")),
            (r"a\*b", Some("a*b")),
            (r"a\ ", Some("a")),
            ("ä.key", Some(".key")),
            ("*", None),
            ("a/**", None),
            ("[ab]c", None),
            ("{a/b,c}", None),
            ("{a", None),
        ] {
            assert_eq!(required(pattern).as_deref(), text, "{pattern}");
        }
    }

    #[test]
    fn every_name_that_a_pattern_matches_is_looked_at() {
        use crate::{Exclusions, PatternOrigin};
        use std::path::Path;
        let texts = ["*.pem", "!a.pem", "Id_{rsa,dsa}", "a?c", "x/y*z", "k[ab]y", "{p,q}r", "*", "**/deep", r"\!odd"];
        let names = ["a.PEM", "b.pem", "ID_RSA", "abc", "y-z", "kay", "qr", "deep", "!odd", "other", "", "ſ.pem"];
        for text in texts {
            let pattern = Pattern::new(text, PatternOrigin::BuiltIn);
            let exclusions = Exclusions::new(Path::new("/w"), [vec![pattern]]).unwrap();
            for name in names {
                for path in [Path::new("/w").join(name), Path::new("/w/x").join(name)] {
                    let is_excluded = exclusions.of_entry(&path, false).is_some();
                    assert!(!is_excluded || exclusions.may_match(OsStr::new(name)), "{text} {name}");
                }
            }
        }
    }
}
