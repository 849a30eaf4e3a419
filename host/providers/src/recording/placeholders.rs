//! Placeholders for text that differs between machines and runs, such as `{pinion:directory}`.
//!
//! Recorded requests and replies have placeholders in place of the values of the recorded run. A request to play has its
//! own values replaced before it is compared, and a reply gets the values of the run that plays it.

use jiff::civil::Date;
use serde_json::Value;
use std::borrow::Cow;
use std::path::{MAIN_SEPARATOR, Path};

/// The start of every placeholder. Its end is `}`.
const OPEN: &str = "{pinion:";

/// User names that are also ordinary words: they stay as they are in a recording.
const COMMON_USERS: &[&str] = &[
    "admin",
    "administrator",
    "agent",
    "app",
    "build",
    "builder",
    "code",
    "debian",
    "default",
    "dev",
    "developer",
    "docker",
    "git",
    "guest",
    "node",
    "root",
    "runner",
    "test",
    "ubuntu",
    "user",
    "vscode",
    "work",
];

/// Values of one run that a recording does not depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSurroundings {
    date: Date,
    user: Option<String>,
    values: Vec<(&'static str, String)>,
    run_parents: Vec<String>,
}

impl RunSurroundings {
    /// A run on this local date, without other values.
    pub fn new(date: Date) -> Self {
        Self { date, user: None, values: vec![("date", date.to_string())], run_parents: Vec::new() }
    }

    /// Adds a text that is replaced where it is not a part of a longer word. Several texts may have one name; a reply
    /// gets the first one.
    pub fn with_text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() && !self.values.iter().any(|(_, known)| *known == text) {
            self.values.push((name, text));
        }
        self
    }

    /// Adds a directory, and its path without links. The root directory is left out.
    pub fn with_directory(self, name: &'static str, path: &Path) -> Self {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        [path, &real].into_iter().filter(|path| path.is_absolute() && path.parent().is_some()).fold(
            self,
            |surroundings, path| match path.to_str() {
                Some(text) => surroundings.with_text(name, text.trim_end_matches(MAIN_SEPARATOR)),
                None => surroundings,
            },
        )
    }

    /// Adds a directory that has a separate directory for each run.
    pub fn with_directories_of_runs(mut self, path: &Path) -> Self {
        self.run_parents.extend(path.to_str().map(str::to_owned));
        self
    }

    /// Adds a name of the user. A name that is also an ordinary word, such as `root`, is noted in the recording and not
    /// replaced in it.
    pub fn with_user(mut self, name: &str) -> Self {
        match name.len() < 3 || COMMON_USERS.contains(&name) {
            true => self.user = self.user.or_else(|| Some(name.to_owned())).filter(|name| !name.is_empty()),
            false => return self.with_text("user", name),
        }
        self
    }

    pub(super) fn date(&self) -> Date {
        self.date
    }

    /// The user's name, if the recording notes it.
    pub(super) fn noted_user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the values to replace in a recording.
    pub(super) fn to_record(&self) -> ReplacedValues {
        let mut replaced = ReplacedValues { values: Vec::new(), run_parents: self.run_parents.clone() };
        self.values.iter().for_each(|(name, text)| replaced.add(name, text));
        replaced
    }

    /// Returns the values to replace before requests are compared: of this run, and those that the recording notes.
    pub(super) fn to_compare(&self, recorded_date: Date, recorded_user: Option<&str>) -> ReplacedValues {
        let mut replaced = self.to_record();
        replaced.add("date", &recorded_date.to_string());
        self.user.as_deref().into_iter().chain(recorded_user).for_each(|name| replaced.add("user", name));
        replaced
    }

    /// Returns the placeholders with their values in this run.
    pub(super) fn to_play(&self) -> Vec<(String, String)> {
        let mut played: Vec<(String, String)> = Vec::new();
        for (name, text) in &self.values {
            let mark = mark(name);
            if !played.iter().any(|(known, _)| *known == mark) {
                played.push((mark, text.clone()));
            }
        }
        let user = self.user.iter().map(|name| (mark("user"), name.clone()));
        played.into_iter().chain(user).collect()
    }
}

/// Texts and their placeholders.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplacedValues {
    values: Vec<(String, String)>,
    run_parents: Vec<String>,
}

/// Ids of one request, in the order of their first appearance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RequestIds(Vec<String>);

impl RequestIds {
    fn mark_of(&mut self, id: &str) -> String {
        let at = self.0.iter().position(|known| known == id).unwrap_or_else(|| {
            self.0.push(id.to_owned());
            self.0.len() - 1
        });
        mark(&format!("id-{}", at + 1))
    }

    /// Returns the placeholders with their ids.
    pub(super) fn to_play(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().enumerate().map(|(at, id)| (mark(&format!("id-{}", at + 1)), id.clone()))
    }
}

impl ReplacedValues {
    fn add(&mut self, name: &str, text: &str) {
        self.values.push((text.to_owned(), mark(name)));
    }

    /// Returns the values with the ids of a request, which its reply may repeat.
    pub(super) fn with_ids(mut self, ids: &RequestIds) -> Self {
        self.values.extend(ids.to_play().map(|(mark, id)| (id, mark)));
        self.run_parents.clear();
        self
    }

    /// Replaces the values in all texts of a request, and each of its ids by its number.
    pub(super) fn replace_in_request(&self, body: &mut Value) -> RequestIds {
        let mut ids = RequestIds::default();
        visit_texts(body, "", &mut |_, text| {
            if let Cow::Owned(replaced) = apply(text, self.matches(text, Some(&mut ids))) {
                *text = replaced;
            }
        });
        ids
    }

    /// Replaces the values in a text.
    pub(super) fn replace<'a>(&self, text: &'a str) -> Cow<'a, str> {
        apply(text, self.matches(text, None))
    }

    /// Finds the values in `text`, in order and without overlaps. Placeholders in it stay.
    pub(super) fn matches(&self, text: &str, mut ids: Option<&mut RequestIds>) -> Vec<ReplacedRange> {
        let mut found: Vec<(usize, usize, Option<String>)> = Vec::new();
        for (at, _) in text.match_indices(OPEN) {
            if let Some(length) = text[at..].find('}') {
                found.push((at, at + length + 1, Some(text[at..=at + length].to_owned())));
            }
        }
        for (value, mark) in &self.values {
            let whole = text.match_indices(value.as_str()).filter(|(at, _)| stands_alone(text, *at, at + value.len()));
            found.extend(whole.map(|(at, _)| (at, at + value.len(), Some(mark.clone()))));
        }
        if ids.is_some() {
            found.extend(uuids(text).map(|at| (at, at + UUID, None)));
            for parent in &self.run_parents {
                let inside = text.match_indices(parent.as_str()).filter_map(|(at, _)| end_of_run(text, at, parent));
                found.extend(inside.map(|(start, end)| (start, end, None)));
            }
        }
        found.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        let mut ranges: Vec<ReplacedRange> = Vec::new();
        for (start, end, mark) in found {
            if ranges.last().is_some_and(|last| start < last.end) {
                continue;
            }
            let mark = match (mark, ids.as_deref_mut()) {
                (Some(mark), _) => mark,
                (None, Some(ids)) => ids.mark_of(&text[start..end]),
                (None, None) => continue,
            };
            ranges.push(ReplacedRange { start, end, mark });
        }
        ranges
    }

    /// Returns whether a value may continue after the end of `text`.
    pub(super) fn is_open_at_end(&self, text: &str) -> bool {
        let is_open = |value: &str| {
            let prefixes = value.char_indices().map(|(at, c)| &value[..at + c.len_utf8()]);
            let mut ends = prefixes.filter(|prefix| text.ends_with(prefix)).map(|prefix| text.len() - prefix.len());
            ends.any(|at| starts_alone(text, at))
        };
        self.values.iter().any(|(value, _)| is_open(value))
    }
}

/// A range of a text and the placeholder for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReplacedRange {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) mark: String,
}

/// Visits all texts of a JSON value with their paths. Names of fields stay.
pub(super) fn visit_texts(value: &mut Value, path: &str, visit: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(at, item)| visit_texts(item, &format!("{path}[{at}]"), visit));
        }
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, field)| visit_texts(field, &format!("{path}.{name}"), visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces placeholders in a line of a reply, which is JSON or has JSON after a field name.
pub(super) fn play_text<'a>(text: &'a str, played: &[(String, String)]) -> Cow<'a, str> {
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let quoted = |value: &str| {
        let json = Value::from(value).to_string();
        json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json).to_owned()
    };
    Cow::Owned(played.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark.as_str(), &quoted(value))))
}

/// Replaces placeholders in all texts of a JSON value.
pub(super) fn play_json(value: &mut Value, played: &[(String, String)]) {
    visit_texts(value, "", &mut |_, text| {
        if text.contains(OPEN) {
            *text = played.iter().fold(std::mem::take(text), |text, (mark, value)| text.replace(mark.as_str(), value));
        }
    });
}

fn mark(name: &str) -> String {
    format!("{OPEN}{name}}}")
}

fn apply(text: &str, ranges: Vec<ReplacedRange>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        out.push_str(&text[done..range.start]);
        out.push_str(&range.mark);
        done = range.end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Returns whether no longer name or path ends where the text from `start` begins.
fn starts_alone(text: &str, start: usize) -> bool {
    // A JSON text in a text has escapes such as `\n` before a path.
    let before = &text[..start];
    let escaped = ["\\n", "\\t", "\\r"].iter().any(|escape| before.ends_with(escape));
    escaped || !before.chars().next_back().is_some_and(|c| continues_name(c) || c == '.')
}

/// Returns whether the range is not a part of a longer name: a dot ends it only if no name follows.
fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let mut after = text[end..].chars();
    let ends = match after.next() {
        Some('.') => !after.next().is_some_and(continues_name),
        Some(c) => !continues_name(c),
        None => true,
    };
    ends && starts_alone(text, start)
}

/// Returns the range of a directory of one run: `parent` at `start`, and the name after it.
fn end_of_run(text: &str, start: usize, parent: &str) -> Option<(usize, usize)> {
    let rest = text[start + parent.len()..].strip_prefix(MAIN_SEPARATOR)?;
    let length = rest.find(|c| !(continues_name(c) || c == '.')).unwrap_or(rest.len());
    (length > 0).then(|| (start, start + parent.len() + 1 + length))
}

/// The length of a UUID.
const UUID: usize = 36;

/// Returns the starts of all UUIDs in `text`.
fn uuids(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let is_uuid = |at: usize| {
        bytes.get(at..at + UUID).is_some_and(|id| {
            id.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        })
    };
    let starts = memchr::memchr_iter(b'-', bytes).filter_map(|at| at.checked_sub(8));
    starts.filter(move |at| is_uuid(*at) && stands_alone(text, *at, at + UUID))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use serde_json::json;

    fn ada() -> RunSurroundings {
        RunSurroundings::new(date(2026, 11, 20))
            .with_directory("directory", Path::new("/home/ada/work"))
            .with_directory("home", Path::new("/home/ada"))
            .with_directories_of_runs(Path::new("/cache/output"))
            .with_user("ada")
            .with_text("system", "linux x86_64")
    }

    #[test]
    fn values_are_replaced_where_they_stand_alone() {
        let replaced = |text: &str| ada().to_record().replace(text).into_owned();
        for (text, expected) in [
            ("/home/ada/work/a.rs", "{pinion:directory}/a.rs"),
            ("in /home/ada.", "in {pinion:home}."),
            ("{\"p\":\"a\\n/home/ada/work\"}", "{\"p\":\"a\\n{pinion:directory}\"}"),
            ("/mnt/home/ada and /home/ada/works", "/mnt/home/{pinion:user} and {pinion:home}/works"),
            ("ada, adamant, 2026-11-20 on linux x86_64", "{pinion:user}, adamant, {pinion:date} on {pinion:system}"),
            ("/home/ada.old {pinion:user}", "/home/ada.old {pinion:user}"),
        ] {
            assert_eq!(replaced(text), expected);
        }
    }

    #[test]
    fn ids_have_the_numbers_of_their_first_appearance() {
        let (one, two) = ("0e4fa1f2-5a8f-4a8e-9d2e-6a61c43b8a11", "3c3ea9e0-0f5d-4b0a-8a35-cf6f0f1e7a22");
        let mut body =
            json!({ "a": [two, format!("see {one}, {two}")], "b": "/cache/output/ab12-7/1.txt and /cache/output" });
        let ids = ada().to_record().replace_in_request(&mut body);
        let expected = json!({ "a": ["{pinion:id-1}", "see {pinion:id-2}, {pinion:id-1}"], "b": "{pinion:id-3}/1.txt and /cache/output" });
        assert_eq!(body, expected);
        let played: Vec<_> = ada().to_play().into_iter().chain(ids.to_play()).collect();
        let line = r#"data: {"t":"{pinion:id-2} in {pinion:id-3} of {pinion:user}"}"#;
        assert_eq!(play_text(line, &played), format!(r#"data: {{"t":"{one} in /cache/output/ab12-7 of ada"}}"#));
    }

    #[test]
    fn name_that_is_a_word_is_noted_and_only_replaced_to_compare() {
        let root = RunSurroundings::new(date(2026, 11, 20)).with_user("root");
        assert_eq!((root.noted_user(), ada().noted_user()), (Some("root"), None));
        assert_eq!(root.to_record().replace("the root of root"), "the root of root");
        let compared = ada().to_compare(date(2026, 11, 20), Some("root"));
        assert_eq!(compared.replace("owner root"), compared.replace("owner ada"));
    }

    #[test]
    fn placeholder_is_not_replaced_again() {
        let user = RunSurroundings::new(date(2026, 11, 20)).with_text("user", "user").to_record();
        assert_eq!(user.replace("{pinion:user} user"), "{pinion:user} {pinion:user}");
    }

    #[test]
    fn incomplete_value_at_the_end_is_open() {
        let values = ada().to_record();
        for (text, is_open) in
            [("see /home/a", true), ("see /home/ada", true), ("see", false), ("x/home", false), ("data", false)]
        {
            assert_eq!(values.is_open_at_end(text), is_open, "{text}");
        }
    }
}
