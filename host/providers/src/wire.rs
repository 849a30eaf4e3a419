//! What every wire format is: a function from a request to a body, and a [`Decoder`] from bytes to events.

use pinion_protocol::{ProviderError, StreamEvent};
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Turns the bytes of one reply into events. A pure state machine: no clock, no I/O, bounded memory.
///
/// However the bytes are cut into packets, the events are the same. After [`StreamEvent::End`] or an error nothing more
/// comes, whatever is fed.
pub trait Decoder: Send {
    /// Takes more bytes and appends the events that they complete to `events`.
    ///
    /// # Errors
    /// The bytes make no sense, or the vendor reports an error; events that came before it are in `events`.
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// The connection has ended.
    ///
    /// # Errors
    /// [`ProviderError::Network`] when the reply was not complete.
    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// The stream ended before the reply did.
pub(crate) fn broke_off() -> ProviderError {
    ProviderError::Network { message: "the reply broke off".to_owned() }
}

/// What came of some bytes: whatever follows the end of a reply is no error.
pub(crate) fn settled(has_ended: bool, fed: Result<(), ProviderError>) -> Result<(), ProviderError> {
    if has_ended { Ok(()) } else { fed }
}

/// Reads the JSON of one event.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(data).map_err(|error| {
        let start: String = String::from_utf8_lossy(&data[..data.len().min(200)]).chars().take(60).collect();
        let start: String = start.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        ProviderError::Malformed { message: format!("{error}, in the event `{start}`") }
    })
}

/// Reads null as the default.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads a text, and whatever is none as an empty one: a field may mean something else in events that nobody knows yet.
pub(crate) fn text<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    struct Text;
    impl<'de> Visitor<'de> for Text {
        type Value = Cow<'de, str>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }
        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Cow::default())
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Cow::default())
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Cow::default())
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Cow::default())
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Cow::default())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Cow::default())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Cow::default())
        }
    }
    deserializer.deserialize_any(Text)
}
