//! Files and hosts that rules deny: `deny = ["read:DIRECTORY", "write:DIRECTORY", "net:HOST"]` of `[permissions]`.
//!
//! A rule that denies holds for plugins and programs as well as for the arguments of calls: files that must not be read
//! are excluded, and files that must not be written are read-only in the sandbox. In the workspace, a rule becomes
//! patterns of the crate `exclusions`, so that a file counts under each of its names. Outside, rules with `*` bind only
//! calls. The proxy of programs refuses hosts that rules deny; with the whole network, programs reach them.

use crate::approve::stored::StoredRules;
use crate::config::permissions::PermissionSettings;
use crate::files::paths::{self, CONFIG, Paths};
use pinion_egress::{HostRule, InvalidRule};
use pinion_exclusions::{Exclusions, Finder, InvalidPattern, Pattern, PatternOrigin};
use pinion_files::normalize_lexically;
use pinion_permissions::{Rule, Verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stars of one rule, because each doubles the number of its patterns.
const MAX_STARS: usize = 4;
/// Patterns that are compiled together.
const PATTERNS: usize = 200;

/// Paths and hosts that rules deny, without the files that are excluded because of them.
#[derive(Debug, Clone, Default)]
pub struct Denied {
    /// Paths outside of the workspace that are not read.
    pub hidden: Vec<PathBuf>,
    /// Paths that are not written, whether they exist or not.
    pub read_only: Vec<PathBuf>,
    /// Finds files of the workspace that must not be written.
    pub unwritten: Arc<Finder>,
    /// The reason why no program may start: a rule denies to read the workspace itself, or rules cannot be read.
    pub problem: Option<String>,
    /// Hosts that programs do not connect to.
    pub hosts: Vec<HostRule>,
    /// Patterns of files that are not read in the workspace.
    pub(super) patterns: Vec<Pattern>,
}

impl Denied {
    /// Collects the rules that deny files, from the user, the trusted project and the stored rules.
    ///
    /// # Errors
    /// A rule cannot be enforced in the workspace. A project's rules of this kind are skipped with a notice.
    pub(super) fn new(
        paths: &Paths,
        workspace: &Path,
        settings: &PermissionSettings,
        notices: &mut Vec<String>,
    ) -> Result<Self, String> {
        let home = paths::home();
        let (user, stored) = (paths.config_file(), StoredRules::new(paths.permissions_file()));
        let mut denied = Self::default();
        let mut unwritten = Vec::new();
        let mut add = |text: &str, source: &Path| match Rule::parse(text, home.as_deref()) {
            Ok(rule) => denied.add(&rule, source, workspace, &mut unwritten),
            // Reported where rules are read.
            Err(_) => Ok(()),
        };
        settings.user.deny.iter().try_for_each(|rule| add(rule, &user))?;
        let unreadable = |error: std::io::Error| format!("`{}` cannot be read: {error}", stored.path().display());
        let (rules, problem) = match stored.read() {
            Ok(rules) => (rules, None),
            Err(error) => (Vec::new(), Some(unreadable(error))),
        };
        for rule in rules {
            let is_here = rule.project.as_ref().is_none_or(|project| project == workspace);
            if is_here && Verdict::from(rule.effect) == Verdict::Deny {
                add(&rule.rule, stored.path())?;
            }
        }
        for rule in &settings.project.deny {
            notices.extend(add(rule, &workspace.join(CONFIG)).err());
        }
        denied.problem = denied.problem.take().or(problem);
        let layers = unwritten.chunks(PATTERNS).map(<[Pattern]>::to_vec);
        let exclusions = Exclusions::new(workspace, layers).map_err(|error: InvalidPattern| error.to_string())?;
        denied.unwritten = Finder::new(exclusions);
        Ok(denied)
    }

    /// Returns the patterns of files that are not read in the workspace, in groups that are compiled together.
    pub(super) fn layers(&self) -> impl Iterator<Item = Vec<Pattern>> {
        self.patterns.chunks(PATTERNS).map(<[Pattern]>::to_vec)
    }

    fn add(
        &mut self,
        rule: &Rule,
        source: &Path,
        workspace: &Path,
        unwritten: &mut Vec<Pattern>,
    ) -> Result<(), String> {
        if let Some(host) = rule.host() {
            let refused = |error: InvalidRule| format!("the rule `{}` names no host: {error}", rule.text());
            self.hosts.push(host.parse().map_err(refused)?);
        }
        let Some((writes, path)) = rule.file() else { return Ok(()) };
        let path = normalize_lexically(&workspace.join(path));
        let origin = PatternOrigin::Rule { rule: rule.text().to_owned(), source: source.display().to_string() };
        let patterns = patterns(&path, workspace).map_err(|reason| format!("the rule `{}` {reason}", rule.text()))?;
        let patterns = patterns.into_iter().map(|pattern| Pattern::new(pattern, origin.clone()));
        if writes {
            unwritten.extend(patterns)
        } else {
            self.patterns.extend(patterns)
        }
        if rule.has_pattern() {
            return Ok(());
        }
        let places = BTreeSet::from([path.canonicalize().unwrap_or_else(|_| path.clone()), path]);
        for place in places {
            match (writes, place.strip_prefix(workspace).is_ok_and(|below| !below.as_os_str().is_empty())) {
                (true, _) => self.read_only.push(place),
                (false, false) if workspace.starts_with(&place) => {
                    self.problem = Some(format!("the rule `{}` denies to read the workspace", rule.text()));
                }
                (false, false) => self.hidden.push(place),
                (false, true) => {}
            }
        }
        Ok(())
    }
}

/// Returns the patterns, in the syntax of `.gitignore`, for the files of a workspace that a rule's path covers; `*` in it
/// stands for any text, slashes included.
fn patterns(path: &Path, workspace: &Path) -> Result<Vec<String>, &'static str> {
    let (Some(path), Some(workspace)) = (path.to_str(), workspace.to_str()) else {
        return Err("or the workspace is not plain text");
    };
    let mut patterns = BTreeSet::new();
    for rest in rests(path.as_bytes(), format!("{}/", workspace.trim_end_matches('/')).as_bytes()) {
        let parts: Vec<&str> = path[rest..].split('*').collect();
        // Several stars in a row are one.
        let last = parts.len() - 1;
        let parts = parts.iter().enumerate().filter(|(at, part)| *at == 0 || *at == last || !part.is_empty());
        let parts: Vec<String> = parts.map(|(_, part)| escaped(part)).collect();
        if parts.len() > MAX_STARS + 1 {
            return Err("has more than 4 `*`");
        }
        let mut all = vec![format!("/{}", parts[0])];
        for part in &parts[1..] {
            all = all.iter().flat_map(|begin| ["*", "*/**/*"].map(|star| format!("{begin}{star}{part}"))).collect();
        }
        patterns.extend(all.into_iter().filter(|pattern| pattern != "/"));
    }
    Ok(patterns.into_iter().collect())
}

/// Returns the positions in a pattern where the rest of a text can match after this beginning of it.
fn rests(pattern: &[u8], beginning: &[u8]) -> BTreeSet<usize> {
    let mut at = BTreeSet::from([0]);
    for byte in beginning {
        let skipped = |at: BTreeSet<usize>| {
            at.into_iter()
                .flat_map(|at| (at..).take_while(move |next| (at..*next).all(|star| pattern.get(star) == Some(&b'*'))))
        };
        let step = |at: usize| match pattern.get(at) {
            Some(b'*') => Some(at),
            Some(wanted) if wanted == byte => Some(at + 1),
            _ => None,
        };
        at = skipped(at).filter_map(step).collect();
    }
    at
}

/// Escapes characters that have a meaning in `.gitignore`.
fn escaped(text: &str) -> String {
    let is_special = |c: char| "\\?[]{}!# ".contains(c);
    text.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denies(rule: &str, path: &str) -> bool {
        let rule = Rule::parse(rule, Some(Path::new("/home/u"))).unwrap();
        let (mut denied, mut unwritten) = (Denied::default(), Vec::new());
        denied.add(&rule, Path::new("/c.toml"), Path::new("/home/u/work"), &mut unwritten).unwrap();
        let exclusions = Exclusions::new(Path::new("/home/u/work"), denied.layers()).unwrap();
        exclusions.find_pattern(Path::new(path), false).is_some()
    }

    #[test]
    fn rules_cover_the_files_of_the_workspace_that_they_cover_for_calls() {
        for (rule, path) in [
            ("read:secret", "/home/u/work/secret"),
            ("read:secret", "/home/u/work/secret/a/b"),
            ("read:a b/[x]", "/home/u/work/a b/[x]"),
            ("read:*.pem", "/home/u/work/a.pem"),
            ("read:*.pem", "/home/u/work/a/b/c.pem"),
            ("read:a**z", "/home/u/work/a/b/z"),
            ("read:~/*/token", "/home/u/work/token"),
            ("read:~/*/token", "/home/u/work/a/token"),
            ("read:/home/u/work/a/../b", "/home/u/work/b"),
        ] {
            assert!(denies(rule, path), "{rule} {path}");
        }
        for (rule, path) in [
            ("read:secret", "/home/u/work/a/secret"),
            ("read:*.pem", "/home/u/work/a.pem.txt"),
            ("read:[x]", "/home/u/work/x"),
            ("read:~/other/*", "/home/u/work/x"),
            ("write:secret", "/home/u/work/secret"),
        ] {
            assert!(!denies(rule, path), "{rule} {path}");
        }
    }

    #[test]
    fn stars_are_few() {
        let rule = Rule::parse("read:*a*b*c*d*e", None).unwrap();
        let mut denied = Denied::default();
        assert!(
            denied.add(&rule, Path::new("/c"), Path::new("/w"), &mut Vec::new()).unwrap_err().contains("more than 4")
        );
    }

    #[test]
    fn paths_outside_are_hidden_and_the_workspace_is_named() {
        let mut denied = Denied::default();
        let mut add = |text: &str| {
            let rule = Rule::parse(text, None).unwrap();
            denied.add(&rule, Path::new("/c"), Path::new("/w/x"), &mut Vec::new()).unwrap();
        };
        add("read:/nowhere");
        add("write:/w/x/y");
        add("read:/w");
        assert_eq!(denied.hidden, [PathBuf::from("/nowhere")]);
        assert_eq!(denied.read_only, [PathBuf::from("/w/x/y")]);
        assert_eq!(denied.problem.as_deref(), Some("the rule `read:/w` denies to read the workspace"));
    }
}
