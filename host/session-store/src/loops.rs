//! The loops that worked on a session, as its records tell: which came of which, how each ended, what all used.

use crate::error::SessionError;
use crate::format::{Entry, Payload};
use crate::id::EntryId;
use crate::record::{GroupEnd, GroupStart, LoopEnd, LoopStart, Record, Spawned};
use crate::transcript::{EntryError, Transcript};
use jiff::Timestamp;
use pinion_protocol::Usage;
use std::collections::BTreeMap;

/// The loops of a session, in the order in which they were heard of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loops {
    loops: Vec<LoopRecord>,
    by_id: BTreeMap<String, usize>,
}

/// What a session knows of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopRecord {
    /// Its id.
    pub loop_id: String,
    /// How it began; none when it is only announced, by its group, or the record of it is lost.
    pub start: Option<Began>,
    /// How it ended; none when it runs, or was killed.
    pub end: Option<(Timestamp, LoopEnd)>,
    /// The sub-agents that worked for it.
    pub spawned: Vec<Spawned>,
    /// The group to which it belongs.
    pub group: Option<GroupPlace>,
    /// Requests that were made again.
    pub retries: u32,
}

/// How a loop began.
#[derive(Debug, Clone, PartialEq)]
pub struct Began {
    /// The entry that says so.
    pub entry: EntryId,
    /// When.
    pub time: Timestamp,
    /// As what.
    pub start: LoopStart,
}

/// A loop's place in a parallel group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlace {
    /// The group.
    pub group_id: String,
    /// Whether it was chosen; none while none was.
    pub is_chosen: Option<bool>,
}

/// Where a loop is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopStatus {
    /// Announced, and not begun.
    Pending,
    /// Begun, and not ended as far as the session knows: it runs, or was killed.
    Running,
    /// Ended.
    Ended,
}

impl LoopRecord {
    /// Where it is in its life.
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
    /// The loops that worked on the session, on all its branches. Records that cannot be read are passed over. Reads only
    /// records, and no messages.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn loops(&mut self) -> Result<Loops, SessionError> {
        let nodes = self.index().nodes.iter().filter(|node| node.kind.is_record()).copied().collect();
        let mut loops = Loops::default();
        for entry in self.entries(nodes) {
            match entry {
                Ok(Entry { id, time, payload: Payload::Record(record), .. }) => loops.take(id, time, record),
                Ok(_) | Err(EntryError::Broken(_)) => {}
                Err(EntryError::Session(error)) => return Err(error),
            }
        }
        Ok(loops)
    }
}

impl Loops {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter()
    }

    /// The loop of this id.
    pub fn get(&self, loop_id: &str) -> Option<&LoopRecord> {
        self.loops.get(*self.by_id.get(loop_id)?)
    }

    /// Those that go on from no loop of this session.
    pub fn roots(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(|found| found.parent().is_none_or(|parent| !self.by_id.contains_key(parent)))
    }

    /// Those that go on from this loop.
    pub fn children_of(&self, loop_id: &str) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(move |found| found.parent() == Some(loop_id))
    }

    /// The other loops of its group.
    pub fn siblings_of(&self, loop_id: &str) -> impl Iterator<Item = &LoopRecord> {
        let group = self.get(loop_id).and_then(|found| found.group.as_ref()).map(|group| &group.group_id);
        let is_sibling = move |found: &&LoopRecord| {
            group.is_some() && found.group.as_ref().map(|g| &g.group_id) == group && found.loop_id != loop_id
        };
        self.loops.iter().filter(is_sibling)
    }

    /// Tokens of all that ended.
    pub fn usage(&self) -> Usage {
        let ends = self.loops.iter().filter_map(|found| found.end.as_ref());
        ends.fold(Usage::default(), |sum, (_, end)| sum.combine(&end.usage))
    }

    fn take(&mut self, entry: EntryId, time: Timestamp, record: Record) {
        match record {
            Record::LoopStart(start) => {
                let id = start.loop_id.clone();
                self.named(&id).start = Some(Began { entry, time, start });
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
            self.named(loop_id).group = Some(GroupPlace { group_id: start.group_id.clone(), is_chosen: None });
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
