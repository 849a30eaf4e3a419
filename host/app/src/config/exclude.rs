//! `exclude` and `exclude-defaults`: files that neither plugins nor programs read or change.
//!
//! The user's patterns come after the built-in ones and can except from them. A trusted project's patterns are
//! separate: they can only exclude more.

use crate::config::denied::Denied;
use crate::config::file::File;
use crate::failure::{Failure, Result};
use crate::files::paths::{self, CONFIG};
use crate::output::line;
use pinion_exclusions::{Exclusions, Finder, InvalidPattern, Pattern, PatternOrigin};
use pinion_sandbox::{is_nested_setting, known_secret_paths};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// The key.
const KEY: &str = "exclude";

/// A list of patterns, with the file, and its text to look up their lines.
pub(super) struct PatternList<'a> {
    pub(super) patterns: &'a [String],
    pub(super) file: &'a Path,
    pub(super) text: Option<&'a str>,
}

impl PatternList<'_> {
    fn patterns(&self) -> Vec<Pattern> {
        let lines = self.text.map(lines).unwrap_or_default();
        let origin = |at: usize| PatternOrigin::Config { file: self.file.to_owned(), line: lines.get(at).copied() };
        self.patterns.iter().enumerate().map(|(at, text)| Pattern::new(text, origin(at))).collect()
    }
}

/// Compiles the patterns of all layers and of rules that deny. Adds a notice if the project's patterns cannot be used.
///
/// # Errors
/// A pattern of the user is invalid.
pub(super) fn finder(
    workspace: &Path,
    user: &File,
    of_user: &PatternList<'_>,
    of_project: &PatternList<'_>,
    denied: &Denied,
    notices: &mut Vec<String>,
) -> Result<Arc<Finder>> {
    let mut own: Vec<Pattern> = match user.exclude_defaults {
        Some(false) => Vec::new(),
        Some(true) | None => Pattern::built_in().collect(),
    };
    own.extend(of_user.patterns());
    let invalid = |error: InvalidPattern| {
        Failure::usage(error.to_string())
            .hint("write it as in `.gitignore`, for example `*.pem` or `config/secrets.yml`")
    };
    let of_rules = || denied.layers();
    match Exclusions::new(workspace, [own.clone(), of_project.patterns()].into_iter().chain(of_rules())) {
        Ok(exclusions) => Ok(finder_of(exclusions)),
        Err(error) => {
            let exclusions = Exclusions::new(workspace, [own].into_iter().chain(of_rules())).map_err(invalid)?;
            notices.push(format!("`exclude` in `{CONFIG}` is not used: {}", line(&error.to_string())));
            Ok(finder_of(exclusions))
        }
    }
}

/// Returns a finder of the files that the same patterns exclude in another workspace.
///
/// # Errors
/// The patterns cannot be compiled.
pub(super) fn finder_in(finder: &Finder, workspace: &Path) -> std::result::Result<Arc<Finder>, InvalidPattern> {
    finder.exclusions().for_workspace(workspace).map(finder_of)
}

/// Creates the finder of a workspace, which also finds repositories and settings for the sandbox.
fn finder_of(exclusions: Exclusions) -> Arc<Finder> {
    Arc::new(Finder::with_credentials(exclusions, credentials).picking(is_nested_setting))
}

/// Returns the places of credentials, which programs do not see.
fn credentials() -> Vec<PathBuf> {
    known_secret_paths(paths::home().as_deref())
}

/// Returns the lines of the patterns in a file, counted from 1.
fn lines(text: &str) -> Vec<usize> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let Some(DeValue::Array(patterns)) = document.get_ref().get(KEY).map(toml::Spanned::get_ref) else {
        return Vec::new();
    };
    let line_at = |byte: usize| text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1;
    patterns.iter().map(|pattern| line_at(pattern.span().start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_patterns() {
        assert_eq!(lines("model = \"x\"\nexclude = [\"a\",\n  # b\n  \"c\"]\n"), [2, 4]);
        assert!(lines("exclude = 1").is_empty() && lines("=").is_empty());
    }
}
