//! The runs of a session, from its records: their links, their ends and their usage.

use crate::error::SessionError;
use crate::format::{Entry, Kind, Payload};
use crate::id::EntryId;
use crate::index::Node;
use crate::loop_name::LoopName;
use crate::record::{GroupEnd, GroupStart, LoopEnd, LoopStart, Record, RecordKind, Spawned};
use crate::transcript::{EntryError, Transcript};
use jiff::Timestamp;
use pinion_protocol::{RunNumbers, Usage};
use std::collections::BTreeMap;

/// The runs of a session, in the order of their first record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loops {
    loops: Vec<LoopRecord>,
    by_id: BTreeMap<String, usize>,
}

/// The records of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopRecord {
    /// The id of the run.
    pub loop_id: String,
    /// Its start; none when only its group names it, a hook denied it, or the record is lost.
    pub start: Option<RunStart>,
    /// Its end; none while it runs, or when it was killed.
    pub end: Option<(Timestamp, LoopEnd)>,
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
    pub start: LoopStart,
}

/// The membership of a run in a parallel group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMembership {
    /// The id of the group.
    pub group_id: String,
    /// True if the run was chosen; none while the group has no result.
    pub is_chosen: Option<bool>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopStatus {
    /// Announced by its group, but not started.
    Pending,
    /// Started and, as far as the session knows, not ended: it runs, or was killed.
    Running,
    /// Ended.
    Ended,
}

impl LoopRecord {
    /// Returns the state of the run.
    pub fn status(&self) -> LoopStatus {
        match (&self.start, &self.end) {
            (_, Some(_)) => LoopStatus::Ended,
            (Some(_), None) => LoopStatus::Running,
            (None, None) => LoopStatus::Pending,
        }
    }

    fn parent(&self) -> Option<&str> {
        self.start.as_ref()?.start.parent_loop_id.as_deref()
    }
}

impl Transcript {
    /// Reads the numbers of the runs that started or ended, on all branches, for the ids of further runs. A run that a hook
    /// denied has only an end, a run of a group that was killed may have only its name in the group's record, and a judge's
    /// run has only its number in the end of its group. Skips records that cannot be read.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn run_numbers(&mut self) -> Result<RunNumbers, SessionError> {
        let kinds = [RecordKind::LoopStart, RecordKind::LoopEnd, RecordKind::GroupStart, RecordKind::GroupEnd];
        let kinds = kinds.map(Kind::Record);
        let nodes = self.index().nodes.iter().filter(|node: &&Node| kinds.contains(&node.kind)).copied().collect();
        let mut numbers = RunNumbers::default();
        for entry in self.entries(nodes) {
            let loop_ids = match entry {
                Ok(Entry { payload: Payload::Record(record), .. }) => match record {
                    Record::LoopStart(start) => vec![start.loop_id],
                    Record::LoopEnd(end) => vec![end.loop_id],
                    Record::GroupStart(start) => start.loop_ids,
                    Record::GroupEnd(end) => {
                        numbers.extend(end.loops);
                        continue;
                    }
                    _ => continue,
                },
                Ok(_) | Err(EntryError::Broken(_)) => continue,
                Err(EntryError::Session(error)) => return Err(error),
            };
            let number = |name: LoopName<'_>| (name.config.to_owned(), u32::try_from(name.number).unwrap_or(u32::MAX));
            numbers.extend(loop_ids.iter().filter_map(|loop_id| LoopName::parse(loop_id)).map(number));
        }
        Ok(numbers)
    }

    /// Reads the runs of the session, on all its branches. Skips records that cannot be read. Reads no messages.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn loops(&mut self) -> Result<Loops, SessionError> {
        let nodes = self.index().nodes.iter().filter(|node| node.kind.is_record()).copied().collect();
        let mut loops = Loops::default();
        for entry in self.entries(nodes) {
            match entry {
                Ok(Entry { id, time, payload: Payload::Record(record), .. }) => loops.apply(id, time, record),
                Ok(_) | Err(EntryError::Broken(_)) => {}
                Err(EntryError::Session(error)) => return Err(error),
            }
        }
        Ok(loops)
    }
}

impl Loops {
    /// Returns all runs.
    pub fn iter(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter()
    }

    /// Returns the run with this id.
    pub fn get(&self, loop_id: &str) -> Option<&LoopRecord> {
        self.loops.get(*self.by_id.get(loop_id)?)
    }

    /// Returns the runs that continue no run of this session.
    pub fn roots(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(|found| found.parent().is_none_or(|parent| !self.by_id.contains_key(parent)))
    }

    /// Returns the runs that continue this one.
    pub fn children_of(&self, loop_id: &str) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(move |found| found.parent() == Some(loop_id))
    }

    /// Returns the other runs of its group.
    pub fn siblings_of(&self, loop_id: &str) -> impl Iterator<Item = &LoopRecord> {
        let group = self.get(loop_id).and_then(|found| found.group.as_ref()).map(|group| &group.group_id);
        let is_sibling = move |found: &&LoopRecord| {
            group.is_some() && found.group.as_ref().map(|g| &g.group_id) == group && found.loop_id != loop_id
        };
        self.loops.iter().filter(is_sibling)
    }

    /// Adds up the tokens of the runs that ended.
    pub fn usage(&self) -> Usage {
        let ends = self.loops.iter().filter_map(|found| found.end.as_ref());
        ends.fold(Usage::default(), |sum, (_, end)| sum.combine(&end.usage))
    }

    fn apply(&mut self, entry: EntryId, time: Timestamp, record: Record) {
        match record {
            Record::LoopStart(start) => {
                let id = start.loop_id.clone();
                self.named(&id).start = Some(RunStart { entry, time, start });
            }
            Record::LoopEnd(end) => {
                let id = end.loop_id.clone();
                self.named(&id).end = Some((time, end));
            }
            Record::Retry(retry) => {
                let found = self.named(&retry.loop_id);
                found.retries = found.retries.saturating_add(1);
            }
            Record::Spawned(spawned) => self.named(&spawned.loop_id.clone()).spawned.push(spawned),
            Record::GroupStart(start) => self.begin_group(start),
            Record::GroupEnd(end) => self.end_group(&end),
            _ => {}
        }
    }

    fn begin_group(&mut self, start: GroupStart) {
        for loop_id in &start.loop_ids {
            self.named(loop_id).group = Some(GroupMembership { group_id: start.group_id.clone(), is_chosen: None });
        }
    }

    fn end_group(&mut self, end: &GroupEnd) {
        for found in &mut self.loops {
            let is_chosen = end.chosen.as_ref() == Some(&found.loop_id);
            if let Some(group) = found.group.as_mut().filter(|group| group.group_id == end.group_id) {
                group.is_chosen = Some(is_chosen);
            }
        }
    }

    fn named(&mut self, loop_id: &str) -> &mut LoopRecord {
        let at = *self.by_id.entry(loop_id.to_owned()).or_insert(self.loops.len());
        if at == self.loops.len() {
            let (loop_id, spawned) = (loop_id.to_owned(), Vec::new());
            self.loops.push(LoopRecord { loop_id, start: None, end: None, spawned, group: None, retries: 0 });
        }
        &mut self.loops[at]
    }
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;
