//! Everything a session records besides messages: the runs that worked on it, and the events in them.
//!
//! No model ever sees a record. A record that is lost, or that an older program does not know, costs nothing but itself.
//!
//! Each type of record is a struct in this directory and a row in `records!`. To add one:
//! 1. Write `record/NAME.rs` with a struct that implements `RecordType`.
//! 2. Add the row `NAME { TYPE: STRUCT }` to the list below. `TYPE` is the type of its entries on disk.
//!
//! Types of one topic share a file and a row.
//!
//! Reading, writing, recording from events and exporting follow from these two steps. `example.rs` is such a record,
//! compiled for tests only, and its tests show each of the four.

use pinion_protocol::EventKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type of record. Its serialized form is the `data` of an entry, see `format.rs`.
pub(crate) trait RecordType: Serialize + DeserializeOwned {
    /// Returns the record of an event of the run `run_id`, or none for an event that this type does not record.
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let _ = (run_id, event);
        None
    }

    /// Returns the event, to show it again to watchers of the conversation; `None` for a record of another kind.
    fn into_event(self) -> Option<EventKind> {
        None
    }

    /// Describes the record for people, in one sentence without a final period. The caller escapes it.
    fn describe(&self) -> String;
}

macro_rules! records {
    ($($(#[$condition:meta])* $module:ident { $($(#[$attribute:meta])* $kind:ident: $name:ident),* })*) => {
        $($(#[$condition])* mod $module;)*
        $($($(#[$attribute])* pub use $module::$name;)*)*

        /// Something that happened in a session, other than a message. One entry each.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the type inside a variant has its documentation")]
        pub enum Record {
            $($($(#[$attribute])* $name($name),)*)*
        }

        /// The type of a record, known without reading its data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum RecordKind {
            $($($(#[$attribute])* $name,)*)*
        }

        impl RecordKind {
            /// Returns the kind whose entries have this type on disk; `None` for a type of a newer program.
            pub(crate) fn named(name: &str) -> Option<Self> {
                $($($(#[$attribute])* { if name == stringify!($kind) { return Some(Self::$name); } })*)*
                None
            }

            /// Reads the data of an entry of this kind.
            pub(crate) fn decode(self, data: &str) -> Result<Record, serde_json::Error> {
                match self {
                    $($($(#[$attribute])* Self::$name => serde_json::from_str(data).map(Record::$name),)*)*
                }
            }
        }

        impl Record {
            /// The type of the record's entry on disk.
            pub(crate) fn type_name(&self) -> &'static str {
                match self {
                    $($($(#[$attribute])* Self::$name(_) => stringify!($kind),)*)*
                }
            }

            /// Returns the record of an event of the run `run_id`; none for events that are not recorded.
            pub(crate) fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
                $($($(#[$attribute])* {
                    if let Some(record) = $name::from_event(run_id, event) {
                        return Some(Self::$name(record));
                    }
                })*)*
                None
            }

            /// Returns the recorded parts of the event; `None` for records of other origin.
            pub(crate) fn into_event(self) -> Option<EventKind> {
                match self {
                    $($($(#[$attribute])* Self::$name(record) => record.into_event(),)*)*
                }
            }

            /// Describes the record for people, in one sentence without a final period.
            pub(crate) fn describe(&self) -> String {
                match self {
                    $($($(#[$attribute])* Self::$name(record) => record.describe(),)*)*
                }
            }
        }
    };
}

records! {
    run { run_start: RunStarted, run_end: RunEnded, retry: Retry, rejected: Rejected }
    children { group_start: GroupStart, group_end: GroupEnd, spawned: Spawned, group_choice: GroupChoice }
    compacted { compacted: Compacted }
    plan { plan_made: PlanMade, plan_step: PlanStep }
    ledger { ledger: CallLedger }
    hook { hook: CalledHook }
    plugin_entry { plugin_entry: PluginEntry, titled: Titled }
    checkpoint { checkpoint: Checkpoint, call_snapshots: CallSnapshots, rewound: Rewound }
    agent_changes { agent_changes: AgentChanges }
    #[cfg(test)] example { #[cfg(test)] example: Example }
}

pub use checkpoint::Moment;

impl Record {
    /// The most that a record keeps of a text from outside, in bytes.
    pub const MAX_TEXT: usize = 2_000;
}

/// Cuts a text from outside to [`Record::MAX_TEXT`] bytes.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(Record::MAX_TEXT)].to_owned()
}
