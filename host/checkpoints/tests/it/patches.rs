//! Patches between two snapshots, applied by git to a checkout of the old files.

use crate::world::{World, set_mode};
use pinion_checkpoints::{GapReason, PatchReport, SnapshotLimits};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TREES: u64 = 300;

/// A file or link, as git sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File { is_executable: bool, content: Vec<u8> },
    Link(Vec<u8>),
}

type Files = BTreeMap<Vec<u8>, Node>;

fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]).args(arguments);
    command.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails does not read all of it.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn commit(directory: &Path) -> String {
    git(directory, &["init", "-q", "--template="], b"").unwrap();
    add_all(directory)
}

fn add_all(directory: &Path) -> String {
    git(directory, &["add", "-A", "-f"], b"").unwrap();
    git(directory, &["write-tree"], b"").unwrap()
}

fn read(root: &Path) -> Files {
    let mut files = Files::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                directories.extend(Some(path).filter(|path| !path.ends_with(".git")));
                continue;
            }
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            let node = match metadata.is_symlink() {
                true => Node::Link(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()),
                false => Node::File {
                    is_executable: metadata.permissions().mode() & 0o100 != 0,
                    content: fs::read(&path).unwrap(),
                },
            };
            files.insert(name, node);
        }
    }
    files
}

/// Makes a directory contain exactly these files.
fn write(root: &Path, files: &Files) {
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if !path.ends_with(".git") {
            let removed =
                if entry.file_type().unwrap().is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.unwrap();
        }
    }
    for (name, node) in files {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::Link(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
            Node::File { is_executable, content } => {
                fs::write(&path, content).unwrap();
                set_mode(&path, if *is_executable { 0o755 } else { 0o644 });
            }
        }
    }
}

fn name(random: &mut fastrand::Rng) -> Vec<u8> {
    const PARTS: &[&[u8]] = &[
        b"a",
        b"b",
        b"src",
        b"main.rs",
        b"two words",
        b" leading",
        b"trailing ",
        b"quo\"te",
        b"back\\slash",
        b"tab\there",
        b"line\nbreak",
        "caf\u{e9}".as_bytes(),
        b"\xff\xfe",
        b"a b/c",
        b"-option",
        b"b a",
        b"#x",
        b"a => b",
        b"dev",
        b"\x7f\x01",
    ];
    let parts: Vec<_> = (0..random.usize(1..=3)).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
    parts.join(&b'/')
}

fn content(random: &mut fastrand::Rng) -> Vec<u8> {
    let lines = random.usize(..40);
    let end = ["\n", "\r\n", "\r"][random.usize(..3)];
    let mut text: Vec<u8> = (0..lines).flat_map(|_| format!("line {}{end}", random.u8(..30)).into_bytes()).collect();
    match random.u8(..10) {
        0 => {
            let length = random.usize(..3_000);
            text = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        }
        1 => text.extend(b"\xe9t\xe9"),
        2 => text.push(0),
        3 => text.clear(),
        4 | 5 => text.extend(b"no newline at the end"),
        6 => text.extend("--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline\n\n \n\t\n".as_bytes()),
        _ => {}
    }
    text
}

fn node(random: &mut fastrand::Rng) -> Node {
    match random.u8(..8) {
        0 => Node::Link([&b"target"[..], b"../outside", b"\xff", b"a\nb", b"/etc/passwd"][random.usize(..5)].to_vec()),
        _ => Node::File { is_executable: random.u8(..4) == 0, content: content(random) },
    }
}

/// Adds a file unless another one is in the place of a directory above it, or below it.
fn insert(files: &mut Files, name: Vec<u8>, node: Node) {
    let is_below = |inner: &[u8], outer: &[u8]| inner.starts_with(outer) && inner.get(outer.len()) == Some(&b'/');
    files.retain(|other, _| !is_below(other, &name) && !is_below(&name, other));
    files.insert(name, node);
}

fn edit(random: &mut fastrand::Rng, content: &mut Vec<u8>) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=content.len());
        match random.u8(..3) {
            0 => content.truncate(at),
            1 => drop(content.splice(at..at, *b"new\nline")),
            _ => drop(content.splice(at..(at + 10).min(content.len()), *b"\n")),
        }
    }
}

fn change(random: &mut fastrand::Rng, files: &mut Files) {
    for _ in 0..random.usize(..12) {
        let names: Vec<Vec<u8>> = files.keys().cloned().collect();
        let Some(old) = (!names.is_empty()).then(|| names[random.usize(..names.len())].clone()) else {
            insert(files, name(random), node(random));
            continue;
        };
        match random.u8(..8) {
            0 => insert(files, name(random), node(random)),
            1 => drop(files.remove(&old)),
            2 => {
                let moved = files.remove(&old).unwrap();
                insert(files, name(random), moved);
            }
            3 => {
                let mut moved = files.remove(&old).unwrap();
                if let Node::File { content, is_executable } = &mut moved {
                    edit(random, content);
                    *is_executable ^= random.bool();
                }
                insert(files, name(random), moved);
            }
            4 => drop(files.insert(old, node(random))),
            5 => {
                if let Some(Node::File { is_executable, .. }) = files.get_mut(&old) {
                    *is_executable ^= true;
                }
            }
            // A directory in the place of a file.
            6 => {
                let below = [old.as_slice(), b"/inside"].concat();
                insert(files, below, node(random));
            }
            _ => {
                if let Some(Node::File { content, .. }) = files.get_mut(&old) {
                    edit(random, content);
                }
            }
        }
    }
}

fn patch(world: &World, change: impl FnOnce()) -> (Vec<u8>, PatchReport) {
    let store = world.store.complete();
    let before = store.snapshot().unwrap();
    change();
    let after = store.snapshot().unwrap();
    let mut patch = Vec::new();
    let report = store.write_patch(&before.tree, &after.tree, Path::new(""), &mut patch).unwrap();
    (patch, report)
}

#[test]
fn git_applies_patches_of_random_trees_exactly() {
    let mut renamed = 0;
    for seed in 0..TREES {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = World::new();
        let (mut old, checkout) = (Files::new(), world.directory.path().join("checkout"));
        fs::create_dir(&checkout).unwrap();
        for _ in 0..random.usize(..15) {
            insert(&mut old, name(&mut random), node(&mut random));
        }
        let mut new = old.clone();
        change(&mut random, &mut new);
        write(&world.root, &old);
        write(&checkout, &old);
        commit(&checkout);
        let (patch, report) = patch(&world, || write(&world.root, &new));
        let text = String::from_utf8(patch.clone()).expect("a patch is UTF-8");
        assert!(report.missing.is_empty(), "tree {seed}: {report:?}");
        renamed += text.matches("\nrename to ").count();
        if old == new {
            assert!(patch.is_empty(), "tree {seed}: {text}");
            continue;
        }
        let context = || format!("tree {seed}:\n{text}");
        let applied = git(&checkout, &["apply", "--index", "--whitespace=nowarn"], &patch);
        applied.unwrap_or_else(|error| panic!("{error}, {}", context()));
        assert!(read(&checkout) == new, "{}", context());
        // The index has the same files: writing it again does not change it.
        let applied = git(&checkout, &["write-tree"], b"").unwrap();
        fs::remove_file(checkout.join(".git/index")).unwrap();
        assert_eq!(applied, add_all(&checkout), "{}", context());
    }
    assert!(renamed > 50, "{renamed} moved files");
}

#[test]
fn large_files_are_part_of_a_patch() {
    let world = World::with(SnapshotLimits { file_bytes: 1_000, bytes: 10_000, ..SnapshotLimits::default() });
    let checkout = world.directory.path().join("checkout");
    fs::create_dir(&checkout).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut large: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(33 << 20).collect();
    let lines: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
    world.write("large", &large);
    world.write("lines", &lines);
    write(&checkout, &read(&world.root));
    commit(&checkout);
    let (patch, report) = patch(&world, || {
        large[1_000] ^= 1;
        world.write("large", &large);
        world.write("lines", lines.replace("line 1234\n", "line of text\n"));
    });
    assert!(report.missing.is_empty() && report.files == 2, "{report:?}");
    let old = read(&checkout);
    git(&checkout, &["apply", "--index"], &patch).unwrap();
    assert!(read(&checkout) == read(&world.root));
    git(&checkout, &["apply", "--index", "-R"], &patch).unwrap();
    assert!(read(&checkout) == old);
}

#[test]
fn ignored_and_closed_files_stay_out_of_a_patch() {
    let world = World::new();
    world.write(".gitignore", "*.log\nbuild/\n");
    world.write("src/.gitignore", "*.tmp\n");
    let (patch, report) = patch(&world, || {
        world.write("kept", "1\n");
        for path in ["a.log", "build/out", "src/x.tmp", ".vscode/settings.json"] {
            world.write(path, "secret\n");
        }
        let path = |path: &str| pinion_checkpoints::RelPath::try_from(Path::new(path)).unwrap();
        // As a tool that names the file in its arguments.
        world.store.snapshot_covering(&[path("a.log")].into()).unwrap();
    });
    let text = String::from_utf8(patch).unwrap();
    assert_eq!(report.files, 1, "{text}");
    assert!(text.contains("b/kept") && !text.contains("secret"), "{text}");
}

#[test]
fn changes_without_a_copy_are_reported() {
    let world = World::with(SnapshotLimits { file_bytes: 1_000, ..SnapshotLimits::default() });
    world.write("large", "1".repeat(2_000));
    let before = world.snapshot();
    world.write("large", "2".repeat(2_000));
    world.write("small", "1\n");
    let after = world.snapshot();
    let mut patch = Vec::new();
    let report = world.store.write_patch(&before.tree, &after.tree, Path::new("sub"), &mut patch).unwrap();
    let missing: Vec<_> = report.missing.iter().map(|(path, reason)| (path.to_string(), *reason)).collect();
    assert_eq!(missing, [("large".to_owned(), GapReason::LargeFile)]);
    assert!(
        String::from_utf8(patch).unwrap().starts_with("diff --git a/sub/small b/sub/small\nnew file mode 100644\n")
    );
    // A copy that is gone or damaged is found before anything of the file is written.
    for object in objects(&world.directory.path().join("store/objects")) {
        fs::write(object, "x").unwrap();
    }
    let mut patch = Vec::new();
    let report = world.store.write_patch(&before.tree, &after.tree, Path::new(""), &mut patch).unwrap();
    assert!(patch.is_empty() && report.files == 0 && report.missing.len() == 2, "{report:?}");
}

fn objects(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    entries(directory).iter().flat_map(|path| entries(path)).collect()
}
