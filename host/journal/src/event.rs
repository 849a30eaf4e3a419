//! The entries of a journal.

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// The most elements of a list in an entry. Imports with 256 bytes each fill the memory of a recorded call with fewer, and
/// a damaged entry, whose elements are a few bytes each, cannot grow to a multiple of its size.
const MAX_LIST: usize = 1 << 18;

/// An entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalEvent {
    /// An instance of a component begins.
    Instance(InstanceStart),
    /// A call of an export ended. The calls of one instance are in order.
    Call(CallRecord),
    /// The journal reached its limit; later calls are missing.
    Full,
}

/// The beginning of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStart {
    /// The number of the instance, unique in its process.
    pub instance: u64,
    /// The name of the plugin.
    pub plugin: String,
    /// The BLAKE3 hash of the component, in hexadecimal.
    pub component: String,
    /// The generation of the plugin.
    pub generation: u32,
    /// The settings of the plugin, as JSON.
    pub settings: String,
    /// The limit on the memory of the instance in bytes.
    pub memory_limit: u64,
}

/// A call of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The number of the instance.
    pub instance: u64,
    /// The id of the session that made the call; empty for calls of the host itself.
    pub session: String,
    /// The interface and the function, such as `pinion:plugin/tools#call-tool`, or [`INSTANTIATION`].
    pub export: String,
    /// The authority of the call, in words.
    #[serde(deserialize_with = "bounded_list")]
    pub grants: Vec<String>,
    /// The arguments.
    pub arguments: JournalValue,
    /// The imports that the component called, in order.
    #[serde(deserialize_with = "bounded_list")]
    pub imports: Vec<ImportRecord>,
    /// The end of the call.
    pub outcome: CallOutcome,
    /// The fuel that the call could use.
    pub fuel_limit: u64,
    /// The fuel that the call used.
    pub fuel: u64,
    /// An interface that the component used and that the journal does not record; such a call cannot be repeated.
    pub unrecorded: Option<String>,
}

/// The export of a [`CallRecord`] that stands for the creation of its instance.
pub const INSTANTIATION: &str = "(instantiation)";

/// A call of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// The interface without its version and the function, such as `pinion:plugin/storage#get`.
    pub name: String,
    /// The arguments.
    pub arguments: JournalValue,
    /// The value that the import returned.
    pub outcome: CallOutcome,
}

/// The end of a call of an export or an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It returned a value.
    Returned(JournalValue),
    /// It trapped, with this message.
    Trapped(String),
    /// The host ended it: a limit, the deadline or a cancellation.
    Stopped,
}

/// Reads a list of at most [`MAX_LIST`] elements.
fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct BoundedList<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_LIST} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = elements.next_element()? {
                if list.len() == MAX_LIST {
                    return Err(A::Error::custom("the list is too long"));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(BoundedList(PhantomData))
}

/// Encoded arguments or results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalValue {
    /// The bytes.
    Bytes(Vec<u8>),
    /// The digest and the number of bytes that the journal does not contain.
    Digest([u8; 32], u64),
    /// The digest of bytes that an earlier entry of the file contains, and that [`crate::reader`] puts in.
    Repeated([u8; 32]),
    /// Bytes that the session's file has in part, and that [`crate::reader`] puts in.
    Referring {
        /// The beginning of the digest of the bytes.
        check: [u8; CHECK_BYTES],
        /// The other bytes, and the places of those in the file.
        tokens: Vec<u8>,
    },
    /// The beginning of the digest of bytes that the session's file had and does not have any more.
    Lost([u8; CHECK_BYTES]),
}

/// Bytes of the beginning of a digest. It detects damage; a session's file is not made by an attacker of its journal.
pub const CHECK_BYTES: usize = 8;

impl JournalValue {
    /// Returns the bytes, where the journal has them.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the value is `bytes`, also where only its digest was kept.
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes(own) => own == bytes,
            Self::Digest(digest, _) | Self::Repeated(digest) => digest == blake3::hash(bytes).as_bytes(),
            Self::Referring { check, .. } | Self::Lost(check) => *check == check_of(blake3::hash(bytes).as_bytes()),
        }
    }
}

/// Returns the beginning of a digest.
pub(crate) fn check_of(digest: &[u8; 32]) -> [u8; CHECK_BYTES] {
    std::array::from_fn(|at| digest[at])
}

impl JournalEvent {
    /// Visits all values.
    pub(crate) fn for_each_value(&mut self, mut visit: impl FnMut(&mut JournalValue)) {
        let Self::Call(call) = self else { return };
        visit(&mut call.arguments);
        for import in &mut call.imports {
            visit(&mut import.arguments);
            if let CallOutcome::Returned(value) = &mut import.outcome {
                visit(value);
            }
        }
        if let CallOutcome::Returned(value) = &mut call.outcome {
            visit(value);
        }
    }

    /// Visits all texts that plugins or the user chose.
    pub(crate) fn for_each_text(&mut self, mut visit: impl FnMut(&mut String)) {
        match self {
            Self::Instance(start) => visit(&mut start.settings),
            Self::Call(call) => {
                let outcomes = call.imports.iter_mut().map(|import| &mut import.outcome);
                for outcome in outcomes.chain([&mut call.outcome]) {
                    if let CallOutcome::Trapped(message) = outcome {
                        visit(message);
                    }
                }
            }
            Self::Full => {}
        }
    }
}
