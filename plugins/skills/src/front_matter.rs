//! The front matter of a `SKILL.md`, `name` and `description` (<https://agentskills.io/specification>), and that of a prompt.
//!
//! It is YAML, but many published skills are not: their descriptions contain colons without quotation marks. This reader
//! takes a key's text as it stands, and knows quotation marks, texts of several lines and block scalars.

/// The members that matter here; a missing one is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Placeholder for the arguments of a prompt.
    pub(crate) argument_hint: String,
    /// `disable-model-invocation`: only the user starts the skill.
    pub(crate) is_for_user_only: bool,
}

/// Splits a file into its front matter and its body. Without front matter, all of it is body.
pub(crate) fn split(text: &str) -> (FrontMatter, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) =
        text.strip_prefix("---").and_then(|rest| rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n'))
    else {
        return (FrontMatter::default(), text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (read(&rest[..at]), rest[at + line.len()..].trim_start_matches(['\r', '\n']));
        }
        at += line.len();
    }
    (FrontMatter::default(), text)
}

fn read(yaml: &str) -> FrontMatter {
    let mut members = FrontMatter::default();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t', '#'])) else { continue };
        let mut text = value.trim().to_owned();
        if text.starts_with(['|', '>']) {
            text.clear();
        }
        // Indented lines belong to the key before them.
        while let Some(more) = lines.next_if(|line| line.starts_with([' ', '\t']) || line.trim().is_empty()) {
            text.push(' ');
            text.push_str(more.trim());
        }
        let text = unquoted(text.trim());
        match key.trim() {
            "name" if members.name.is_empty() => members.name = text,
            "argument-hint" if members.argument_hint.is_empty() => members.argument_hint = text,
            "description" if members.description.is_empty() => members.description = text,
            "disable-model-invocation" => members.is_for_user_only |= is_true(&text),
            _ => {}
        }
    }
    members
}

/// Returns whether a text means yes. A comment may follow it.
fn is_true(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    ["true", "yes", "on"].iter().any(|yes| word.eq_ignore_ascii_case(yes))
}

/// Removes the quotation marks around a text.
fn unquoted(text: &str) -> String {
    let inside = |mark: char| text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark));
    match (inside('"'), inside('\'')) {
        (Some(text), _) => text.replace("\\\"", "\"").replace("\\n", " ").replace("\\\\", "\\"),
        (_, Some(text)) => text.replace("''", "'"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_in(yaml: &str) -> (String, String) {
        let file = format!("---\n{yaml}\n---\n\nBody.\n");
        let (members, body) = split(&file);
        assert_eq!(body, "Body.\n", "{yaml}");
        (members.name, members.description)
    }

    #[test]
    fn members_are_read_in_all_forms() {
        let pair = |name: &str, description: &str| (name.to_owned(), description.to_owned());
        assert_eq!(read_in("name: pdf\ndescription: Use when: a PDF"), pair("pdf", "Use when: a PDF"));
        assert_eq!(read_in("description: \"A \\\"b\\\"\"\nname: 'it''s'"), pair("it's", "A \"b\""));
        assert_eq!(read_in("name: x\ndescription: >-\n  one\n  two\nlicense: MIT"), pair("x", "one two"));
        assert_eq!(read_in("name: x\ndescription: one\n  two"), pair("x", "one two"));
        assert_eq!(read_in("metadata:\n  name: inner\n# name: no\nname: x\nname: y"), pair("x", ""));
    }

    #[test]
    fn skill_is_for_the_user_only_if_its_front_matter_says_so() {
        let is_for_user_only =
            |value: &str| split(&format!("---\nname: x\ndisable-model-invocation: {value}\n---\n")).0.is_for_user_only;
        for value in ["true", "True", "'true'", "yes", "true  # by hand"] {
            assert!(is_for_user_only(value), "{value}");
        }
        for value in ["false", "", "untrue", "# true"] {
            assert!(!is_for_user_only(value), "{value}");
        }
    }

    #[test]
    fn file_without_front_matter_is_all_body() {
        for text in ["", "# Title\n", "---\nname: x\n", "----\nname: x\n---\n", "--- x\n---\n"] {
            assert_eq!(split(text), (FrontMatter::default(), text));
        }
        assert_eq!(split("\u{feff}---\r\nname: x\r\n---\r\nBody").0.name, "x");
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_loss_of_its_end(text in ".{0,40}", yaml in "[a-z: \n'\"|>-]{0,60}") {
            let file = format!("---\n{yaml}\n---\n{text}");
            let (_, body) = split(&file);
            prop_assert!(file.ends_with(body));
        }
    }
}
