//! The protection around programs that run, and notes about it, so that files that a program creates at a protected
//! path are moved away even if this process is killed before the program has ended.
//!
//! A note is a file that its process holds locked, and touches from time to time. If the process is killed, its guard kills
//! the programs and takes care of the notes. If the guard is killed, too, the next start does this work, and skips
//! files that are later than the last touch.

use crate::approve::audit::Audit;
use crate::files::private::{create_directory, open_regular, read_settings, replace};
use crate::process::repositories::{Looks, Present};
use pinion_agent::serde_json;
use pinion_exclusions::Finder;
use pinion_files::AtomicWrite;
use pinion_sandbox::{Fate, Protected, Protection, Reverted};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Names of notes that are not complete, and of reports of a guard.
const NEW: &str = "new-";
const REPORT: &str = "report-";
/// Notes that a start looks at.
const MAX_NOTES: usize = 1000;
/// Bytes of a note.
const MAX_BYTES: u64 = 64 << 20;
/// Time between two touches of a note, and the longest time that a program may have outlived the last one.
const TOUCH: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(10);
/// Time that a killed host gets to give up its locks.
const UNLOCKING: Duration = Duration::from_secs(2);
/// Entries of a directory that the program of a killed host could write to.
const MAX_ENTRIES: usize = 2_000_000;

/// The protection around a program that runs.
pub struct RunningProgram {
    protection: Protection,
    note: Option<ProgramNote>,
    removed: PathBuf,
    /// None for programs that write in no workspace.
    looks: Option<Looks>,
    /// The program, for the log.
    by: String,
    audit: Arc<Audit>,
}

impl RunningProgram {
    /// Remembers the protected paths before a program starts. `removed` is the directory that their content is moved
    /// to, and `by` names the program in the log.
    pub fn begin(protected: &Protected, removed: &Path, looks: Option<Looks>, by: &str, audit: &Arc<Audit>) -> Self {
        let protection = Protection::before(protected);
        let note = ProgramNote::write(&protection, &notes(removed));
        if let Err(error) = &note {
            tracing::debug!(%error, "protected paths are not checked if this process is killed");
        }
        let (by, audit) = (by.to_owned(), audit.clone());
        Self { protection, note: note.ok(), removed: removed.to_owned(), looks, by, audit }
    }

    /// Moves away files that a program created, once it has ended. Returns a report.
    pub fn revert(self) -> Vec<String> {
        let roots = self.protection.roots();
        let present = match &self.looks {
            Some(looks) => looks.again(roots),
            None => Present::nearby(roots),
        };
        let reverted = self.protection.after(&present.directories, &present.settings, &self.removed, None);
        if let Some(note) = self.note {
            note.remove();
        }
        let problem =
            present.problem.map(|problem| format!("sandbox: new repositories were not looked for: {problem}"));
        let lines = reverted.iter().map(reported).chain(problem).collect();
        log(&lines, &self.by, &self.audit);
        lines
    }
}

fn log(lines: &Vec<String>, by: &str, audit: &Audit) {
    for line in lines {
        audit.protected(by, line.strip_prefix("sandbox: ").unwrap_or(line));
    }
}

/// Describes a protected path that was not in its required state.
fn reported(reverted: &Reverted) -> String {
    let path = reverted.path.display();
    match &reverted.fate {
        Fate::Moved(to) => {
            format!("sandbox: `{path}` is protected, and what the program created there is now `{}`", to.display())
        }
        Fate::Reduced(to) => format!(
            "sandbox: `{path}` is protected, and keeps only what runs no program; what the program wrote is now `{}`",
            to.display()
        ),
        Fate::Restored(Some(to)) => format!(
            "sandbox: `{path}` is protected, and is as it was before; what the program left there is now `{}`",
            to.display()
        ),
        Fate::Restored(None) => {
            format!("sandbox: `{path}` is protected, and is as it was before the program removed it")
        }
        Fate::Replaced => format!(
            "sandbox: `{path}` is protected, but was replaced while the program ran, so that the program may have changed it; \
             look at it before you use it"
        ),
        Fate::Stays(reason) => format!(
            "sandbox: `{path}` is protected, but what the program created there stays: {reason}; remove it before you work in \
             this directory"
        ),
    }
}

/// The file about a program that runs, and its lock.
struct ProgramNote {
    path: PathBuf,
    /// Ends the touches when it is dropped.
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ProgramNote {
    fn write(protection: &Protection, directory: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        create_directory(directory)?;
        let path = directory.join(name);
        let mut new = AtomicWrite::private().prefix(NEW).create_in(directory)?;
        // Before it gets the name that other processes look for.
        new.as_file().try_lock()?;
        new.write_all(&serde_json::to_vec(protection)?)?;
        let file = new.replace(&path)?;
        let (sender, ended) = channel();
        let touch = move || {
            while ended.recv_timeout(TOUCH) == Err(RecvTimeoutError::Timeout) {
                // A note that looks older than it is lets more stay.
                let _ = file.set_modified(SystemTime::now());
            }
        };
        let thread = std::thread::Builder::new().name("note".to_owned()).stack_size(64 * 1024).spawn(touch)?;
        Ok(Self { path, end: Some((sender, thread)) })
    }

    /// Removes the file.
    fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for ProgramNote {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.end.take() {
            drop(sender);
            // The lock ends with the thread.
            let _ = thread.join();
        }
    }
}

fn notes(removed: &Path) -> PathBuf {
    removed.join("running")
}

/// Moves away files of programs whose host was killed. Logs and returns a report, with the reports of guards.
pub fn revert_killed(removed: &Path, audit: &Audit) -> Vec<String> {
    let mut lines = reverted_killed(removed);
    for entry in fs::read_dir(notes(removed)).into_iter().flatten().flatten().take(MAX_NOTES) {
        if entry.file_name().as_encoded_bytes().starts_with(REPORT.as_bytes()) {
            lines.extend(read_settings(&entry.path()).ok().flatten().unwrap_or_default().lines().map(str::to_owned));
            let _ = fs::remove_file(entry.path());
        }
    }
    log(&lines, "a program whose host was killed", audit);
    lines
}

/// Performs the work of a guard whose programs are killed, and leaves a report for the next start. `host` is the process that
/// was killed.
pub fn revert_for_host(host: &str, removed: &Path) {
    let started = Instant::now();
    let lines = reverted_of(host, removed, || {
        std::thread::sleep(Duration::from_millis(5));
        started.elapsed() < UNLOCKING
    });
    if !lines.is_empty() {
        let path = notes(removed).join(format!("{REPORT}{}", std::process::id()));
        // The user finds the moved files in any case.
        let _ = replace(&path, lines.join("\n").as_bytes());
    }
}

/// Looks again after each wait for as long as there is a note of a host: a process that is killed gives up its locks one
/// after the other, and may have some of them when others know already that it is gone.
fn reverted_of(host: &str, removed: &Path, mut wait: impl FnMut() -> bool) -> Vec<String> {
    let beginning = format!("{host}-");
    let is_left = || {
        let mut entries = fs::read_dir(notes(removed)).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(beginning.as_bytes()))
    };
    let mut lines = reverted_killed(removed);
    while is_left() && wait() {
        lines.extend(reverted_killed(removed));
    }
    lines
}

fn reverted_killed(removed: &Path) -> Vec<String> {
    let mut reverted = Vec::new();
    for entry in fs::read_dir(notes(removed)).into_iter().flatten().flatten().take(MAX_NOTES) {
        let (path, name) = (entry.path(), entry.file_name());
        if [NEW, REPORT].iter().any(|beginning| name.as_encoded_bytes().starts_with(beginning.as_bytes())) {
            continue;
        }
        let Some(lock) = open_regular(&path, OpenOptions::new().read(true).write(true)).ok() else { continue };
        // Removed in the meantime: its process has ended well.
        if lock.try_lock().is_err() || !path.exists() {
            continue;
        }
        let found = lock.metadata().ok().filter(|found| found.len() <= MAX_BYTES);
        let protection = found.as_ref().map(|_| serde_json::from_reader::<_, Protection>(io::BufReader::new(&lock)));
        if let (Some(Ok(protection)), Some(found)) = (protection, found) {
            let touched = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let until = (touched + LATE).min(SystemTime::now());
            let look = |root: &PathBuf| Finder::of_repositories(root, MAX_ENTRIES).find_excluded().ok();
            let found = protection.roots().iter().filter_map(look);
            let repositories: Vec<PathBuf> = found.flat_map(|found| found.repositories.clone()).collect();
            reverted.extend(protection.after(&repositories, &[], removed, Some(until)));
        }
        let _ = fs::remove_file(path);
    }
    reverted.iter().map(reported).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_sandbox::{GitUser, ProtectedPlaces};

    /// A directory that programs work in, and one for files that are moved away.
    fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("work")).unwrap();
        (directory, root.join("work"), root.join("removed"))
    }

    fn audit(removed: &Path) -> Arc<Audit> {
        Arc::new(Audit::new(removed.with_extension("jsonl"), Default::default()))
    }

    /// Returns the entries of the log about protected paths.
    fn logged(removed: &Path) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        Audit::read(&removed.with_extension("jsonl"), |entry| {
            assert_eq!(entry["event"], "protected");
            entries.push((text(&entry["by"]), text(&entry["what"])));
        })
        .unwrap();
        entries
    }

    fn begin(work: &Path, removed: &Path) -> RunningProgram {
        let roots = [work.to_owned()];
        let user = GitUser::default();
        let protected =
            Protected::find(ProtectedPlaces { roots: &roots, repositories: &[], settings: &[], user: &user });
        RunningProgram::begin(&protected, removed, None, "`make`", &audit(removed))
    }

    fn notes_left(removed: &Path) -> usize {
        fs::read_dir(notes(removed)).unwrap().count()
    }

    #[test]
    fn what_a_killed_host_left_is_moved_away_once() {
        let (_directory, work, removed) = world();
        let running = begin(&work, &removed);
        fs::write(work.join(".envrc"), "x").unwrap();
        // Its process lives.
        assert!(revert_killed(&removed, &audit(&removed)).is_empty() && work.join(".envrc").exists());
        // A killed process gives up its locks.
        drop(running);
        revert_for_host(&std::process::id().to_string(), &removed);
        assert!(!work.join(".envrc").exists());
        fs::write(work.join(".envrc"), "mine").unwrap();
        let lines = revert_killed(&removed, &audit(&removed));
        assert!(lines.len() == 1 && lines[0].contains(".envrc"), "{lines:?}");
        assert!(work.join(".envrc").exists() && revert_killed(&removed, &audit(&removed)).is_empty());
        assert_eq!(notes_left(&removed), 0);
        let logged = logged(&removed);
        assert!(logged.len() == 1 && logged[0].0.contains("killed") && logged[0].1.contains(".envrc"), "{logged:?}");
    }

    #[test]
    fn what_a_program_left_is_logged_with_its_name() {
        let (_directory, work, removed) = world();
        let running = begin(&work, &removed);
        fs::write(work.join(".envrc"), "x").unwrap();
        assert_eq!(running.revert().len(), 1);
        let logged = logged(&removed);
        assert!(logged.len() == 1 && logged[0].0 == "`make`" && logged[0].1.contains(".envrc"), "{logged:?}");
    }

    #[test]
    fn lock_that_a_killed_host_gives_up_late_is_waited_for() {
        let (_directory, work, removed) = world();
        let mut running = Some(begin(&work, &removed));
        fs::write(work.join(".envrc"), "x").unwrap();
        let mut waits = 0;
        let lines = reverted_of(&std::process::id().to_string(), &removed, || {
            waits += 1;
            running.take().is_some()
        });
        assert!(lines.len() == 1 && waits == 1 && !work.join(".envrc").exists(), "{lines:?}");
        // Another host's is left to it.
        let other = begin(&work, &removed);
        assert!(reverted_of("another", &removed, || panic!("waits for another host")).is_empty());
        drop(other);
    }

    #[test]
    fn what_is_later_than_the_last_touch_is_the_users() {
        let (_directory, work, removed) = world();
        let running = begin(&work, &removed);
        let note = running.note.as_ref().unwrap().path.clone();
        drop(running);
        fs::write(work.join(".envrc"), "mine").unwrap();
        let file = OpenOptions::new().write(true).open(note).unwrap();
        file.set_modified(SystemTime::now() - LATE - Duration::from_secs(60)).unwrap();
        drop(file);
        assert!(revert_killed(&removed, &audit(&removed)).is_empty() && work.join(".envrc").exists());
        assert_eq!(notes_left(&removed), 0);
    }

    #[test]
    fn notes_that_are_damaged_or_done_are_removed() {
        let (_directory, work, removed) = world();
        assert!(begin(&work, &removed).revert().is_empty());
        assert_eq!(notes_left(&removed), 0);
        fs::write(notes(&removed).join("1-1"), "damaged").unwrap();
        assert!(revert_killed(&removed, &audit(&removed)).is_empty());
        assert_eq!(notes_left(&removed), 0);
    }
}
