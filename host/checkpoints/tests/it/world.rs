//! A scratch directory with a store next to it.

use pinion_checkpoints::{
    CheckpointStore, Digest, Plan, RestoreReport, SnapshotLimits, StepKind, TreeSnapshot, UndoStep,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct World {
    pub directory: TempDir,
    pub root: PathBuf,
    pub store: CheckpointStore,
}

impl World {
    pub fn new() -> Self {
        Self::with(SnapshotLimits::default())
    }

    pub fn with(limits: SnapshotLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("work");
        fs::create_dir(&root).unwrap();
        let store = CheckpointStore::new(&directory.path().join("store"), &root, [root.join(".vscode")], limits);
        Self { directory, root, store }
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub fn snapshot(&self) -> TreeSnapshot {
        self.store.snapshot().unwrap()
    }

    /// Undoes everything since a snapshot.
    pub fn undo(&self, before: &TreeSnapshot) -> RestoreReport {
        let current = self.snapshot();
        let steps =
            [UndoStep { before: before.tree.clone(), after: Some(current.tree.clone()), kind: StepKind::Whole }];
        let mut plan = Plan::new(&steps, &current.tree, false);
        self.store.check(&mut plan);
        assert!(plan.conflicts.is_empty() && plan.lost.is_empty(), "{plan:?}");
        self.store.restore(&plan, "").unwrap()
    }

    pub fn state(&self) -> BTreeMap<Vec<u8>, String> {
        state(&self.root)
    }
}

/// Describes everything in a directory byte by byte, independently of the store. Modes keep it from nothing.
pub fn state(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let (mut found, mut closed) = (BTreeMap::new(), Vec::new());
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bits = metadata.mode() & 0o7777;
            let content = if metadata.is_dir() {
                if bits & 0o700 != 0o700 {
                    closed.push((path.clone(), bits));
                    set_mode(&path, bits | 0o700);
                }
                directories.push(path.clone());
                "directory".to_owned()
            } else if metadata.is_symlink() {
                format!("link to {:?}", fs::read_link(&path).unwrap())
            } else {
                let is_closed = bits & 0o400 == 0;
                is_closed.then(|| set_mode(&path, bits | 0o400));
                let content = blake3::hash(&fs::read(&path).unwrap()).to_string();
                // At once, because the file may have other names.
                is_closed.then(|| set_mode(&path, bits));
                content
            };
            let mode = if metadata.is_symlink() { 0 } else { bits };
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            found.insert(name, format!("{mode:o} {content}"));
        }
    }
    closed.iter().rev().for_each(|(path, mode)| set_mode(path, *mode));
    found
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn id(text: &str) -> Digest {
    Digest::parse(text).unwrap()
}
