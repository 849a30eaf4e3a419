//! Paths and contents as text of printable ASCII, for the environment of a helper and for notes: names need not be UTF-8.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Returns the text of bytes, with an escape `%XX` for all but plain characters.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'%' | b'"' | b'\\' | ..b' ' | 127.. => {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

/// Returns the bytes of a text. Bytes that are not an escape stand for themselves.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let (mut bytes, mut left) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, rest)) = left.split_first() {
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                left = &rest[2..];
            }
            None => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    bytes
}

pub(crate) fn encode_path(path: &Path) -> String {
    encode(path.as_os_str().as_encoded_bytes())
}

pub(crate) fn decode_path(text: &str) -> PathBuf {
    let bytes = decode(text);
    #[cfg(unix)]
    return PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes));
    #[cfg(not(unix))]
    PathBuf::from(OsStr::new(&*String::from_utf8_lossy(&bytes)))
}

/// Bytes that a path takes in a list.
pub(crate) fn length(path: &Path) -> usize {
    let escaped = |byte: &&u8| matches!(byte, b'%' | b'"' | b'\\' | ..b' ' | 127..);
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.len() + 2 * bytes.iter().filter(escaped).count() + "\\n".len()
}

/// One path.
pub(crate) mod path {
    use super::{decode_path, encode_path};
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode_path(path))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(decode_path(&String::deserialize(deserializer)?))
    }
}

/// An optional path.
pub(crate) mod optional {
    use super::{decode_path, encode_path};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(encode_path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.as_deref().map(decode_path))
    }
}

/// A list of paths: one text with a line for each.
pub(crate) mod paths {
    use super::{decode_path, encode_path};
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        let lines: Vec<String> = paths.iter().map(|path| encode_path(path)).collect();
        serializer.serialize_str(&lines.join("\n"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.split_terminator('\n').map(decode_path).collect())
    }
}

/// Optional bytes.
pub(crate) mod content {
    use super::{decode, encode};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(content: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        content.as_deref().map(encode).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.as_deref().map(decode))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Lists {
        #[serde(with = "paths")]
        paths: Vec<PathBuf>,
        #[serde(with = "optional")]
        one: Option<PathBuf>,
        #[serde(with = "content")]
        content: Option<Vec<u8>>,
    }

    #[test]
    fn any_path_and_content_comes_back() {
        let odd = decode_path("/a\n\"\\%41\u{e4}%FF%zz%");
        for paths in [vec![], vec![odd.clone()], vec![PathBuf::from("/"), odd.clone(), PathBuf::from("/b c")]] {
            let lists = Lists { one: paths.first().cloned(), content: Some(vec![0, 255, b'%', b'\n']), paths };
            let text = serde_json::to_string(&lists).unwrap();
            assert!(text.is_ascii() && !text.contains('\n'), "{text}");
            assert_eq!(serde_json::from_str::<Lists>(&text).unwrap(), lists);
        }
        let line = serde_json::to_string(&encode_path(&odd)).unwrap();
        assert_eq!(length(&odd), line.len() - "\"\"".len() + "\\n".len(), "{line}");
    }
}
