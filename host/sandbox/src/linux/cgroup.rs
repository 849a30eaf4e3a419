//! A control group for one program: limits on the memory and the number of everything that it starts. Only where the system
//! has delegated a group around this one, as systemd does for the programs of a desktop.

use crate::policy::ResourceLimits;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The place of control groups of version 2.
const ROOT: &str = "/sys/fs/cgroup";
/// The controllers that limits need.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// Begins the name of a group; the number of the process that created it follows.
const NAME: &str = "pinion-";

/// A group without processes, or with the processes of one program.
#[derive(Debug)]
pub(super) struct ControlGroup {
    path: PathBuf,
    /// Takes the numbers of processes. Open, because a program's tree of files is read-only.
    processes: File,
}

impl ControlGroup {
    /// Creates a group with limits.
    ///
    /// # Errors
    /// Returns the reason why the system has no group for this user.
    pub(super) fn create(limits: &ResourceLimits) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::in_tree(Path::new(ROOT), &own, limits)
    }

    fn in_tree(root: &Path, own: &str, limits: &ResourceLimits) -> Result<Self, String> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let Some(own) = own.filter(|_| root.join("cgroup.controllers").exists()) else {
            return Err("the system has no control groups of version 2".to_owned());
        };
        // A group with processes has no controllers for groups in it, so that most often it is one further out.
        for around in root.join(own).ancestors().take_while(|path| path.starts_with(root)) {
            let control = fs::read_to_string(around.join("cgroup.subtree_control")).unwrap_or_default();
            let is_controlled = CONTROLLERS.iter().all(|name| control.split_whitespace().any(|word| word == *name));
            let path = around.join(format!("{NAME}{}", std::process::id()));
            if is_controlled && fs::create_dir(&path).is_ok() {
                sweep(around);
                let limited = limit(&path, limits);
                return limited.map(|processes| Self { path: path.clone(), processes }).map_err(|error| {
                    let _ = fs::remove_dir(&path);
                    format!("`{}` takes no limits: {error}", path.display())
                });
            }
        }
        Err("no control group is delegated to this user".to_owned())
    }

    /// Moves this process to the group.
    ///
    /// # Errors
    /// The system does not let it.
    pub(super) fn enter(&self) -> io::Result<()> {
        (&self.processes).write_all(b"0")
    }

    /// Returns whether the kernel killed a process of the group for its limit on memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    /// Removes the group. One that still has processes stays, and is removed by a later program.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Sets the limits of a group and opens the file that takes its processes.
fn limit(group: &Path, limits: &ResourceLimits) -> io::Result<File> {
    let open = |name: &str| File::options().write(true).open(group.join(name));
    let set = |name: &str, value: u64| open(name)?.write_all(value.to_string().as_bytes());
    set("pids.max", limits.processes)?;
    if let Some(bytes) = limits.memory_bytes {
        set("memory.max", bytes)?;
        // Half a program is worth nothing. Missing on old kernels.
        let _ = set("memory.oom.group", 1);
    }
    open("cgroup.procs")
}

/// Removes the empty groups of helpers that are gone.
fn sweep(around: &Path) {
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // Fails while a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory that looks like a tree of groups, `a` with these controllers.
    fn tree(controllers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "").unwrap();
        fs::write(root.path().join("a/cgroup.subtree_control"), controllers).unwrap();
        root
    }

    #[test]
    fn group_is_created_in_the_nearest_one_with_controllers() {
        let root = tree("cpu memory pids");
        let limits = ResourceLimits { memory_bytes: Some(5), ..ResourceLimits::default() };
        // A plain directory lacks the files that a group gets by itself.
        let error = ControlGroup::in_tree(root.path(), "1:x:/y\n0::/a/b/c\n", &limits).unwrap_err();
        assert!(error.contains("a/pinion-") && error.contains("takes no limits"), "{error}");
        assert!(fs::read_dir(root.path().join("a")).unwrap().count() == 2, "it is removed");
    }

    #[test]
    fn limits_are_written_and_processes_opened() {
        let group = tempfile::tempdir().unwrap();
        for name in ["pids.max", "memory.max", "memory.oom.group", "cgroup.procs"] {
            fs::write(group.path().join(name), "").unwrap();
        }
        let processes =
            limit(group.path(), &ResourceLimits { processes: 7, memory_bytes: Some(9), file_bytes: None }).unwrap();
        let text = |name: &str| fs::read_to_string(group.path().join(name)).unwrap();
        assert_eq!(["pids.max", "memory.max", "memory.oom.group"].map(text), ["7", "9", "1"]);
        let entered = ControlGroup { path: group.path().to_owned(), processes };
        entered.enter().unwrap();
        assert_eq!(text("cgroup.procs"), "0");
        for (events, ran_out) in
            [("", false), ("oom 1\noom_kill 0\n", false), ("oom 1\noom_kill 3\noom_group_kill 1\n", true)]
        {
            fs::write(group.path().join("memory.events"), events).unwrap();
            assert_eq!(entered.ran_out_of_memory(), ran_out, "{events}");
        }
    }

    #[test]
    fn missing_controllers_and_old_systems_are_named() {
        let root = tree("cpu pids");
        let limits = ResourceLimits::default();
        let error = |own: &str| ControlGroup::in_tree(root.path(), own, &limits).unwrap_err();
        assert!(error("0::/a/b/c\n").contains("delegated"));
        assert!(error("5:memory:/a\n").contains("version 2"));
    }

    #[test]
    fn groups_of_helpers_that_are_gone_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let own = format!("{NAME}{}", std::process::id());
        for name in ["pinion-4194305", "pinion-x", "other", &own] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        sweep(root.path());
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        let mut expected: Vec<std::ffi::OsString> = ["other".into(), "pinion-x".into(), own.into()].to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }
}
