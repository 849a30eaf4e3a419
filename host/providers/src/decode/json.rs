//! JSON helpers for fields that vendors fill in differently.
//!
//! A newer server may put a value of another type into a field that is known here. Such a field counts as missing, so
//! that it never costs the rest of the event.

use pinion_protocol::ProviderError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Deserializes the JSON of one event.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(data)
        .map_err(|error| ProviderError::Malformed { message: format!("{error}, in the event `{}`", start_of(data)) })
}

/// Returns the start of an event for an error message, without a word that it would cut: a key in it is redacted as a whole.
pub(crate) fn start_of(data: &[u8]) -> String {
    let start = String::from_utf8_lossy(&data[..data.len().min(200)]);
    let shown: String = start.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    match data.len() == shown.len() {
        true => shown,
        false => format!("{}…", shown.trim_end_matches(|c: char| !c.is_whitespace() && !"\"'`{}[],:".contains(c))),
    }
}

/// Arguments of a call: a string with JSON or a fragment of it, or the object itself. Any other value is empty.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a>(pub(crate) Cow<'a, str>);

impl Arguments<'_> {
    /// The arguments of a call that arrives at once, so that nothing was cut off.
    pub(crate) fn of_complete_call(&self) -> &str {
        if self.0.is_empty() { "{}" } else { &self.0 }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match raw.as_bytes().first() {
            Some(b'"') => Cow::Owned(serde_json::from_str(raw).map_err(serde::de::Error::custom)?),
            Some(b'{') => Cow::Borrowed(raw),
            _ => Cow::Borrowed(""),
        }))
    }
}

/// Visitor methods that turn values of the given kinds into the default.
macro_rules! default_for {
    ($($kind:ident)*) => { $(default_for!(@ $kind);)* };
    (@ null) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ bool) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ number) => {
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ text) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (@ object) => {
        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}
pub(crate) use default_for;

/// Deserializes a string; any other value becomes an empty one.
pub(crate) fn text<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    struct TextVisitor;
    impl<'de> Visitor<'de> for TextVisitor {
        type Value = Cow<'de, str>;
        default_for!(null bool number list object);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
    deserializer.deserialize_any(TextVisitor)
}

/// Deserializes a count or an index, which some gateways write as a string; any other value than a number from 0 becomes
/// `None`.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct CountVisitor;
    impl<'de> Visitor<'de> for CountVisitor {
        type Value = Option<u64>;
        default_for!(null bool list object);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number")
        }
        fn visit_str<E>(self, count: &str) -> Result<Self::Value, E> {
            Ok(count.parse().ok())
        }
        fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
            Ok(Some(count))
        }
        fn visit_i64<E>(self, count: i64) -> Result<Self::Value, E> {
            Ok(u64::try_from(count).ok())
        }
        fn visit_f64<E>(self, count: f64) -> Result<Self::Value, E> {
            Ok((count >= 0.0).then_some(count as u64))
        }
    }
    deserializer.deserialize_any(CountVisitor)
}

/// Deserializes a flag; any other value becomes `false`.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Flag;
    impl<'de> Visitor<'de> for Flag {
        type Value = bool;
        default_for!(null number text list object);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a boolean")
        }
        fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
            Ok(flag)
        }
    }
    deserializer.deserialize_any(Flag)
}

/// Deserializes an error. Some servers add an empty one to every event, which does not count as an error.
pub(crate) fn error<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    let error = Option::<Value>::deserialize(deserializer)?;
    Ok(error.filter(|error| !is_blank(error)))
}

/// Returns whether a value says nothing, and neither do those within it.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.iter().all(is_blank),
        Value::Object(fields) => fields.values().all(is_blank),
    }
}

/// Deserializes an object; any other value becomes `None`.
pub(crate) fn object<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Object<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = Option<T>;
        default_for!(null bool number text list);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(fields)).map(Some)
        }
    }
    deserializer.deserialize_any(Object(PhantomData))
}

/// Deserializes a list of objects without its other elements; any other value becomes an empty list.
pub(crate) fn objects<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Element<T>(Option<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Element<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            object(deserializer).map(Self)
        }
    }
    struct List<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;
        default_for!(null bool number text object);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(Element(item)) = items.next_element()? {
                list.extend(item);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_any(List(PhantomData))
}
