//! Doc comments of exported functions, from the custom section `package-docs`.
//!
//! Compilers drop the comments of a WIT file. Tools that keep them, such as `wit-docs-inject`, add this section: a version
//! byte, then JSON with the texts of a package's worlds and interfaces.

use pinion_protocol::text::find_unsafe;
use serde_json::Value;
use std::collections::BTreeMap;

/// The name of the section.
pub const DOCUMENTATION_SECTION: &str = "package-docs";

/// Bytes of a section that is read.
const MAX_BYTES: usize = 256 * 1024;
/// Bytes of one text.
const MAX_TEXT: usize = 4 * 1024;
/// Versions of the section.
const VERSIONS: [u8; 2] = [0, 1];

/// Texts by function: by its interface without package and version, `#`, and its name; or by the name alone.
pub type FunctionTexts = BTreeMap<String, String>;

/// The key of a function's text: its interface without package and version, `#`, and its name; or the name alone.
pub(crate) fn key(interface: Option<&str>, function: &str) -> String {
    interface.map_or_else(|| function.to_owned(), |interface| format!("{}#{function}", short_name(interface)))
}

/// The name of an interface without package and version.
pub(crate) fn short_name(interface: &str) -> &str {
    let name = interface.split('@').next().unwrap_or(interface);
    name.rsplit('/').next().unwrap_or(name)
}

/// Reads the section. One that cannot be read has no texts, because they only describe.
pub fn function_texts(section: &[u8]) -> FunctionTexts {
    let mut texts = FunctionTexts::new();
    let Some((version, json)) = section.split_first().filter(|_| section.len() <= MAX_BYTES) else { return texts };
    let Some(package) = VERSIONS.contains(version).then(|| serde_json::from_slice::<Value>(json).ok()).flatten() else {
        return texts;
    };
    for world in members(&package, "worlds").map(|(_, world)| world) {
        for list in ["funcs", "func_exports"] {
            members(world, list).for_each(|(name, function)| add(&mut texts, None, name, function));
        }
        for (interface, content) in members(world, "interface_exports") {
            members(content, "funcs").for_each(|(name, function)| add(&mut texts, Some(interface), name, function));
        }
    }
    for (interface, content) in members(&package, "interfaces") {
        members(content, "funcs").for_each(|(name, function)| add(&mut texts, Some(interface), name, function));
    }
    texts
}

fn members<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let members = value.get(name).and_then(Value::as_object);
    members.into_iter().flatten().map(|(name, member)| (name.as_str(), member))
}

/// Adds the text of a function, which is a string or the member `docs`.
fn add(texts: &mut FunctionTexts, interface: Option<&str>, name: &str, function: &Value) {
    let text = function.as_str().or_else(|| function.get("docs").and_then(Value::as_str)).map(str::trim);
    let is_usable = |text: &&str| !text.is_empty() && text.len() <= MAX_TEXT && find_unsafe(text, true).is_none();
    if let Some(text) = text.filter(is_usable) {
        texts.insert(key(interface, name), text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(json: &str) -> Vec<u8> {
        [&[1], json.as_bytes()].concat()
    }

    #[test]
    fn texts_of_worlds_and_interfaces_are_found() {
        let json = r#"{ "worlds": { "w": { "func_exports": { "add": { "docs": "Adds." } },
            "interface_exports": { "inline": { "funcs": { "f": { "docs": "F." } } } } } },
            "interfaces": { "math": { "funcs": { "mul": { "docs": "Multiplies." }, "old": "Old." } } } }"#;
        let texts = function_texts(&section(json));
        let text = |interface, name| texts.get(&key(interface, name)).map(String::as_str);
        assert_eq!(text(None, "add"), Some("Adds."));
        assert_eq!(text(Some("a:b/math@1.0.0"), "mul"), Some("Multiplies."));
        assert_eq!((text(Some("math"), "old"), text(Some("inline"), "f")), (Some("Old."), Some("F.")));
    }

    #[test]
    fn unusable_texts_are_left_out() {
        let with =
            |text: &str| section(&serde_json::json!({ "worlds": { "w": { "funcs": { "f": text } } } }).to_string());
        assert_eq!(function_texts(&with("Fine.\nLines.")).len(), 1);
        for text in ["", "a\u{202e}b", "\u{1b}[2J", &"x".repeat(MAX_TEXT + 1)] {
            assert!(function_texts(&with(text)).is_empty(), "{text:?}");
        }
        for bytes in [&b""[..], b"\x01", b"\x07{}", b"\x01[1]", b"\x01{\"worlds\":3}", &vec![1; MAX_BYTES + 1]] {
            assert!(function_texts(bytes).is_empty());
        }
    }
}
