//! Ids of entries, sessions and runs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The id of an entry, unique in its session: a counter from 1, written in base 36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(u64);

/// The largest id, of eight digits. No session has as many entries, and counting stays far from overflow.
const MAX: u64 = 36_u64.pow(8) - 1;

impl EntryId {
    /// The id of the first entry of a session.
    pub(crate) const FIRST: Self = Self(1);

    /// Returns the next id; `None` after the largest.
    pub(crate) fn next(self) -> Option<Self> {
        (self.0 < MAX).then_some(Self(self.0 + 1))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0_u8; 13];
        let mut at = digits.len();
        let mut rest = self.0;
        while rest > 0 || at == digits.len() {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
        }
        f.pad(&String::from_utf8_lossy(&digits[at..]))
    }
}

impl FromStr for EntryId {
    type Err = InvalidEntryId;

    fn from_str(text: &str) -> Result<Self, InvalidEntryId> {
        let digits = !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'z'));
        match u64::from_str_radix(text, 36) {
            Ok(number) if digits && number <= MAX => Ok(Self(number)),
            _ => Err(InvalidEntryId),
        }
    }
}

/// The text is not the id of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an entry id: expected one to eight digits or lower-case letters")]
pub struct InvalidEntryId;

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Creates the id of a session. It is random from its first digit, unlike a UUID made from the time, so that a few
/// digits identify it; the file name has the time.
pub(crate) fn new_session_id() -> String {
    Uuid::new_v4().to_string()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns the id of the entry with this number.
    pub(crate) fn name(number: usize) -> String {
        EntryId(number as u64).to_string()
    }
}

/// The parts of a run's id, `SESSION.CONFIG.NUMBER`. A session's id has no dot; the name of a configuration may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunName<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The configuration of the model, `PROVIDER.MODEL` unless the application named it.
    pub config: &'a str,
    /// The number of the run among the runs with this configuration in the session, from 1.
    pub number: u64,
}

impl<'a> RunName<'a> {
    /// Splits a run's id; `None` when it has another form.
    pub fn parse(run_id: &'a str) -> Option<Self> {
        let (session, rest) = run_id.split_once('.')?;
        let (config, number) = rest.rsplit_once('.')?;
        if session.is_empty() || config.is_empty() {
            return None;
        }
        Some(Self { session, config, number: number.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_id_round_trips_in_base_36() {
        for (number, text) in [(0, "0"), (1, "1"), (35, "z"), (36, "10"), (MAX, "zzzzzzzz")] {
            assert_eq!(EntryId(number).to_string(), text);
            assert_eq!(text.parse(), Ok(EntryId(number)));
        }
    }

    #[test]
    fn malformed_entry_ids_are_refused() {
        for text in ["", "A", "+1", "-1", " 1", "ä", "100000000"] {
            assert_eq!(text.parse::<EntryId>(), Err(InvalidEntryId), "{text:?}");
        }
    }

    #[test]
    fn counting_ends_before_it_overflows() {
        assert_eq!(EntryId(35).next(), Some(EntryId(36)));
        assert_eq!(EntryId(MAX).next(), None);
    }

    #[test]
    fn run_id_splits_into_session_config_and_number() {
        let name = RunName::parse("0d2f-1.anthropic.claude-4.5.12").unwrap();
        assert_eq!(name, RunName { session: "0d2f-1", config: "anthropic.claude-4.5", number: 12 });
        for wrong in ["", "a", "a.b", "a.1", ".b.1", "a..1", "a.b.", "a.b.-1", "a.b.x"] {
            assert_eq!(RunName::parse(wrong), None, "{wrong:?}");
        }
    }
}
