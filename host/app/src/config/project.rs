//! The settings that the config of a trusted project may make.
//!
//! A project can make harmless choices and narrow the user's permissions, never widen them. `RULES` lists every key
//! that it may set. All other keys are ignored with a notice that names the key and its line.

use crate::files::paths::CONFIG;
use crate::output::line;
use crate::plugins::builtin::BUILT_IN;
use pinion_plugin_runtime::is_alike;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Ignored keys to report one by one.
const MAX_NOTICES: usize = 10;

/// A restriction on the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    /// Any value.
    Set,
    /// A number that is lower than the user's.
    Lower,
    /// A list whose entries are all in the user's, if there is one.
    Narrow,
    /// A list of patterns without exceptions.
    Exclude,
    /// Only `false`.
    Disable,
    /// Plugins that are neither built in nor in the user's config. Only plugins of the project itself get the value.
    OwnPlugin,
    /// Agents that the user has not defined.
    NewAgent,
}

/// All keys that a project may set; `*` matches any name.
const RULES: &[(&[&str], May)] = &[
    (&["model"], May::Set),
    (&["thinking"], May::Set),
    (&["thinking-budget"], May::Set),
    (&["cache"], May::Set),
    (&["tools"], May::Narrow),
    (&["exclude-tools"], May::Set),
    (&["exclude"], May::Exclude),
    (&["compaction", "automatic"], May::Set),
    (&["compaction", "assumed-window"], May::Set),
    (&["compaction", "reserve-tokens"], May::Set),
    (&["compaction", "keep-first"], May::Set),
    (&["compaction", "keep-recent"], May::Set),
    (&["compaction", "tool-output-max-lines"], May::Set),
    (&["compaction", "by-model"], May::Set),
    (&["limits", "max-turns"], May::Lower),
    (&["limits", "max-tokens"], May::Lower),
    (&["limits", "max-input-tokens"], May::Lower),
    (&["limits", "max-output-tokens"], May::Lower),
    (&["limits", "max-cost"], May::Lower),
    (&["limits", "max-cost-per-day"], May::Lower),
    (&["limits", "timeout-seconds"], May::Lower),
    (&["agents", "max-depth"], May::Lower),
    (&["agents", "max-turns"], May::Lower),
    (&["agents", "max-tokens"], May::Lower),
    (&["agents", "max-cost"], May::Lower),
    (&["agents", "kinds", "*", "description"], May::NewAgent),
    (&["agents", "kinds", "*", "instructions"], May::NewAgent),
    (&["agents", "kinds", "*", "tools"], May::NewAgent),
    (&["permissions", "ask"], May::Set),
    (&["permissions", "deny"], May::Set),
    (&["plugins", "*", "enabled"], May::Disable),
    (&["plugins", "*", "config"], May::OwnPlugin),
];

/// A project's config reduced to its permitted settings.
#[derive(Debug, Default)]
pub struct Restricted {
    /// The settings that the project may make.
    pub table: Table,
    /// Notices about ignored settings.
    pub notices: Vec<String>,
}

/// Reduces a project's config to the settings that it may make over `user`, the merged config of the layers below.
pub fn restrict(text: &str, user: &Table) -> Restricted {
    let table: Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map(|span| format!(" at line {}", line_at(text, span.start))).unwrap_or_default();
            let notice = format!("`{CONFIG}` is not used: invalid TOML{at}: {}", line(error.message()));
            return Restricted { table: Table::new(), notices: vec![notice] };
        }
    };
    let mut sieve = Sieve { user, ignored: Vec::new() };
    let table = sieve.table(table, &mut Vec::new());
    Restricted { table, notices: notices(text, &sieve.ignored) }
}

struct Sieve<'a> {
    user: &'a Table,
    /// Ignored keys with the reasons.
    ignored: Vec<(Vec<String>, &'static str)>,
}

impl Sieve<'_> {
    fn table(&mut self, table: Table, path: &mut Vec<String>) -> Table {
        let mut kept = Table::new();
        for (key, value) in table {
            path.push(key.clone());
            if let Some(value) = self.value(value, path) {
                kept.insert(key, value);
            }
            path.pop();
        }
        kept
    }

    fn value(&mut self, value: Value, path: &mut Vec<String>) -> Option<Value> {
        let rule = RULES.iter().find(|(pattern, _)| pattern.len() == path.len() && begins(pattern, path));
        let problem = match (rule, value) {
            (Some((_, may)), value) => match self.problem(*may, &value, path) {
                None => return Some(value),
                Some(problem) => problem,
            },
            (None, Value::Table(table)) if RULES.iter().any(|(pattern, _)| begins(pattern, path)) => {
                return Some(Value::Table(self.table(table, path)))
                    .filter(|kept| kept.as_table().is_some_and(|t| !t.is_empty()));
            }
            (None, _) => "a project's config cannot set it",
        };
        self.ignored.push((path.clone(), problem));
        None
    }

    /// Returns the reason why the project may not set this value, if there is one.
    fn problem(&self, may: May, value: &Value, path: &[String]) -> Option<&'static str> {
        let (is_fine, problem) = match may {
            May::Set => (true, ""),
            May::Lower => (self.is_lower(value, path), "a project's config can only lower it"),
            May::Narrow => (self.is_narrower(value, path), "a project's config can only narrow it"),
            May::Exclude => (!has_exceptions(value), "a project's config can only exclude more, without `!`"),
            May::Disable => (value.as_bool() == Some(false), "a project's config can only disable plugins"),
            May::OwnPlugin => {
                (self.is_own(&path[1]), "a project's config can only configure plugins that the project itself brings")
            }
            May::NewAgent => {
                (self.users(&path[..3]).is_none(), "a project's config cannot change agents that the user defines")
            }
        };
        (!is_fine).then_some(problem)
    }

    fn is_own(&self, plugin: &str) -> bool {
        let users = self.user.get("plugins").and_then(Value::as_table);
        let mut taken = BUILT_IN
            .iter()
            .map(|plugin| plugin.name)
            .chain(users.into_iter().flat_map(|t| t.keys().map(String::as_str)));
        !taken.any(|name| is_alike(name, plugin))
    }

    fn is_narrower(&self, value: &Value, path: &[String]) -> bool {
        let Some(allowed) = self.users(path).and_then(Value::as_array) else { return true };
        value.as_array().is_some_and(|wanted| wanted.iter().all(|name| allowed.contains(name)))
    }

    fn is_lower(&self, value: &Value, path: &[String]) -> bool {
        let Some(wanted) = number(value).filter(|wanted| *wanted >= 0.0) else { return false };
        // In `[limits]`, 0 means unlimited.
        let bound = |number: f64| if number == 0.0 && path[0] == "limits" { f64::INFINITY } else { number };
        self.users(path).and_then(number).is_none_or(|allowed| bound(wanted) <= bound(allowed))
    }

    /// Looks up the value of a key in the layers below.
    fn users(&self, path: &[String]) -> Option<&Value> {
        let (last, tables) = path.split_last()?;
        tables.iter().try_fold(self.user, |table, key| table.get(key)?.as_table())?.get(last)
    }
}

/// Returns whether a value is more than a list of patterns that exclude.
fn has_exceptions(value: &Value) -> bool {
    let excludes = |pattern: &Value| pattern.as_str().is_some_and(|pattern| !pattern.starts_with('!'));
    !value.as_array().is_some_and(|patterns| patterns.iter().all(excludes))
}

fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "limits are compared, and no limit needs 53 bits")]
    let number = match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

fn begins(pattern: &[&str], path: &[String]) -> bool {
    pattern.len() >= path.len() && pattern.iter().zip(path).all(|(pattern, key)| *pattern == "*" || pattern == key)
}

fn notices(text: &str, ignored: &[(Vec<String>, &str)]) -> Vec<String> {
    let document = DeTable::parse(text).ok();
    let at = |path: &[String]| {
        let start = document.as_ref().and_then(|document| start(document.get_ref(), path));
        start.map(|start| format!(" at line {}", line_at(text, start))).unwrap_or_default()
    };
    let notice = |(path, problem): &(Vec<String>, &str)| {
        let key = line(&path.join("."));
        format!("`{key}` in `{CONFIG}`{} is ignored: {problem} (set it in your own config)", at(path))
    };
    let mut notices: Vec<String> = ignored.iter().take(MAX_NOTICES).map(notice).collect();
    if ignored.len() > MAX_NOTICES {
        notices.push(format!("{} more keys in `{CONFIG}` are ignored", ignored.len() - MAX_NOTICES));
    }
    notices
}

/// Returns the byte offset of a key in the text.
fn start(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (key, below) = path.split_first()?;
    let (found, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    match value.get_ref() {
        DeValue::Table(table) if !below.is_empty() => start(table, below),
        _ => Some(found.span().start),
    }
}

/// Returns the line of a byte, counted from 1.
fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(text: &str) -> (String, Vec<String>) {
        let user = "[limits]\nmax-turns = 50\n[agents.kinds.mine]\ndescription = \"x\"\n[plugins.mine]\n[plugins.shell.grants]\nprocess = true\n";
        let restricted = restrict(text, &toml::from_str(user).unwrap());
        (restricted.table.to_string(), restricted.notices)
    }

    #[test]
    fn project_may_make_harmless_choices_and_lower_limits() {
        let text = "model = \"a\"\n\n[limits]\nmax-turns = 3\n\n[plugins.greet.config]\na = 1\n\n[plugins.shell]\nenabled = false\n";
        assert_eq!(restricted(text), (text.to_owned(), vec![]));
    }

    #[test]
    fn other_keys_are_ignored_and_reported_with_their_lines() {
        let text = "trusted = [\"/\"]\napprove = \"all\"\nfallback = [\"x\"]\nnonsense = 1\n[limits]\nmax-turns = 51\n";
        let (kept, notices) = restricted(text);
        assert_eq!(kept, "");
        for part in ["`trusted` in `.pinion/config.toml` at line 1", "`approve` in `.pinion/config.toml` at line 2"] {
            assert!(notices.iter().any(|notice| notice.contains(part)), "{notices:?}");
        }
        assert!(notices.iter().any(|notice| notice.contains("`limits.max-turns`") && notice.contains("line 6")));
        assert_eq!(notices.len(), 5);
    }

    #[test]
    fn no_spelling_of_a_key_bypasses_the_rules() {
        for text in [
            "providers.anthropic.base-url = \"http://x\"",
            "providers = { anthropic = { key-command = \"id\" } }",
            "\"providers\".'anthropic'.headers.x = \"y\"",
            "[[providers]]\nx = 1",
            "[process]\nenvironment = [\"*\"]",
            "plugins = { shell = { grants = { process = true } } }",
            "[plugins.shell.config]\nmax-timeout = 4321",
            "[plugins.SHELL.config]\nmax-timeout = 4321",
            "[plugins.mine.config]\nx = 1",
            "[plugins.greet.grants.files]\n\".\" = \"write\"",
            "[plugins.greet]\nenabled = true",
            "[plugins.greet.limits]\nmemory-bytes = 1",
            "[engine.limits]\nx = 1",
            "[branches]\nwrite = true",
            "limits.max-turns = nan",
            "limits.max-cost = inf",
            "limits.max-turns = -1",
            "limits.max-turns = 0",
            "limits.max-input-tokens = -1",
            "limits.max-output-tokens = nan",
            "limits.max-turns = \"9\"",
            "agents.kinds.mine.tools = [\"bash\"]",
            "agents.kinds.other.model = \"dear\"",
            "agents.models = [\"dear\"]",
            "[plugins.shell]\nmax-cost = 9",
            "exclude = [\"!.env\"]",
            "exclude-defaults = false",
            "permissions.allow = [\"*\"]",
            "sandbox.hosts = [\"x.example\"]",
            "sandbox.network = true",
            "[sandbox]\nmode = \"off\"",
            "sandbox.readable = [\"/\"]",
            "\"model \" = \"x\"",
        ] {
            let (kept, notices) = restricted(text);
            assert_eq!((kept.as_str(), notices.len()), ("", 1), "{text}");
        }
    }

    #[test]
    fn many_ignored_keys_are_counted_and_invalid_toml_is_reported() {
        let text: String = (0..1000).map(|n| format!("k{n} = 1\n")).collect();
        let (_, notices) = restricted(&text);
        assert_eq!((notices.len(), notices[10].as_str()), (11, "990 more keys in `.pinion/config.toml` are ignored"));
        assert!(restricted("\n= x").1[0].contains("line 2"));
    }
}
