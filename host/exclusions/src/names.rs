//! A quick look at a name before the patterns are matched: most names contain no text that any pattern requires.

use crate::patterns::{InvalidPattern, Pattern};
use aho_corasick::AhoCorasick;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization as _;

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

// Forms of a name that file systems, or people, do not tell apart.
//
// Some file systems decompose letters (`u` and two dots for `ü`), and some find a file by either form. Other forms look the
// same, such as full-width letters.

/// Returns the form that patterns are matched against: composed, in lower case.
pub(crate) fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { text.nfc().flat_map(char::to_lowercase).collect() }
}

/// Returns the forms of a path to match, besides the path itself; no further forms for ASCII and for paths that are not
/// text.
pub(crate) fn forms(path: &Path) -> Vec<PathBuf> {
    let Some(text) = path.to_str().filter(|text| !text.is_ascii()) else { return Vec::new() };
    let compatible: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let mut forms = vec![PathBuf::from(folded(text))];
    // A letter that stands for `/` would be another path.
    if compatible.matches('/').count() == text.matches('/').count() && forms[0] != Path::new(&compatible) {
        forms.push(PathBuf::from(compatible));
    }
    forms
}

/// Returns whether a test holds for one of the forms of a name.
pub(crate) fn any_form(name: &OsStr, test: impl Fn(&OsStr) -> bool) -> bool {
    test(name) || forms(Path::new(name)).iter().any(|form| test(form.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exclusions, Pattern, PatternOrigin};
    use std::path::Path;

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

    #[test]
    fn excluded_names_match_in_each_unicode_form() {
        let pattern = |text: &str| Pattern::new(text, PatternOrigin::BuiltIn);
        let patterns =
            ["schl\u{fc}ssel.txt", "geheimnu\u{308}r/", "private/\u{c4}rger*", "!private/\u{e4}rger-ok"].map(pattern);
        let mut all: Vec<Pattern> = Pattern::built_in().collect();
        all.extend(patterns);
        let exclusions = Exclusions::new(Path::new("/w"), [all]).unwrap();
        let is_excluded = |path: &str| {
            let path = Path::new("/w").join(path);
            let by_entry =
                exclusions.may_match(path.file_name().unwrap()) && exclusions.of_entry(&path, false).is_some();
            assert!(!by_entry || exclusions.find_pattern(&path, false).is_some(), "{}", path.display());
            exclusions.find_pattern(&path, false).is_some()
        };
        for path in [
            "schl\u{fc}ssel.txt",
            "schlu\u{308}ssel.txt",
            "a/SCHL\u{dc}SSEL.TXT",
            "SCHLU\u{308}SSEL.txt",
            "geheimn\u{fc}r/x",
            "private/a\u{308}rger-x",
            "\u{ff0e}\u{ff45}\u{ff4e}\u{ff56}",
            ".\u{ff25}nv",
            "server.\u{ff4b}ey",
        ] {
            assert!(is_excluded(path), "{path}");
        }
        for path in ["private/a\u{308}rger-ok", "schlussel.txt", "\u{e4}.rs", "\u{ff0e}\u{ff45}x"] {
            assert!(!is_excluded(path), "{path}");
        }
    }
}
