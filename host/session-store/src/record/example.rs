//! A record type as the head of `mod.rs` describes: this file, and a row of the list there.

use super::{RecordType, cut};
use pinion_protocol::EventKind;
use serde::{Deserialize, Serialize};

/// A running call reported its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// The run that made the call.
    pub run_id: String,
    /// The line that it reported.
    pub text: String,
}

impl RecordType for Example {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Progress { text, .. } = event else { return None };
        Some(Self { run_id: run_id.to_owned(), text: cut(text) })
    }

    fn describe(&self) -> String {
        format!("Progress: {}", self.text)
    }
}

mod tests {
    use super::*;
    use crate::record::Record;
    use crate::session::Session;
    use crate::testing::{user, workspace};
    use crate::transcript::Transcript;
    use crate::{ExportFormat, Payload, export};
    use pinion_protocol::SessionStore as _;
    use tempfile::TempDir;

    #[test]
    fn new_record_type_is_recorded_written_read_and_exported() {
        let root = TempDir::new().unwrap();
        let session = Session::begin(&root.path().join("a.jsonl"), workspace());
        session.append(&user("go")).unwrap();
        let progress = EventKind::Progress { call_id: "c1".into(), text: "halfway".into() };
        session.observe(&"s.c.1".into(), &progress);

        let line = std::fs::read_to_string(session.path()).unwrap().lines().last().unwrap().to_owned();
        assert!(line.ends_with(r#""type":"example","data":{"run_id":"s.c.1","text":"halfway"}}"#), "{line}");
        let mut transcript = Transcript::open(session.path()).unwrap();
        let last = transcript.branch().last().unwrap().unwrap();
        let expected = Example { run_id: "s.c.1".into(), text: "halfway".into() };
        assert_eq!(last.payload, Payload::Record(Record::Example(expected)));
        let mut page = Vec::new();
        export(&mut transcript, ExportFormat::Html, &mut page).unwrap();
        assert!(String::from_utf8(page).unwrap().contains("Progress: halfway"));
    }
}
