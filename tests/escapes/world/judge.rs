//! Tells whether an attempt reached something that it must not reach.

use super::{EXCLUDED, SECRET, World, each};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Output;

impl World {
    pub(super) fn judge(&self, before: &Snapshot, output: &Output) -> Result<(), String> {
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let both = format!("{stdout}{stderr}");
        if both.contains("ESCAPED") || both.contains(SECRET) {
            return Err(both);
        }
        if !stdout.contains("tried") {
            return Err(format!("it did not run: {:?}: {both}", output.status));
        }
        // New repositories may have settings, which the user's commands try out.
        let after = self.states(&before.protected);
        let before = &before.states;
        if let Some((path, _)) = before.iter().find(|(path, state)| after.get(*path) != Some(state)) {
            return Err(format!("`{}` has changed: {both}", path.display()));
        }
        if let Some(path) = after.keys().find(|path| !before.contains_key(*path)) {
            return Err(format!("`{}` is new: {both}", path.display()));
        }
        match rustix::process::test_kill_process(rustix::process::Pid::from_child(&self.host)) {
            Ok(()) if !self.has_left_behind() && !self.has_heard() => Ok(()),
            Ok(()) => Err(format!("it is heard outside, or still runs: {both}")),
            Err(error) => Err(format!("the process outside is gone: {error}")),
        }
    }

    /// Returns whether a process still runs that the attempt started.
    fn has_left_behind(&self) -> bool {
        let line = format!("sleep\0{}\0", self.mark);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default() == line.as_bytes())
    }

    /// Returns whether a datagram or a connection has arrived.
    fn has_heard(&self) -> bool {
        self.udp.set_nonblocking(true).unwrap();
        self.tcp.set_nonblocking(true).unwrap();
        self.udp.recv(&mut [0; 8]).is_ok() || self.tcp.accept().is_ok()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let excluded = EXCLUDED.map(|path| self.root.join(path));
        let protected: Vec<PathBuf> = self.protected().all().cloned().chain(excluded).collect();
        Snapshot { states: self.states(&protected), protected }
    }

    /// Returns all that a program must not change: everything outside, and the protected paths of the workspace.
    fn states(&self, protected: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let work = self.root.join("work");
        each(&self.root, &mut |path| {
            let is_free = path.starts_with(&work) && !protected.iter().any(|protected| path.starts_with(protected));
            let is_own = path.starts_with(self.root.join("home/.config/pinion/scratch"));
            let is_open = self.open_in_hidden().iter().any(|open| {
                path.starts_with(open)
                    && ![".envrc", ".env", "inner"].iter().any(|name| path.starts_with(open.join(name)))
            });
            if is_free || is_own || is_open {
                return;
            }
            let metadata = fs::symlink_metadata(path).unwrap();
            let content = if metadata.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
            // A directory of the workspace changes its time when its entries do, also for a moment.
            let time = if path.starts_with(&work) { None } else { Some((metadata.mtime(), metadata.mtime_nsec())) };
            found.insert(path.to_owned(), format!("{:o} {time:?} {content}", metadata.mode()));
        });
        found
    }
}

/// The files before an attempt.
pub(super) struct Snapshot {
    protected: Vec<PathBuf>,
    states: BTreeMap<PathBuf, String>,
}
