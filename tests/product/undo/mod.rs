//! Undo of changes by components and programs, through the command.

mod killed;
mod limits;
mod others;
mod patches;
mod turns;

use pinion_tests::{Ended, Pinion, call};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// The last row of a completely shown question; keys count from then on.
const CHOICE: &str = "always in this session";

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", script.to_str().unwrap()].iter().chain(more));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn rewind(pinion: &Pinion, more: &[&str]) -> String {
    let ended = pinion.run(["session", "rewind"].iter().chain(more));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({ "path": path, "content": content }))
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

fn read(pinion: &Pinion, path: &str) -> String {
    fs::read_to_string(pinion.workspace().join(path)).unwrap_or_else(|error| error.kind().to_string())
}

/// Describes everything in a directory but its repository.
fn state(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                directories.extend(Some(path.clone()).filter(|path| !path.ends_with(".git")));
                format!("directory {:o}", metadata.mode())
            } else {
                format!("{:o} {:?}", metadata.mode(), fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), content);
        }
    }
    found
}

/// Returns the last session as text.
fn shown(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    pinion.run(["session", "show", &id]).stdout
}

/// A workspace with files of all kinds.
fn workspace() -> Pinion {
    let pinion = Pinion::default();
    pinion.write("a.txt", "one\n");
    pinion.write("bin", [0, 255, 1]);
    pinion.write("script.sh", "true\n");
    pinion.write("gone/deep/file", "1");
    symlink("a.txt", pinion.workspace().join("link")).unwrap();
    fs::create_dir(pinion.workspace().join("empty")).unwrap();
    fs::set_permissions(pinion.workspace().join("script.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    pinion
}

const CHANGES: &str = "rm -rf gone empty; printf '\\000\\001' > bin; chmod 600 script.sh; ln -sf bin link; \
                       mkdir -p new/deep; echo x > new/deep/file; mv a.txt b.txt";

fn ids(pinion: &Pinion) -> Vec<String> {
    let listed = pinion.run(["session", "list"]).stdout;
    listed.lines().filter_map(|line| line.get(..8).map(str::to_owned)).collect()
}
