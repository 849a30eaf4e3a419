//! Forms of a name that file systems, or people, do not tell apart.
//!
//! Some file systems decompose letters (`u` and two dots for `ü`), and some find a file by either form. Other forms look the
//! same, such as full-width letters.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization as _;

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
    use crate::{Exclusions, Pattern, PatternOrigin};
    use std::path::Path;

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
