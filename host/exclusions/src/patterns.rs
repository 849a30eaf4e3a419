//! Patterns, and the decision by name.

use crate::names::{NameFilter, any_form, folded, forms};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Excluded unless the config turns them off. A pattern with a leading `!` is an exception; the last pattern that
/// matches decides.
const BUILT_IN: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
    // Virtual environments of Python have this name, too.
    "!.env/",
    "!.env.{example,sample,template,dist}",
    "!.env.*.{example,sample,template,dist}",
    "*.pem",
    "!*{cert,chain,bundle,ca}*.pem",
    "*key*.pem",
    "!*{pubkey,public}*.pem",
    "*.key",
    // Keys of tests and of packages are public, and programs need them.
    "!**/{test,tests,testdata,fixtures,node_modules,site-packages,vendor}/**/*.{pem,key}",
    "*.p12",
    "*.pfx",
    "*.kdbx",
    "id_{rsa,dsa,ecdsa,ed25519,ecdsa_sk,ed25519_sk}",
    ".netrc",
    ".pgpass",
    ".git-credentials",
];
/// Patterns of one config at most.
const MAX_PATTERNS: usize = 200;
/// Bytes of one pattern.
const MAX_BYTES: usize = 256;
/// Bytes of one that stands for a rule, whose length is limited already.
const MAX_RULE_BYTES: usize = 4096;
/// Braces in one pattern, because each multiplies the work of compiling it.
const MAX_BRACES: usize = 4;

/// A pattern with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    origin: PatternOrigin,
}

/// The place where a pattern comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternOrigin {
    /// One that applies unless the config turns these off.
    BuiltIn,
    /// A config file, and the line in it if it is known.
    Config {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
    },
    /// A rule about calls that denies.
    Rule {
        /// The rule.
        rule: String,
        /// The file that has it.
        source: String,
    },
    /// A place of credentials outside; one of its files has another name in the workspace.
    Credentials,
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern `{text}` in `exclude`{at}: {reason}", text = text.escape_debug())]
pub struct InvalidPattern {
    text: String,
    at: String,
    reason: String,
}

/// The patterns in effect.
#[derive(Debug, Default)]
pub struct Exclusions {
    workspace: PathBuf,
    layers: Vec<Layer>,
    /// `None` without patterns.
    names: Option<NameFilter>,
}

/// Patterns; the last one that matches decides.
#[derive(Debug)]
struct Layer {
    patterns: Vec<Arc<Pattern>>,
    /// Those that are built in are compiled when a name may match them, which is rare and takes a millisecond.
    compiled: OnceLock<Compiled>,
}

/// Compiled patterns.
#[derive(Debug)]
struct Compiled {
    matcher: Gitignore,
    /// The last names in patterns with several.
    placed: Gitignore,
}

impl Pattern {
    /// Creates a pattern in the syntax of `.gitignore`.
    pub fn new(text: impl Into<String>, origin: PatternOrigin) -> Self {
        Self { text: text.into(), origin }
    }

    /// Returns the patterns that apply unless the config turns them off.
    pub fn built_in() -> impl Iterator<Item = Self> {
        BUILT_IN.iter().map(|text| Self::new(*text, PatternOrigin::BuiltIn))
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the origin.
    pub fn origin(&self) -> &PatternOrigin {
        &self.origin
    }

    /// Returns the remedy that only the user can apply, as a sentence for a hint.
    pub fn remedy(&self) -> String {
        match &self.origin {
            PatternOrigin::BuiltIn => {
                "only the user can allow it: with an exception, `exclude = [\"!NAME\"]`, or without all built-in patterns, \
                 `exclude-defaults = false`, in the config"
                    .to_owned()
            }
            PatternOrigin::Config { file, .. } => {
                format!("only the user can allow it, by changing `exclude` in `{}`", file.display())
            }
            PatternOrigin::Rule { source, .. } => format!("only the user can allow it, by changing the rules in `{source}`"),
            PatternOrigin::Credentials => "only the user can allow it, by replacing the hard link with a copy".to_owned(),
        }
    }
}

impl fmt::Display for Pattern {
    /// Writes the reason of a refusal: `it is excluded by …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            PatternOrigin::BuiltIn => write!(f, "it is excluded by the built-in pattern `{}`", self.text),
            PatternOrigin::Config { file, line: Some(line) } => {
                write!(f, "it is excluded by `{}`, line {line} of `{}`", self.text, file.display())
            }
            PatternOrigin::Config { file, line: None } => {
                write!(f, "it is excluded by `{}` in `{}`", self.text, file.display())
            }
            PatternOrigin::Rule { rule, source } => write!(f, "the rule `{rule}` in `{source}` denies it"),
            PatternOrigin::Credentials => write!(f, "it is another name of a file with credentials in `{}`", self.text),
        }
    }
}

impl Exclusions {
    /// Compiles patterns. A pattern with a slash before its end counts from `workspace`, a real path; one without
    /// matches at any depth. Letter case makes no difference. A path that any of the `layers` excludes is excluded: an
    /// exception holds in its own layer only.
    ///
    /// # Errors
    /// A pattern is not one, or there are too many.
    pub fn new(workspace: &Path, layers: impl IntoIterator<Item = Vec<Pattern>>) -> Result<Self, InvalidPattern> {
        let layers = layers.into_iter().filter(|patterns| !patterns.is_empty()).map(Layer::new);
        let layers: Vec<Layer> = layers.collect::<Result<_, _>>()?;
        let names =
            NameFilter::from_patterns(layers.iter().flat_map(|layer| layer.patterns.iter().map(|pattern| &**pattern)))?;
        Ok(Self { workspace: workspace.to_owned(), layers, names: Some(names) })
    }

    /// Returns the same patterns for another workspace.
    ///
    /// # Errors
    /// Never for patterns that were compiled before.
    pub fn for_workspace(&self, workspace: &Path) -> Result<Self, InvalidPattern> {
        let patterns = |layer: &Layer| layer.patterns.iter().map(|pattern| (**pattern).clone()).collect();
        Self::new(workspace, self.layers.iter().map(patterns).collect::<Vec<Vec<Pattern>>>())
    }

    /// Excludes nothing.
    pub(crate) fn none(workspace: &Path) -> Self {
        Self { workspace: workspace.to_owned(), layers: Vec::new(), names: None }
    }

    /// Returns whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns all patterns, in the order of the layers.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.layers.iter().flat_map(|layer| layer.patterns.iter().map(|pattern| &**pattern))
    }

    /// Returns the pattern that excludes a location, or a directory around it.
    pub fn find_pattern(&self, location: &Path, is_directory: bool) -> Option<&Arc<Pattern>> {
        self.of_forms(self.relative(location), |path| self.of_path(path, is_directory))
    }

    fn of_path(&self, path: &Path, is_directory: bool) -> Option<&Arc<Pattern>> {
        let may_match = |path: &&Path| path.file_name().is_none_or(|name| self.may_match(name));
        let mut parts: Vec<&Path> = path.ancestors().filter(may_match).collect();
        parts.reverse();
        self.layers
            .iter()
            .find_map(|layer| parts.iter().find_map(|part| layer.match_pattern(part, is_directory || *part != path)))
    }

    /// Looks for the pattern of a path, and of its other forms.
    fn of_forms<'a>(&'a self, path: &Path, of: impl Fn(&Path) -> Option<&'a Arc<Pattern>>) -> Option<&'a Arc<Pattern>> {
        of(path).or_else(|| forms(path).iter().find_map(|form| of(form)))
    }

    /// Returns the pattern that excludes an entry of a directory which is not excluded itself.
    pub fn of_entry(&self, location: &Path, is_directory: bool) -> Option<&Arc<Pattern>> {
        let of = |path: &Path| self.layers.iter().find_map(|layer| layer.match_pattern(path, is_directory));
        self.of_forms(self.relative(location), of)
    }

    /// Returns whether a pattern may match an entry of this name. If not, [`of_entry`](Self::of_entry) returns `None`.
    pub(crate) fn may_match(&self, name: &OsStr) -> bool {
        self.names.as_ref().is_some_and(|names| any_form(name, |form| names.may_match(form)))
    }

    /// Returns whether a location would be decided on in the same way in any other directory.
    pub(crate) fn is_by_name(&self, location: &Path) -> bool {
        let Some(name) = location.file_name().map(Path::new) else { return false };
        let others = forms(name);
        let is_placed = |layer: &Layer| {
            let names = || std::iter::once(name).chain(others.iter().map(PathBuf::as_path));
            let placed = &layer.compiled().placed;
            [false, true].iter().any(|is_directory| names().any(|name| !placed.matched(name, *is_directory).is_none()))
        };
        !self.layers.iter().any(is_placed)
    }

    fn relative<'a>(&self, location: &'a Path) -> &'a Path {
        location.strip_prefix(&self.workspace).or_else(|_| location.strip_prefix("/")).unwrap_or(location)
    }
}

impl Layer {
    fn new(patterns: Vec<Pattern>) -> Result<Self, InvalidPattern> {
        if let Some(pattern) = patterns.get(MAX_PATTERNS) {
            return Err(pattern.invalid(format!("more than {MAX_PATTERNS} patterns")));
        }
        patterns.iter().try_for_each(Pattern::check)?;
        let patterns: Vec<_> = patterns.into_iter().map(Arc::new).collect();
        let compiled = match patterns.iter().all(|pattern| pattern.origin == PatternOrigin::BuiltIn) {
            true => OnceLock::new(),
            false => OnceLock::from(Compiled::new(&patterns)?),
        };
        Ok(Self { patterns, compiled })
    }

    #[allow(clippy::expect_used, reason = "the tests compile the patterns that are built in")]
    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::new(&self.patterns).expect("built-in patterns compile"))
    }

    fn match_pattern(&self, path: &Path, is_directory: bool) -> Option<&Arc<Pattern>> {
        if path.as_os_str().is_empty() {
            return None;
        }
        match self.compiled().matcher.matched(path, is_directory) {
            Match::Ignore(glob) => {
                let number = glob.from().and_then(Path::to_str).and_then(|number| number.parse::<usize>().ok());
                number.and_then(|number| self.patterns.get(number)).or_else(|| self.patterns.first())
            }
            Match::None | Match::Whitelist(_) => None,
        }
    }
}

impl Compiled {
    fn new(patterns: &[Arc<Pattern>]) -> Result<Self, InvalidPattern> {
        let (mut matcher, mut placed) = (builder(), builder());
        for (number, pattern) in patterns.iter().enumerate() {
            let from = Some(PathBuf::from(number.to_string()));
            let text = folded(&pattern.text);
            matcher.add_line(from, &text).map_err(|error| pattern.invalid(error.to_string()))?;
            let glob = text.trim_start_matches('!').trim_end_matches('/');
            if let Some((_, name)) = glob.rsplit_once('/') {
                let name = if name.contains("**") || name.contains('}') && !name.contains('{') { "*" } else { name };
                placed.add_line(None, name).map_err(|error| pattern.invalid(error.to_string()))?;
            }
        }
        let build = |builder: GitignoreBuilder| {
            builder.build().map_err(|error| match patterns.first() {
                Some(first) => first.invalid(format!("the patterns together: {error}")),
                None => Pattern::all().invalid(error.to_string()),
            })
        };
        Ok(Self { matcher: build(matcher)?, placed: build(placed)? })
    }
}

impl Pattern {
    fn check(&self) -> Result<(), InvalidPattern> {
        let glob = self.text.trim_start_matches('!').trim_matches('/');
        let most = if matches!(self.origin, PatternOrigin::Rule { .. }) { MAX_RULE_BYTES } else { MAX_BYTES };
        let reason = if self.text.len() > most {
            format!("longer than {most} bytes")
        } else if self.text.chars().any(char::is_control) {
            "it contains a control character".to_owned()
        } else if glob.trim().is_empty() {
            "it names nothing".to_owned()
        } else if self.text.starts_with('#') {
            "it would be a comment; begin it with `\\#`".to_owned()
        } else if glob.split('/').any(|part| matches!(part, "." | "..")) {
            "`.` and `..` are not names".to_owned()
        } else if self.text.matches('{').count() > MAX_BRACES {
            format!("more than {MAX_BRACES} braces")
        } else {
            return Ok(());
        };
        Err(self.invalid(reason))
    }

    /// Stands for all patterns in an error.
    pub(crate) fn all() -> Self {
        Self::new("", PatternOrigin::BuiltIn)
    }

    pub(crate) fn invalid(&self, reason: String) -> InvalidPattern {
        let at = match &self.origin {
            PatternOrigin::BuiltIn | PatternOrigin::Credentials => String::new(),
            PatternOrigin::Config { file, line: Some(line) } => format!(" at line {line} of `{}`", file.display()),
            PatternOrigin::Config { file, line: None } => format!(" of `{}`", file.display()),
            PatternOrigin::Rule { rule, source } => format!(" for the rule `{rule}` of `{source}`"),
        };
        let text = self.text.chars().take(MAX_BYTES).collect();
        InvalidPattern { text, at, reason }
    }
}

fn builder() -> GitignoreBuilder {
    let mut builder = GitignoreBuilder::new("");
    // Never fails; on file systems that ignore case, another spelling would be the same file.
    let _ = builder.case_insensitive(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(patterns: &[&str]) -> Vec<Pattern> {
        let origin = |line| PatternOrigin::Config { file: PathBuf::from("/c.toml"), line: Some(line) };
        patterns.iter().enumerate().map(|(at, text)| Pattern::new(*text, origin(at + 1))).collect()
    }

    fn exclusions(layers: &[&[&str]]) -> Exclusions {
        Exclusions::new(Path::new("/w"), layers.iter().map(|patterns| config(patterns))).unwrap()
    }

    fn built_in() -> Exclusions {
        Exclusions::new(Path::new("/w"), [Pattern::built_in().collect()]).unwrap()
    }

    #[test]
    fn built_in_patterns_cover_secrets_and_leave_examples_and_certificates() {
        let exclusions = built_in();
        for path in [
            "/w/.env",
            "/w/.ENV",
            "/w/a/b/.env.local",
            "/w/.env.production",
            "/w/.envrc",
            "/w/server.pem",
            "/w/tls/cert-key.pem",
            "/w/a.key",
            "/w/id_rsa",
            "/w/deploy/id_ed25519",
            "/w/x.p12",
            "/elsewhere/.env",
            "/w/private.key",
        ] {
            assert!(exclusions.find_pattern(Path::new(path), false).is_some(), "{path}");
        }
        for path in [
            "/w/.env.example",
            "/w/.env.local.sample",
            "/w/.environment",
            "/w/env",
            "/w/cacert.pem",
            "/w/fullchain.pem",
            "/w/public.pem",
            "/w/tests/tls/server.key",
            "/w/node_modules/x/a.pem",
            "/w/id_rsa.pub",
            "/w/key.rs",
            "/w",
        ] {
            assert!(exclusions.find_pattern(Path::new(path), false).is_none(), "{path}");
        }
        assert!(exclusions.find_pattern(Path::new("/w/.env"), true).is_none(), "a virtual environment");
    }

    #[test]
    fn built_in_patterns_are_compiled_when_a_name_may_match() {
        let exclusions = built_in();
        let is_compiled = || exclusions.layers[0].compiled.get().is_some();
        assert!(exclusions.find_pattern(Path::new("/w/src/main.rs"), false).is_none() && !is_compiled());
        assert!(exclusions.find_pattern(Path::new("/w/.env.d/main.rs"), false).is_some() && is_compiled());
    }

    #[test]
    fn slash_counts_from_the_workspace_and_no_slash_matches_at_any_depth() {
        let exclusions = exclusions(&[&["config/secret.yml", "private/", "token"]]);
        let is_excluded = |path: &str, is_directory| exclusions.find_pattern(Path::new(path), is_directory).is_some();
        assert!(is_excluded("/w/config/secret.yml", false) && !is_excluded("/w/a/config/secret.yml", false));
        assert!(is_excluded("/w/a/private/x/y", false) && is_excluded("/w/private", true));
        assert!(!is_excluded("/w/private", false) && is_excluded("/w/a/Token", false));
    }

    #[test]
    fn exception_holds_in_its_own_layer_and_not_in_an_excluded_directory() {
        let one = exclusions(&[&["*.env", "!ok.env", "deep/", "!keep"]]);
        assert!(one.find_pattern(Path::new("/w/ok.env"), false).is_none());
        assert!(one.find_pattern(Path::new("/w/deep/keep"), false).is_some());
        let two = exclusions(&[&["*.env", "!ok.env"], &["ok.env"]]);
        assert_eq!(two.find_pattern(Path::new("/w/ok.env"), false).unwrap().text(), "ok.env");
    }

    #[test]
    fn reason_names_the_pattern_and_its_line() {
        let exclusions = exclusions(&[&["a", "b"]]);
        let reason = exclusions.find_pattern(Path::new("/w/b"), false).unwrap();
        assert_eq!(reason.to_string(), "it is excluded by `b`, line 2 of `/c.toml`");
        assert!(reason.remedy().contains("/c.toml"));
        let built_in = built_in();
        let reason = built_in.find_pattern(Path::new("/w/.env"), false).unwrap();
        assert!(reason.to_string().ends_with("built-in pattern `.env`") && reason.remedy().contains("!NAME"));
    }

    #[test]
    fn unusable_patterns_are_refused_with_their_line() {
        let long = "a".repeat(300);
        for text in ["", "!", "/", "# x", "a\u{7}", "../x", "a/./b", "{a", "{{{{{a}}}}}", &long] {
            let error = Exclusions::new(Path::new("/w"), [config(&[text])]).unwrap_err().to_string();
            assert!(error.contains("line 1 of `/c.toml`"), "{text}: {error}");
        }
        let many = vec!["a"; MAX_PATTERNS + 1];
        assert!(Exclusions::new(Path::new("/w"), [config(&many)]).is_err());
    }

    #[test]
    fn decisions_that_depend_on_the_directory_are_known() {
        let exclusions = exclusions(&[&["token", "*.key", "!tests/**/*.key", "a/b.txt", "c/**"]]);
        assert!(!exclusions.is_by_name(Path::new("/w/x.key")) && !exclusions.is_by_name(Path::new("/w/b.txt")));
        let simple = super::Exclusions::new(Path::new("/w"), [config(&["token", "*.key", "!a/b.key"])]).unwrap();
        assert!(simple.is_by_name(Path::new("/w/token")) && simple.is_by_name(Path::new("/w/x.key")));
        assert!(!simple.is_by_name(Path::new("/w/b.key")));
    }
}
