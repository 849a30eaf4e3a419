//! Changes of single keys in the user's config file, which leave the rest of its text as it is.

use crate::config::{defaults, layer, merge, typed};
use crate::failure::{Failure, Result};
use crate::files::paths::Paths;
use crate::files::private::{create_directory, lock, owner_hint, read_settings, replace};
use std::io;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Sets a key of the user's config, or removes it if there is no value. Writes only a file that the loader accepts.
///
/// # Errors
/// The key or the value is invalid, the file has a form that cannot be changed, or it cannot be written.
pub fn change(paths: &Paths, key: &str, value: Option<&str>) -> Result<()> {
    let path = paths.config_file();
    let failed = |error: io::Error| {
        let failure = Failure::failed(format!("could not write `{}`", path.display())).because(error);
        match owner_hint(&path) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    create_directory(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let _lock = lock(&path.with_extension("lock")).map_err(failed)?;
    if path.is_symlink() {
        return Err(by_hand(&path, "is a link, which is not replaced"));
    }
    let text = read_settings(&path).map_err(failed)?.unwrap_or_default();
    let name = path.display().to_string();
    // A file that is invalid already is reported as it is.
    layer(&text, &name)?;
    let keys = keys_of(key)?;
    let mut refusal = None;
    for value in candidates(value) {
        let Some(changed) = changed(&text, &keys, value.as_ref()) else {
            refusal.get_or_insert_with(|| by_hand(&path, &format!("has no plain place for `{key}`")));
            continue;
        };
        match check(&changed, &name) {
            Ok(()) if changed == text && value.is_none() => {
                return Err(Failure::failed(format!("`{key}` is not set in `{name}`")));
            }
            Ok(()) => return replace(&path, changed.as_bytes()).map_err(failed),
            Err(failure) => {
                refusal.get_or_insert(failure);
            }
        }
    }
    Err(refusal.unwrap_or_else(|| by_hand(&path, "cannot be changed")))
}

/// Checks a file by itself, and together with the defaults.
fn check(text: &str, name: &str) -> Result<()> {
    let mut merged = defaults(false)?;
    merge(&mut merged, layer(text, name)?);
    typed(&merged).map(drop)
}

fn by_hand(path: &Path, problem: &str) -> Failure {
    Failure::failed(format!("`{}` {problem}", path.display())).hint("change it with `pinion config edit`")
}

/// Returns the names in a dotted key.
fn keys_of(key: &str) -> Result<Vec<String>> {
    let wrong = || {
        Failure::usage(format!("invalid key `{key}`"))
            .hint("name a key of the config, such as `model`, `tui.theme` or `limits.max-turns`")
    };
    if key.contains(['\n', '=', '#']) {
        return Err(wrong());
    }
    let mut value = Value::Table(toml::from_str(&format!("{key} = 0")).map_err(|_| wrong())?);
    let mut keys = Vec::new();
    while let Value::Table(table) = value {
        let (name, next) = table.into_iter().next().ok_or_else(wrong)?;
        keys.push(name);
        value = next;
    }
    Ok(keys)
}

/// Returns the values that a text may stand for, the likeliest first: a value in TOML, or else a string.
fn candidates(value: Option<&str>) -> Vec<Option<Value>> {
    let Some(text) = value else { return vec![None] };
    let parsed = toml::from_str::<Table>(&format!("x = {text}")).ok().filter(|table| table.len() == 1);
    let parsed = parsed.and_then(|mut table| table.remove("x"));
    parsed.into_iter().chain([Value::String(text.to_owned())]).map(Some).collect()
}

/// Returns the text with another value of a key, or without the key; `None` if its form does not allow that.
fn changed(text: &str, keys: &[String], value: Option<&Value>) -> Option<String> {
    let before: Table = toml::from_str(text).ok()?;
    let mut after = before.clone();
    set(&mut after, keys, value)?;
    if after == before {
        return Some(text.to_owned());
    }
    let document = DeTable::parse(text).ok()?;
    let found = spans(document.get_ref(), keys);
    let changed = match (found, value) {
        (Some((name, old)), None) => {
            format!("{}{}", &text[..line_start(text, name.start)], &text[line_end(text, old.end)..])
        }
        (Some((_, old)), Some(value)) => format!("{}{value}{}", &text[..old.start], &text[old.end..]),
        (None, None) => return None,
        (None, Some(value)) => added(text, document.get_ref(), keys, value)?,
    };
    toml::from_str::<Table>(&changed).is_ok_and(|table| table == after).then_some(changed)
}

/// Sets or removes a key; `None` if a part of its path is no table.
fn set(table: &mut Table, keys: &[String], value: Option<&Value>) -> Option<()> {
    let (first, rest) = keys.split_first()?;
    match (rest, value) {
        ([], Some(value)) => drop(table.insert(first.clone(), value.clone())),
        ([], None) => drop(table.remove(first)),
        (_, None) if !table.contains_key(first) => {}
        _ => {
            let below = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            set(below.as_table_mut()?, rest, value)?;
        }
    }
    Some(())
}

type ByteSpan = std::ops::Range<usize>;

/// Returns the places of a key and of its value.
fn spans(table: &DeTable<'_>, keys: &[String]) -> Option<(ByteSpan, ByteSpan)> {
    let (first, rest) = keys.split_first()?;
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == first)?;
    match (rest, value.get_ref()) {
        ([], _) => Some((name.span(), value.span())),
        (_, DeValue::Table(below)) => spans(below, rest),
        _ => None,
    }
}

/// Returns the text with a new key: behind the last key of its table, or in a new table at the end.
fn added(text: &str, document: &DeTable<'_>, keys: &[String], value: &Value) -> Option<String> {
    let (last, parents) = keys.split_last()?;
    let line = format!("{} = {value}\n", written(last));
    let header = match parents {
        [] => Some(0),
        _ => headers(text).find(|(_, names)| names == parents).map(|(end, _)| end),
    };
    let Some(header) = header else {
        let names: Vec<String> = parents.iter().map(|name| written(name)).collect();
        let gap = match text {
            "" => "",
            _ if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return Some(format!("{text}{gap}[{}]\n{line}", names.join(".")));
    };
    let mut table = document;
    for name in parents {
        let (_, below) = table.iter().find(|(other, _)| other.get_ref() == name)?;
        let DeValue::Table(below) = below.get_ref() else { return None };
        table = below;
    }
    let values = table.iter().filter(|(_, value)| !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)));
    let end = values.map(|(_, value)| value.span().end).filter(|end| *end > header).max();
    let at = end.map_or(header, |end| line_end(text, end));
    let gap = if at > 0 && !text[..at].ends_with('\n') { "\n" } else { "" };
    Some(format!("{}{gap}{line}{}", &text[..at], &text[at..]))
}

/// Returns the tables that have a header, with the ends of those lines.
fn headers(text: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    let mut end = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        end += line.len();
        let is_header = line.trim_start().starts_with('[') && !line.trim_start().starts_with("[[");
        let mut table: Table = toml::from_str(line).ok().filter(|_| is_header)?;
        let mut names = Vec::new();
        while let Some((name, value)) = std::mem::take(&mut table).into_iter().next() {
            names.push(name);
            table = value.as_table().cloned().unwrap_or_default();
        }
        Some((end, names))
    })
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the end of a line, behind its newline.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Returns a key as it is written.
fn written(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_bare { name.to_owned() } else { Value::String(name.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Changes a file with this text, and returns its new content.
    fn config(text: &str, key: &str, value: Option<&str>) -> std::result::Result<String, String> {
        let home = TempDir::new().unwrap();
        let directory = home.path().to_path_buf();
        let paths = Paths { config: directory.clone(), data: directory.clone(), cache: directory };
        std::fs::write(paths.config_file(), text).unwrap();
        let done = change(&paths, key, value);
        let now = std::fs::read_to_string(paths.config_file()).unwrap();
        match done {
            Ok(()) => Ok(now),
            Err(failure) => {
                assert_eq!(now, text, "an error changes nothing");
                Err(failure.to_string())
            }
        }
    }

    #[test]
    fn key_is_set_and_removed_and_the_rest_stays() {
        let text = "# mine\nmodel = \"a/b\" # the best\n\n# look\n[tui]\nvi = true # keys\n\n[limits]\nmax-turns = 3\n";
        let set = |key, value| config(text, key, Some(value)).unwrap();
        assert_eq!(set("model", "c/d"), text.replace("a/b", "c/d"));
        assert_eq!(set("limits.max-turns", "7"), text.replace("= 3", "= 7"));
        assert_eq!(set("tui.theme", "dark"), text.replace("keys\n", "keys\ntheme = \"dark\"\n"));
        assert_eq!(set("thinking", "high"), text.replace("best\n", "best\nthinking = \"high\"\n"));
        assert_eq!(set("undo.days", "3"), format!("{text}\n[undo]\ndays = 3\n"));
        assert_eq!(set("exclude-tools", "[\"task\"]"), text.replace("best\n", "best\nexclude-tools = [\"task\"]\n"));
        assert_eq!(config(text, "model", None).unwrap(), text.replace("model = \"a/b\" # the best\n", ""));
        assert_eq!(config("", "model", Some("x")).unwrap(), "model = \"x\"\n");
        assert_eq!(config("[tui]", "tui.theme", Some("x")).unwrap(), "[tui]\ntheme = \"x\"\n");
        // A number is a name where a name is needed.
        assert_eq!(config("", "model", Some("5")).unwrap(), "model = \"5\"\n");
    }

    #[test]
    fn values_of_several_lines_and_dotted_keys_keep_their_place() {
        let text = "exclude = [\n  \"a\",\n]\ntui.theme = \"dark\"\n[limits]\n";
        assert_eq!(config(text, "tui.theme", Some("light")).unwrap(), text.replace("dark", "light"));
        let set = config(text, "exclude", Some("[\"b\"]")).unwrap();
        assert_eq!(set, text.replace("[\n  \"a\",\n]", "[\"b\"]"));
        assert_eq!(config(text, "exclude", None).unwrap(), text[text.find("tui").unwrap()..]);
        let header = "[providers.box]\nformat = \"openai-chat\"\nbase-url = \"http://h\"\n\n[[providers.box.models]]\nid = \"q\"\n";
        let set = config(header, "providers.box.default-model", Some("q")).unwrap();
        assert_eq!(set, header.replace("//h\"\n", "//h\"\ndefault-model = \"q\"\n"));
    }

    #[test]
    fn nothing_is_written_that_the_loader_refuses() {
        for (text, key, value, problem) in [
            ("", "modle", Some("x"), "did you mean `model`"),
            ("", "limits.max-turns", Some("many"), "whole number"),
            ("", "thinking", Some("hihg"), "did you mean `high`"),
            ("", "a b", Some("x"), "invalid key `a b`"),
            ("", "model = 1\nx", Some("x"), "invalid key"),
            ("", "", Some("x"), "invalid key"),
            ("", "model.name", Some("x"), "invalid"),
            ("nonsense = 1\n", "model", Some("x"), "unknown field `nonsense`"),
            ("model = \"a\"\n", "model.name", Some("x"), "config edit"),
            ("tui = { vi = true }\n", "tui.theme", Some("x"), "config edit"),
            ("", "model", None, "`model` is not set"),
            ("", "limits.max-turns", None, "`limits.max-turns` is not set"),
        ] {
            let error = config(text, key, value).unwrap_err();
            assert!(error.contains(problem), "{key}: {error}");
        }
    }
}
