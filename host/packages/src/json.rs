//! JSON in which no object names a member twice.
//!
//! Two readers of `{"name": "a", "name": "b"}` may see two names. A file that one program checks and another one uses has
//! to mean the same to both.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Maximum bytes of a JSON file in a package.
const MAX_BYTES: usize = 1 << 20;

/// Parses JSON of at most 1 MiB, and refuses an object with a member that is there twice.
///
/// # Errors
/// The text is too long, not JSON, or ambiguous.
pub fn parse_strict(text: &[u8]) -> Result<Value, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    serde_json::from_slice::<UniqueMembers>(text).map(|value| value.0).map_err(|error| error.to_string())
}

/// A value whose objects have no member twice.
struct UniqueMembers(Value);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueMembers(value)) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let UniqueMembers(value) = members.next_value()?;
            if map.insert(name.clone(), value).is_some() {
                return Err(de::Error::custom(format!("`{}` is there twice", name.escape_debug())));
            }
        }
        Ok(Value::Object(map))
    }
}
