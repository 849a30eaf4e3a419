//! Members of JSON objects with their lines.

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Maximum number of members of one object.
const MAX_MEMBERS: usize = 1024;

/// A value in a file, and the line where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    raw: &'a str,
    /// Counted from 1.
    pub(super) line: usize,
}

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) message: String,
}

impl Mistake {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    /// Takes over an error of the parser, whose position is relative to a value on `line`.
    fn from_error(line: usize, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        Self::new(line + error.line().saturating_sub(1), message)
    }
}

/// Names and values of an object, in the order of the file. A repeated name is a mistake.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, Located<'a>)>;

impl<'a> Located<'a> {
    /// Takes a whole file.
    pub(super) fn file(text: &'a str) -> Self {
        Self { raw: text, line: 1 }
    }

    /// Returns the members of the object that the value is.
    ///
    /// # Errors
    /// The value is not an object, is invalid JSON, or has a name twice.
    pub(super) fn members(self) -> Result<Members<'a>, Mistake> {
        let raw: RawMembers<'a> =
            serde_json::from_str(self.raw).map_err(|error| Mistake::from_error(self.line, &error))?;
        let mut members = Members::with_capacity(raw.0.len());
        let (mut offset, mut line) = (0, self.line);
        for (name, value) in raw.0 {
            // The value is borrowed from the text, behind the one before.
            let begin = (value.get().as_ptr() as usize).saturating_sub(self.raw.as_ptr() as usize);
            let between = self.raw.as_bytes().get(offset..begin).unwrap_or_default();
            line += between.iter().filter(|byte| **byte == b'\n').count();
            offset = begin;
            let located = Self { raw: value.get(), line };
            if members.iter().any(|(other, _)| *other == name) {
                return Err(Mistake::new(located.line, format!("`{name}` is there twice")));
            }
            members.push((name, located));
        }
        Ok(members)
    }

    /// Returns whether the value is `null`, as some programs write a member that is not set.
    pub(super) fn is_null(self) -> bool {
        self.raw.trim() == "null"
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// The value has another type.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Mistake> {
        serde_json::from_str(self.raw).map_err(|error| Mistake::from_error(self.line, &error))
    }
}

/// Members that are not parsed yet.
struct RawMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<MemberName<'de>, &'de RawValue>()? {
                    if members.len() == MAX_MEMBERS {
                        let most = MAX_MEMBERS;
                        return Err(de::Error::custom(format!("more than {most} members")));
                    }
                    members.push((name.0, value));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A name, borrowed unless it has escapes.
struct MemberName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for MemberName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextMemberVisitor;
        impl<'de> Visitor<'de> for TextMemberVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextMemberVisitor).map(Self)
    }
}

/// Replaces comments and trailing commas by spaces, so that all lines and columns stay. Editors allow both.
pub(super) fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                comma = None;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    bytes[at] = b' ';
                    at += 1;
                }
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = text.as_bytes()[at + 2..].windows(2).position(|pair| pair == b"*/");
                let end = end.map_or(bytes.len(), |end| at + 2 + end + 2);
                bytes[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            b',' => {
                comma = Some(at);
                at += 1;
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
                at += 1;
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                at += 1;
            }
        }
    }
    // Only whole characters were replaced, each byte of them.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_lines() {
        let text = "{\n  \"b\": 1,\n  \"a\\u0041\": {\n    \"c\": [\n1]\n  }\n}";
        let members = Located::file(text).members().unwrap();
        let seen: Vec<_> = members.iter().map(|(name, value)| (name.as_ref(), value.line)).collect();
        assert_eq!(seen, [("b", 2), ("aA", 3)]);
        let inner = members[1].1.members().unwrap();
        assert_eq!(inner[0].1.line, 4);
        assert_eq!(inner[0].1.read::<Vec<String>>().unwrap_err().line, 5);
    }

    #[test]
    fn mistakes_name_their_line() {
        let mistake = Located::file("{\n\"a\": 1,\n\"a\": 2}").members().unwrap_err();
        assert_eq!((mistake.line, mistake.message.as_str()), (3, "`a` is there twice"));
        assert_eq!(Located::file("{\n\"a\": 1,\n}").members().unwrap_err().line, 3);
        assert!(Located::file("[1]").members().unwrap_err().message.contains("expected an object"));
    }

    #[test]
    fn comments_become_spaces_of_the_same_length() {
        let text = "{ // ünï\n\"a//b\": \"/*\\\"*/\", /* x\ny */ \"c\": [1, 2,],\n}";
        let plain = without_comments(text);
        assert_eq!(plain.len(), text.len());
        assert_eq!(plain.lines().count(), text.lines().count());
        let value: serde_json::Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(value, serde_json::json!({ "a//b": "/*\"*/", "c": [1, 2] }));
    }
}
