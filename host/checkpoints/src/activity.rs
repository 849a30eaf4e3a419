//! Work of several processes in one directory at the same time.
//!
//! A change made while two of them work may come from either. So each one notes when its work begins and ends, with the
//! snapshots that it takes then, and learns at its end when others worked, too. Nothing is noted while no process
//! works. A process that was killed no longer locks its file, and its work ends with the next snapshot of another.

use crate::error::Error;
use crate::path::RelPath;
use crate::sealed;
use crate::store::{CheckpointStore, Lock, TreeSnapshot};
use crate::tree::Digest;
use pinion_files::open::{create_directory, open_regular};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::sync::PoisonError;

/// Maximum number of notes. Beyond it, pauses of a worker are forgotten, so that it seems to work in them.
const MAX_NOTES: usize = 1_000;

/// A time when others worked as well: the snapshots at its begin and at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The state of the directory before it.
    pub from: Digest,
    /// The state after it.
    pub to: Digest,
}

/// The begin or the end of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ActivityNote {
    worker: Digest,
    is_begin: bool,
    tree: Digest,
}

/// The notes about work since a worker last worked alone.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ActivityLog {
    notes: Vec<ActivityNote>,
}

impl CheckpointStore {
    /// Takes a snapshot before work of `worker`, a unique name, as [`CheckpointStore::snapshot_covering`] does.
    ///
    /// # Errors
    /// As [`CheckpointStore::snapshot`].
    pub fn begin_work(&self, worker: &str, paths: &BTreeSet<RelPath>) -> Result<TreeSnapshot, Error> {
        let (lock, worker) = (self.lock_to_change()?, Digest::from_bytes(worker.as_bytes()));
        let snapshot = self.take_snapshot(&lock, paths)?;
        self.release(worker);
        let mut activity = self.activity(&lock);
        activity.end(worker, snapshot.id);
        activity.end_dead(snapshot.id, |other| self.is_working(other));
        if activity.open().is_empty() {
            activity.notes.clear();
        }
        self.hold(worker)?;
        activity.add(ActivityNote { worker, is_begin: true, tree: snapshot.id });
        self.write_activity(&activity)?;
        Ok(snapshot)
    }

    /// Takes the snapshot after work of `worker`. Returns the times since its begin when others worked.
    ///
    /// # Errors
    /// As [`CheckpointStore::snapshot`]. The work then lasts until the next one begins.
    pub fn end_work(&self, worker: &str) -> Result<(TreeSnapshot, Vec<Overlap>), Error> {
        let (lock, worker) = (self.lock_to_change()?, Digest::from_bytes(worker.as_bytes()));
        let snapshot = self.take_snapshot(&lock, &BTreeSet::new())?;
        let mut activity = self.activity(&lock);
        activity.end_dead(snapshot.id, |other| other == worker || self.is_working(other));
        let overlaps = activity.overlaps(worker, snapshot.id);
        activity.end(worker, snapshot.id);
        if activity.open().is_empty() {
            activity.notes.clear();
        }
        self.write_activity(&activity)?;
        self.release(worker);
        Ok((snapshot, overlaps))
    }

    fn activity_file(&self) -> PathBuf {
        self.directory.join("activity")
    }

    fn working_file(&self, worker: Digest) -> PathBuf {
        self.directory.join("working").join(worker.to_string())
    }

    /// Reads the notes. Damaged notes count as empty.
    fn activity(&self, _: &Lock) -> ActivityLog {
        sealed::read(&self.activity_file()).ok().flatten().unwrap_or_default()
    }

    fn write_activity(&self, activity: &ActivityLog) -> Result<(), Error> {
        let path = self.activity_file();
        if activity.notes.is_empty() {
            // Most often it does not exist.
            let _ = fs::remove_file(&path);
            return Ok(());
        }
        sealed::write(&path, &self.temporary(), activity, false).map_err(Error::io("write", &path))
    }

    /// Locks the file of a worker until its work ends or this process does.
    fn hold(&self, worker: Digest) -> Result<(), Error> {
        let path = self.working_file(worker);
        let directory = self.directory.join("working");
        let create = || {
            create_directory(&directory)?;
            let file = open_regular(&path, OpenOptions::new().write(true).create(true).truncate(false))?;
            file.lock_shared()?;
            Ok(file)
        };
        let file: File = create().map_err(Error::io("lock", &path))?;
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(worker, file);
        Ok(())
    }

    fn release(&self, worker: Digest) {
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker).is_some() {
            let _ = fs::remove_file(self.working_file(worker));
        }
    }

    /// Returns whether a process locks the file of a worker.
    fn is_working(&self, worker: Digest) -> bool {
        let path = self.working_file(worker);
        let Ok(file) = open_regular(&path, OpenOptions::new().write(true)) else { return false };
        let is_working = file.try_lock().is_err();
        if !is_working {
            let _ = fs::remove_file(&path);
        }
        is_working
    }
}

impl ActivityLog {
    fn add(&mut self, note: ActivityNote) {
        self.notes.push(note);
        while self.notes.len() > MAX_NOTES && self.forget_pause() {}
    }

    /// Forgets the first pause of a worker.
    fn forget_pause(&mut self) -> bool {
        let pause = self.notes.iter().enumerate().find_map(|(at, note)| {
            let is_same = |(_, next): &(usize, &ActivityNote)| next.worker == note.worker;
            let (next, _) = self.notes.iter().enumerate().skip(at + 1).find(is_same).filter(|_| !note.is_begin)?;
            Some((at, next))
        });
        let Some((end, begin)) = pause else { return false };
        self.notes.remove(begin);
        self.notes.remove(end);
        true
    }

    /// Returns who works.
    fn open(&self) -> BTreeSet<Digest> {
        Self::open_in(&self.notes)
    }

    fn open_in(notes: &[ActivityNote]) -> BTreeSet<Digest> {
        let mut open = BTreeSet::new();
        for note in notes {
            match note.is_begin {
                true => open.insert(note.worker),
                false => open.remove(&note.worker),
            };
        }
        open
    }

    /// Notes the end of work, if it has one.
    fn end(&mut self, worker: Digest, tree: Digest) {
        if self.open().contains(&worker) {
            self.add(ActivityNote { worker, is_begin: false, tree });
        }
    }

    /// Notes the end of those who no longer work.
    fn end_dead(&mut self, tree: Digest, is_working: impl Fn(Digest) -> bool) {
        for worker in self.open().into_iter().filter(|worker| !is_working(*worker)) {
            self.end(worker, tree);
        }
    }

    /// Returns the times since the begin of a worker when others worked. `now` is the snapshot at its end.
    fn overlaps(&self, worker: Digest, now: Digest) -> Vec<Overlap> {
        let is_begin = |note: &ActivityNote| note.worker == worker && note.is_begin;
        let Some(begin) = self.notes.iter().rposition(is_begin) else { return Vec::new() };
        let mut others = Self::open_in(&self.notes[..begin]);
        others.remove(&worker);
        let mut from = (!others.is_empty()).then_some(self.notes[begin].tree);
        let mut overlaps = Vec::new();
        for note in self.notes[begin..].iter().filter(|note| note.worker != worker) {
            match note.is_begin {
                true => others.insert(note.worker),
                false => others.remove(&note.worker),
            };
            match others.is_empty() {
                true => overlaps.extend(from.take().map(|from| Overlap { from, to: note.tree })),
                false => {
                    from.get_or_insert(note.tree);
                }
            }
        }
        overlaps.extend(from.map(|from| Overlap { from, to: now }));
        // A time without changes needs no mention.
        overlaps.retain(|overlap| overlap.from != overlap.to);
        overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest::from_bytes(&[number])
    }

    /// Reads notes: `a1` is the begin of the worker `a` with the tree 1, `A2` its end with the tree 2.
    fn activity(text: &str) -> ActivityLog {
        let mut activity = ActivityLog::default();
        for word in text.split(' ') {
            let (name, tree) = (word.as_bytes()[0], word[1..].parse().unwrap());
            let worker = digest(name.to_ascii_lowercase());
            activity.add(ActivityNote { worker, is_begin: name.is_ascii_lowercase(), tree: digest(tree) });
        }
        activity
    }

    fn overlaps(text: &str, now: u8) -> Vec<(Digest, Digest)> {
        let found = activity(text).overlaps(digest(b'a'), digest(now));
        found.into_iter().map(|overlap| (overlap.from, overlap.to)).collect()
    }

    #[test]
    fn times_in_which_others_work_are_found() {
        let pair = |from, to| (digest(from), digest(to));
        assert_eq!(overlaps("a1", 2), []);
        assert_eq!(overlaps("b1 B2 a3", 4), []);
        assert_eq!(overlaps("a1 b2 B3", 4), [pair(2, 3)]);
        assert_eq!(overlaps("a1 b2 B3 b4 B5", 6), [pair(2, 3), pair(4, 5)]);
        assert_eq!(overlaps("b1 a2 B3", 4), [pair(2, 3)]);
        assert_eq!(overlaps("b1 a2", 4), [pair(2, 4)]);
        assert_eq!(overlaps("a1 b2 c3 B4 C5", 6), [pair(2, 5)]);
        assert_eq!(overlaps("a1 b2 B2", 3), [], "nothing changed meanwhile");
        assert_eq!(overlaps("b1 a2 A3 a4 B5", 6), [pair(4, 5)], "since the last begin");
    }

    #[test]
    fn notes_are_bounded_and_forgotten_pauses_count_as_work() {
        let mut text = "a0".to_owned();
        (0..2_000).for_each(|number: u32| text += &format!(" b{} B{}", number % 100 + 1, number % 100 + 2));
        let activity = activity(&text);
        assert!(activity.notes.len() <= MAX_NOTES);
        let overlaps = activity.overlaps(digest(b'a'), digest(200));
        assert_eq!(overlaps[0].from, digest(1));
        assert_eq!(overlaps.last().unwrap().to, digest(101));
    }

    #[test]
    fn work_of_the_dead_ends_with_the_next_snapshot() {
        let mut activity = activity("a1 b2 c3");
        activity.end_dead(digest(4), |worker| worker != digest(b'b'));
        assert_eq!(activity.open(), BTreeSet::from([digest(b'a'), digest(b'c')]));
        assert_eq!(activity.notes.last().unwrap().tree, digest(4));
    }
}
