//! Sessions whose tree grows at random and whose writer is killed at any byte, compared with a plain reader of the
//! format.

use crate::record::{Record, RunStarted};
use crate::recovery::open_to_continue;
use crate::session::Session;
use crate::testing::{user, workspace};
use crate::transcript::Transcript;
use pinion_protocol::{ChoiceAccount, Message, SessionStore as _};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Debug, Clone)]
enum Step {
    Say,
    Record,
    GoBack(usize),
    StartOver,
    /// The messages of two runs, and the chosen one.
    Group(Vec<bool>, Option<bool>),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Say),
        2 => Just(Step::Record),
        3 => any::<usize>().prop_map(Step::GoBack),
        1 => Just(Step::StartOver),
        2 => (prop::collection::vec(any::<bool>(), 0..5), any::<Option<bool>>())
            .prop_map(|(turns, chosen)| Step::Group(turns, chosen)),
    ]
}

/// The writer of a session, with the conversation that it expects.
struct Writer {
    session: Arc<Session>,
    /// The conversation at each entry that was ever the last one.
    at: BTreeMap<String, Vec<String>>,
    now: Vec<String>,
    said: usize,
}

impl Writer {
    fn begin(path: &Path) -> Self {
        let session = Arc::new(Session::begin(path, workspace()));
        let mut writer = Self { session, at: BTreeMap::new(), now: Vec::new(), said: 0 };
        writer.apply_step(&Step::Say);
        writer
    }

    fn text(&mut self) -> String {
        self.said += 1;
        format!("said {}", self.said)
    }

    fn apply_step(&mut self, step: &Step) {
        match step {
            Step::Say => {
                let text = self.text();
                self.session.append(&user(&text)).unwrap();
                self.now.push(text);
            }
            Step::Record => {
                self.session.record(&Record::RunStarted(RunStarted::default())).unwrap();
            }
            Step::GoBack(to) => {
                let (entry, said) =
                    self.at.iter().nth(to % self.at.len()).map(|(e, s)| (e.clone(), s.clone())).unwrap();
                let messages = self.session.go_back(Some(entry.parse().unwrap())).unwrap();
                assert_eq!(texts(&messages), said);
                self.now = said;
            }
            Step::StartOver => {
                assert!(self.session.go_back(None).unwrap().is_empty());
                self.now.clear();
            }
            Step::Group(turns, chosen) => self.group(turns, *chosen),
        }
        if let Some(entry) = self.session.position() {
            self.at.insert(entry.to_string(), self.now.clone());
        }
    }

    fn group(&mut self, turns: &[bool], chosen: Option<bool>) {
        let names = [format!("s.a.{}", self.said), format!("s.b.{}", self.said)];
        let group = self.session.clone().begin_group("g", &names).unwrap().unwrap();
        let mut said = [self.now.clone(), self.now.clone()];
        for side in turns.iter().map(|second| usize::from(*second)) {
            let text = self.text();
            group.branch(side).append(&user(&text)).unwrap();
            said[side].push(text);
        }
        let chosen = chosen.map(usize::from);
        group.end(chosen, ChoiceAccount::default()).unwrap();
        if let Some(side) = chosen {
            self.now = said[side].clone();
        }
    }
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    let text = |message: &Arc<Message>| match &**message {
        Message::User(message) => message.content[0].as_text().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    messages.iter().map(text).collect()
}

/// Reads the conversation from the complete lines of a file.
fn read_plainly(bytes: &[u8]) -> Vec<String> {
    let mut parents: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
    let mut position = None;
    let lines = bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    for line in lines.skip(1) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (id, parent) = (text(&line["id"]).unwrap(), text(&line["parent"]));
        if line.get("side").is_none() {
            position = if line["type"] == "position" { parent.clone() } else { Some(id.clone()) };
        }
        parents.insert(id, (parent, text(&line["data"]["content"][0]["text"])));
    }
    let mut said = Vec::new();
    while let Some(id) = position {
        let (parent, text) = parents[&id].clone();
        said.extend(text);
        position = parent;
    }
    said.reverse();
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_tree_survives_a_kill_at_any_byte(
        steps in prop::collection::vec(any_step(), 0..16),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 6),
    ) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("whole.jsonl");
        let mut writer = Writer::begin(&path);
        steps.iter().for_each(|step| writer.apply_step(step));
        let bytes = std::fs::read(&path).unwrap();
        prop_assert_eq!(read_plainly(&bytes), writer.now.clone());

        for (number, cut) in cuts.iter().map(|cut| cut.index(bytes.len() + 1)).enumerate() {
            let path = directory.path().join(format!("cut-{number}.jsonl"));
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let whole = read_plainly(&bytes[..cut]);
            let opened = open_to_continue(&path, workspace()).unwrap();
            prop_assert_eq!(texts(&opened.messages), whole.clone());
            prop_assert_eq!(opened.recovery.bad_lines.count(), 0);
            opened.session.append(&user("and on")).unwrap();
            drop(opened);
            let again = open_to_continue(&path, workspace()).unwrap();
            prop_assert_eq!(texts(&again.messages), [whole, vec!["and on".to_owned()]].concat());
            prop_assert!(again.recovery == crate::Recovery::default());
            // The complete lines are still there, byte for byte, on all branches.
            let kept = bytes[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            prop_assert_eq!(&std::fs::read(&path).unwrap()[..kept], &bytes[..kept]);
        }
    }

    #[test]
    fn every_branch_of_a_random_tree_can_be_revisited_and_forked(
        steps in prop::collection::vec(any_step(), 1..12),
    ) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("whole.jsonl");
        let mut writer = Writer::begin(&path);
        steps.iter().for_each(|step| writer.apply_step(step));
        let sessions = crate::SessionDirectory::new(directory.path().join("sessions"));
        for (entry, said) in writer.at.clone() {
            let entry = entry.parse().unwrap();
            let forked = sessions.fork(&path, Some(entry), workspace()).unwrap();
            prop_assert_eq!(texts(&open_to_continue(&forked, workspace()).unwrap().messages), said.clone());
            let branch = Transcript::open(&path).unwrap().branch_to(entry).map(crate::testing::prompts_of);
            prop_assert_eq!(branch.unwrap(), said);
        }
    }
}
