//! The runs of a session, from its records: their links, their ends and their usage.

use crate::error::SessionError;
use crate::format::{EntryKind, Payload, SessionEntry};
use crate::id::EntryId;
use crate::id::RunName;
use crate::index::Node;
use crate::record::{GroupChoice, GroupEnd, GroupStart, Record, RecordKind, RunEnded, RunStarted, Spawned};
use crate::transcript::{EntryError, Transcript};
use jiff::Timestamp;
use pinion_protocol::{RunNumbers, Usage};
use std::collections::BTreeMap;

/// The runs of a session, in the order of their first record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    runs: Vec<RunRecord>,
    by_id: BTreeMap<String, usize>,
}

/// The records of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// The id of the run.
    pub run_id: String,
    /// Its start; `None` when only its group names it, a hook denied it, or the record is lost.
    pub start: Option<RunStart>,
    /// Its end; `None` while it runs, or when it was killed.
    pub end: Option<(Timestamp, RunEnded)>,
    /// The sub-agents that it started.
    pub spawned: Vec<Spawned>,
    /// The parallel group that it belongs to.
    pub group: Option<GroupMembership>,
    /// The number of requests that were sent again.
    pub retries: u32,
}

/// The start of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStart {
    /// The entry of the record.
    pub entry: EntryId,
    /// The time of the record.
    pub time: Timestamp,
    /// The record.
    pub start: RunStarted,
}

/// The membership of a run in a parallel group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMembership {
    /// The id of the group.
    pub group_id: String,
    /// True if the run was chosen; `None` while the group has no result.
    pub is_chosen: Option<bool>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// Announced by its group, but not started.
    Pending,
    /// Started and not ended according to the session: it runs, or was killed.
    Running,
    /// Ended.
    Ended,
}

impl RunRecord {
    /// Returns the state of the run.
    pub fn status(&self) -> RunStatus {
        match (&self.start, &self.end) {
            (_, Some(_)) => RunStatus::Ended,
            (Some(_), None) => RunStatus::Running,
            (None, None) => RunStatus::Pending,
        }
    }

    fn parent(&self) -> Option<&str> {
        self.start.as_ref()?.start.parent_run_id.as_deref()
    }
}

impl Transcript {
    /// Reads the numbers of the runs that started or ended, on all branches, for the ids of further runs. A run that a hook
    /// denied has only an end, a run of a group that was killed may have only its name in the group's record, and a judge's
    /// run has only its number, in the start of the choice and in the end of the group. Skips records that cannot be read.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn run_numbers(&mut self) -> Result<RunNumbers, SessionError> {
        let kinds = [
            RecordKind::RunStarted,
            RecordKind::RunEnded,
            RecordKind::GroupStart,
            RecordKind::GroupChoice,
            RecordKind::GroupEnd,
        ];
        let kinds = kinds.map(EntryKind::Record);
        let nodes = self.index().nodes.iter().filter(|node: &&Node| kinds.contains(&node.kind)).copied().collect();
        let mut numbers = RunNumbers::default();
        for entry in self.entries(nodes) {
            let run_ids = match entry {
                Ok(SessionEntry { payload: Payload::Record(record), .. }) => match record {
                    Record::RunStarted(start) => vec![start.run_id],
                    Record::RunEnded(end) => vec![end.run_id],
                    Record::GroupStart(start) => start.run_ids,
                    Record::GroupChoice(GroupChoice { runs, .. }) | Record::GroupEnd(GroupEnd { runs, .. }) => {
                        numbers.extend(runs);
                        continue;
                    }
                    _ => continue,
                },
                Ok(_) | Err(EntryError::Broken(_)) => continue,
                Err(EntryError::Session(error)) => return Err(error),
            };
            let number = |name: RunName<'_>| (name.config.to_owned(), u32::try_from(name.number).unwrap_or(u32::MAX));
            numbers.extend(run_ids.iter().filter_map(|run_id| RunName::parse(run_id)).map(number));
        }
        Ok(numbers)
    }

    /// Reads the runs of the session, on all its branches. Skips records that cannot be read. Reads no messages.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn runs(&mut self) -> Result<Runs, SessionError> {
        let nodes = self.index().nodes.iter().filter(|node| node.kind.is_record()).copied().collect();
        let mut runs = Runs::default();
        for entry in self.entries(nodes) {
            match entry {
                Ok(SessionEntry { id, time, payload: Payload::Record(record), .. }) => runs.apply(id, time, record),
                Ok(_) | Err(EntryError::Broken(_)) => {}
                Err(EntryError::Session(error)) => return Err(error),
            }
        }
        Ok(runs)
    }
}

impl Runs {
    /// Returns all runs.
    pub fn iter(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter()
    }

    /// Returns the run with this id.
    pub fn get(&self, run_id: &str) -> Option<&RunRecord> {
        self.runs.get(*self.by_id.get(run_id)?)
    }

    /// Returns the runs that continue no run of this session.
    pub fn roots(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(|found| found.parent().is_none_or(|parent| !self.by_id.contains_key(parent)))
    }

    /// Returns the runs that continue this one.
    pub fn children_of(&self, run_id: &str) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(move |found| found.parent() == Some(run_id))
    }

    /// Returns the other runs of its group.
    pub fn siblings_of(&self, run_id: &str) -> impl Iterator<Item = &RunRecord> {
        let group = self.get(run_id).and_then(|found| found.group.as_ref()).map(|group| &group.group_id);
        let is_sibling = move |found: &&RunRecord| {
            group.is_some() && found.group.as_ref().map(|g| &g.group_id) == group && found.run_id != run_id
        };
        self.runs.iter().filter(is_sibling)
    }

    /// Adds up the tokens of the runs that ended.
    pub fn usage(&self) -> Usage {
        let ends = self.runs.iter().filter_map(|found| found.end.as_ref());
        ends.fold(Usage::default(), |sum, (_, end)| sum.combine(&end.usage))
    }

    fn apply(&mut self, entry: EntryId, time: Timestamp, record: Record) {
        match record {
            Record::RunStarted(start) => {
                let id = start.run_id.clone();
                self.named(&id).start = Some(RunStart { entry, time, start });
            }
            Record::RunEnded(end) => {
                let id = end.run_id.clone();
                self.named(&id).end = Some((time, end));
            }
            Record::Retry(retry) => {
                let found = self.named(&retry.run_id);
                found.retries = found.retries.saturating_add(1);
            }
            Record::Spawned(spawned) => self.named(&spawned.run_id.clone()).spawned.push(spawned),
            Record::GroupStart(start) => self.begin_group(start),
            Record::GroupEnd(end) => self.end_group(&end),
            _ => {}
        }
    }

    fn begin_group(&mut self, start: GroupStart) {
        for run_id in &start.run_ids {
            self.named(run_id).group = Some(GroupMembership { group_id: start.group_id.clone(), is_chosen: None });
        }
    }

    fn end_group(&mut self, end: &GroupEnd) {
        for found in &mut self.runs {
            let is_chosen = end.chosen.as_ref() == Some(&found.run_id);
            if let Some(group) = found.group.as_mut().filter(|group| group.group_id == end.group_id) {
                group.is_chosen = Some(is_chosen);
            }
        }
    }

    fn named(&mut self, run_id: &str) -> &mut RunRecord {
        let at = *self.by_id.entry(run_id.to_owned()).or_insert(self.runs.len());
        if at == self.runs.len() {
            let (run_id, spawned) = (run_id.to_owned(), Vec::new());
            self.runs.push(RunRecord { run_id, start: None, end: None, spawned, group: None, retries: 0 });
        }
        &mut self.runs[at]
    }
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
