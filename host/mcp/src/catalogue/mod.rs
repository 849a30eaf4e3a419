//! The catalogue of a server: its tools, prompts and instructions, checked and bounded.

pub(crate) mod cache;
pub(crate) mod contact;
mod entry;

use std::collections::HashSet;
use std::sync::Arc;

use pinion_protocol::text::{one_line, printable};
use serde::Serialize;
use serde_json::Value;

use crate::limits::{MAX_CATALOGUE, MAX_DEFINITION, MAX_DEPTH, MAX_ENTRIES, MAX_INSTRUCTIONS, MAX_NAME};

/// Maximum problems that are reported; the rest is counted.
const MAX_PROBLEMS: usize = 64;

/// A tool or prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogueEntry {
    pub(crate) name: String,
    /// The definition as JSON.
    pub(crate) definition: Arc<str>,
}

/// Everything that a server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    /// Version of the protocol.
    pub(crate) protocol: String,
    /// Name and version that the server calls itself.
    pub(crate) software: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<CatalogueEntry>,
    pub(crate) prompts: Vec<CatalogueEntry>,
    pub(crate) has_resources: bool,
    /// The server does not survive or answer `server/discover`.
    pub(crate) is_deaf: bool,
    /// Entries that were dropped, with the reason.
    pub(crate) problems: Vec<String>,
}

/// Collects a catalogue within the limits.
pub(crate) struct Collector {
    bytes: usize,
    dropped: usize,
    catalogue: Catalogue,
    names: HashSet<(CatalogueKind, String)>,
}

/// A list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CatalogueKind {
    Tool,
    Prompt,
}

impl CatalogueKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the member of a page that has the entries.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
        }
    }
}

impl Collector {
    pub(crate) fn new(protocol: &str, software: &str, instructions: Option<&str>, has_resources: bool) -> Self {
        let catalogue = Catalogue {
            protocol: one_line(protocol, 32),
            software: one_line(software, 120),
            instructions: instructions.map(|text| printable(head(text, MAX_INSTRUCTIONS)).into_owned()),
            has_resources,
            ..Catalogue::default()
        };
        Self { bytes: 0, dropped: 0, catalogue, names: HashSet::new() }
    }

    /// Adds an entry. Returns false once the list is full, so that no further page is worth fetching.
    pub(crate) fn add(&mut self, kind: CatalogueKind, name: &str, definition: &impl Serialize) -> bool {
        match serde_json::to_string(definition) {
            Ok(definition) => self.add_text(kind, name, &definition),
            Err(_) => true,
        }
    }

    /// Adds an entry of any form. An entry that cannot be used is dropped and does not affect the others.
    pub(crate) fn add_any(&mut self, kind: CatalogueKind, entry: &Value) -> bool {
        match entry::read(kind, entry) {
            Ok((name, definition, remark)) => {
                remark.into_iter().for_each(|remark| self.note(remark));
                self.add(kind, &name, &definition)
            }
            Err(problem) => {
                self.note(problem);
                true
            }
        }
    }

    /// Adds an entry whose definition is valid JSON.
    pub(crate) fn add_text(&mut self, kind: CatalogueKind, name: &str, definition: &str) -> bool {
        match self.check(kind, name, definition) {
            Ok(()) => {
                self.bytes += definition.len();
                self.names.insert((kind, name.to_owned()));
                self.list(kind).push(CatalogueEntry { name: name.to_owned(), definition: definition.into() });
            }
            Err(problem) => self.note(format!("dropped {} `{}`: {problem}", kind.name(), one_line(name, 64))),
        }
        self.list(kind).len() < MAX_ENTRIES
    }

    /// Notes that something was dropped or replaced.
    pub(crate) fn note(&mut self, problem: String) {
        self.dropped += 1;
        if self.catalogue.problems.len() < MAX_PROBLEMS {
            self.catalogue.problems.push(problem);
        }
    }

    pub(crate) fn finish(mut self) -> Catalogue {
        let more = self.dropped - self.catalogue.problems.len();
        if more > 0 {
            self.catalogue.problems.push(format!("{more} more entries have problems"));
        }
        self.catalogue
    }

    fn list(&mut self, kind: CatalogueKind) -> &mut Vec<CatalogueEntry> {
        match kind {
            CatalogueKind::Tool => &mut self.catalogue.tools,
            CatalogueKind::Prompt => &mut self.catalogue.prompts,
        }
    }

    fn check(&mut self, kind: CatalogueKind, name: &str, json: &str) -> Result<(), String> {
        check_name(name)?;
        if self.list(kind).len() >= MAX_ENTRIES {
            return Err(format!("the server has more than {MAX_ENTRIES} {}s", kind.name()));
        }
        if self.names.contains(&(kind, name.to_owned())) {
            return Err("the name appears twice".to_owned());
        }
        if depth(json) > MAX_DEPTH {
            return Err(format!("its definition is nested more than {MAX_DEPTH} levels deep"));
        }
        if json.len() > MAX_DEFINITION {
            return Err(format!("its definition has {} bytes, the limit is {MAX_DEFINITION}", json.len()));
        }
        if self.bytes + json.len() > MAX_CATALOGUE {
            return Err(format!("the definitions of the server have more than {MAX_CATALOGUE} bytes"));
        }
        Ok(())
    }
}

/// Checks the name of a tool or prompt: printable ASCII without spaces, quotes and backticks.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: u8| c.is_ascii_graphic() && !matches!(c, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>');
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(format!("its name has {} bytes, allowed are 1 to {MAX_NAME}", name.len()));
    }
    match name.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err("its name has characters other than letters, digits and `_-./:`".to_owned()),
    }
}

/// Returns the nesting of valid JSON; a scalar has 0.
pub(crate) fn depth(json: &str) -> usize {
    let (mut deepest, mut depth) = (0_usize, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the beginning of a text, of at most `bytes` bytes.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn collector() -> Collector {
        Collector::new("2025-11-25", "test 1", None, false)
    }

    #[test]
    fn names_with_control_characters_are_dropped_and_shown_clean() {
        let mut collector = collector();
        assert!(collector.add(CatalogueKind::Tool, "good", &json!({"name": "good"})));
        for name in ["", "a b", "evil\u{1b}[31m", "a\u{202e}b", "tick`", &"x".repeat(200), "new\nline"] {
            assert!(collector.add(CatalogueKind::Tool, name, &json!({})));
        }
        let catalogue = collector.finish();
        assert_eq!(catalogue.tools.len(), 1);
        assert_eq!(catalogue.problems.len(), 7);
        assert!(catalogue.problems.iter().all(|problem| !problem.contains(['\u{1b}', '\u{202e}', '\n'])));
    }

    #[test]
    fn number_of_tools_is_bounded() {
        let mut collector = collector();
        let mut wants_more = true;
        for n in 0..MAX_ENTRIES + 100 {
            wants_more = collector.add(CatalogueKind::Tool, &format!("tool{n}"), &json!({"n": n}));
        }
        assert!(!wants_more);
        let catalogue = collector.finish();
        assert_eq!(catalogue.tools.len(), MAX_ENTRIES);
        assert!(catalogue.problems.last().unwrap().starts_with("36 more entries"));
    }

    #[test]
    fn giant_deep_and_repeated_definitions_are_dropped() {
        let mut collector = collector();
        let bomb = (0..100).fold(json!({}), |inner, _| json!({"properties": {"x": inner}}));
        collector.add(CatalogueKind::Tool, "deep", &bomb);
        collector.add(CatalogueKind::Tool, "giant", &json!({"description": "x".repeat(MAX_DEFINITION)}));
        collector.add(CatalogueKind::Tool, "twice", &json!({"n": 1}));
        collector.add(CatalogueKind::Tool, "twice", &json!({"n": 2}));
        collector.add(CatalogueKind::Prompt, "twice", &json!({"n": 3}));
        let catalogue = collector.finish();
        assert_eq!(catalogue.tools.len(), 1);
        assert_eq!(&*catalogue.tools[0].definition, r#"{"n":1}"#);
        assert_eq!(catalogue.prompts.len(), 1);
        assert_eq!(catalogue.problems.len(), 3);
    }

    #[test]
    fn depth_ignores_brackets_in_texts() {
        for (json, expected) in [("1", 0), ("[]", 1), ("[[],{\"a\":[]}]", 3), (r#"{"[[[\"[[":"]]\\"}"#, 1)] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn total_size_is_bounded() {
        let mut collector = collector();
        for n in 0..64 {
            collector.add(
                CatalogueKind::Tool,
                &format!("tool{n}"),
                &json!({"description": "x".repeat(MAX_DEFINITION / 2)}),
            );
        }
        let total: usize = collector.finish().tools.iter().map(|tool| tool.definition.len()).sum();
        assert!(total <= MAX_CATALOGUE && total > MAX_CATALOGUE / 2);
    }

    #[test]
    fn instructions_are_cut_and_cleaned() {
        let text = format!("\u{1b}]0;title\u{7}{}", "ü".repeat(MAX_INSTRUCTIONS));
        let catalogue = Collector::new("v\u{1b}", "s", Some(&text), true).finish();
        let instructions = catalogue.instructions.unwrap();
        assert!(!instructions.contains(['\u{1b}', '\u{7}']) && instructions.len() < MAX_INSTRUCTIONS + 64);
        assert!(!catalogue.protocol.contains('\u{1b}'));
    }
}
