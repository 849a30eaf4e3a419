//! Random grants, directories, links and calls against a real tree.
//!
//! Each world has a tree, overlapping grants, and calls of a guest that carries out given operations. After each call,
//! everything that the call may not change is unchanged, and the call has reported nothing that it may not read. Every
//! file contains a unique mark, so that a copy is recognized anywhere.
//!
//! `PINION_TESTS_SEED` selects other worlds; a failure names the seed of its world.

use pinion_plugin_runtime::FileAccess;
use pinion_tests::{Sandbox, SandboxBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const WORLDS: u64 = 50;
const ROUNDS: usize = 5;
/// Number of calls per round.
const CALLS: usize = 2;
const STEPS: usize = 40;
/// Number of steps in all worlds.
const ALL_STEPS: usize = 20_000;

const DIRECTORIES: [&str; 9] = ["", "a", "a/b", "a/b/c", "c", "c/d", "d", ".git", ".pinion"];
/// Possible locations of a grant, besides the whole workspace.
const GRANTED: [&str; 7] = ["", "a", "a/b", "a/b/c", "c", "c/d", "d"];
const NAMES: [&str; 12] = ["a", "b", "c", "d", "f.txt", "g.txt", "link", "new", "..", ".git", "config", ".pinion"];
/// Paths that no plugin may change, with any grants.
const PROTECTED: [&str; 4] = [".git/config", ".git/hooks", ".pinion", ".mcp.json"];
const DOES: [&str; 24] = [
    "read",
    "read",
    "read",
    "write",
    "write",
    "append",
    "truncate",
    "hold",
    "read_held",
    "write_held",
    "list",
    "stat",
    "read_link",
    "mkdir",
    "mkdirs",
    "symlink",
    "symlink",
    "link",
    "rename",
    "rename",
    "remove",
    "replace",
    "walk",
    "search",
];
/// Rare because they leave little behind.
const RARE: [&str; 2] = ["remove_dir", "remove_all"];

/// Random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Returns a path: relative to the workspace, absolute inside it, or outside.
    fn path(&mut self, outside: &Path) -> String {
        let parts: Vec<_> = (0..1 + self.below(4)).map(|_| self.one(&NAMES)).collect();
        let path = parts.join("/");
        match self.below(12) {
            0 => outside.join("workspace").join(path).to_str().unwrap().to_owned(),
            1 => outside.join("outside").join(path).to_str().unwrap().to_owned(),
            2 => format!("../outside/{path}"),
            3 => self.one(&GRANTED[1..]).to_owned(),
            4..=7 => format!("{}/{}", self.one(&GRANTED[1..]), self.one(&NAMES)),
            _ => path,
        }
    }

    fn steps(&mut self, outside: &Path) -> Value {
        let step = |random: &mut Self| {
            let does = if random.below(40) == 0 { random.one(&RARE) } else { random.one(&DOES) };
            json!({ "does": does, "path": random.path(outside), "other": random.path(outside) })
        };
        json!({ "steps": (0..STEPS).map(|_| step(self)).collect::<Vec<_>>() })
    }
}

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
}

/// All entries below a directory, by path.
type Tree = BTreeMap<PathBuf, Found>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            let kind = entry.file_type().unwrap();
            let what = match () {
                () if kind.is_symlink() => Found::Link(fs::read_link(entry.path()).unwrap()),
                () if kind.is_dir() => {
                    waiting.push(path.clone());
                    Found::Directory
                }
                () => Found::File(fs::read(entry.path()).unwrap()),
            };
            found.insert(path, what);
        }
    }
    found
}

/// A tree and the grants of its directories.
struct World {
    sandbox: Sandbox,
    /// Access by path from the directory that contains the workspace.
    grants: BTreeMap<PathBuf, FileAccess>,
    /// The mark of each initial file.
    marks: BTreeMap<PathBuf, String>,
}

impl World {
    async fn new(random: &mut Random) -> Self {
        let mut grants = BTreeMap::new();
        let mut builder = SandboxBuilder::default().guest("hostile");
        for _ in 0..1 + random.below(4) {
            let path = random.one(&GRANTED);
            let access = if random.below(3) == 0 { FileAccess::Read } else { FileAccess::Write };
            builder = builder.files("hostile", if path.is_empty() { "." } else { path }, access);
            grants.insert(Path::new("workspace").join(path), access);
        }
        // Grants are opened when the plugin loads, so the tree comes first.
        let mut world = Self { sandbox: builder.build().await, grants, marks: BTreeMap::new() };
        world.lay_out(random);
        world
    }

    fn outside(&self) -> PathBuf {
        self.sandbox.outside().canonicalize().unwrap()
    }

    fn lay_out(&mut self, random: &mut Random) {
        for directory in DIRECTORIES {
            for name in ["f.txt", "g.txt"] {
                self.file(&format!("workspace/{directory}/{name}"));
            }
        }
        let protected = [".git/config", ".git/hooks/pre-commit", ".pinion/config.toml", ".mcp.json"];
        protected.iter().for_each(|path| self.file(&format!("workspace/{path}")));
        for path in ["outside/f.txt", "outside/g.txt", "outside/a/f.txt", "outside/config"] {
            self.file(path);
        }
        let outside = self.outside();
        for _ in 0..random.below(6) {
            let directory = outside.join("workspace").join(random.one(&DIRECTORIES));
            let target = random.path(&outside);
            // An existing link stays.
            let _ = std::os::unix::fs::symlink(target, directory.join(random.one(&["link", "new"])));
        }
    }

    fn file(&mut self, path: &str) {
        let path = path.replace("//", "/");
        let file = self.outside().join(&path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mark = format!("<mark-{}>", self.marks.len());
        fs::write(file, &mark).unwrap();
        self.marks.insert(PathBuf::from(path), mark);
    }

    fn access(&self, path: &Path) -> Option<FileAccess> {
        path.ancestors().find_map(|path| self.grants.get(path)).copied()
    }

    /// Returns whether a call may change, replace or create the entry at this path.
    fn may_change(&self, path: &Path, most: Option<FileAccess>) -> bool {
        let is_protected = PROTECTED.iter().any(|protected| path.starts_with(Path::new("workspace").join(protected)));
        let is_written = |path: &Path| self.access(path) == Some(FileAccess::Write);
        most == Some(FileAccess::Write) && !is_protected && is_written(path) && path.parent().is_some_and(is_written)
    }

    /// Returns the first path that changed without permission.
    fn violation(&self, before: &Tree, after: &Tree, most: Option<FileAccess>) -> Option<String> {
        let paths = before.keys().chain(after.keys());
        let mut changed = paths.filter(|path| before.get(*path) != after.get(*path));
        let path = changed.find(|path| !self.may_change(path, most))?;
        Some(format!("`{}` was {:?} and is {:?}", path.display(), before.get(path), after.get(path)))
    }

    /// Returns the first mark in a report whose file the call may not read.
    fn leak(&self, report: &str, most: Option<FileAccess>) -> Option<String> {
        let is_readable = |path: &Path| most.is_some() && self.access(path).is_some();
        let mut secrets = self.marks.iter().filter(|(path, _)| !is_readable(path));
        let (path, _) = secrets.find(|(_, mark)| report.contains(mark.as_str()))?;
        Some(format!("`{}` was read", path.display()))
    }
}

/// The tools and the effects that they declare.
const TOOLS: [(&str, Option<FileAccess>); 4] = [
    ("steps_write", Some(FileAccess::Write)),
    ("steps_write", Some(FileAccess::Write)),
    ("steps_read", Some(FileAccess::Read)),
    ("steps_none", None),
];

/// Number of successful steps by tool.
type Successes = BTreeMap<&'static str, usize>;

async fn play(seed: u64, successes: &mut Successes) {
    let mut random = Random(seed);
    let world = World::new(&mut random).await;
    let outside = world.outside();
    let mut before = tree(&outside);
    for round in 0..ROUNDS {
        let calls: Vec<_> = (0..CALLS).map(|_| (TOOLS[random.below(TOOLS.len())], random.steps(&outside))).collect();
        let running = calls.iter().map(|((tool, _), steps)| world.sandbox.text(tool, steps.clone()));
        // Every other round runs its calls concurrently.
        let reports = match round % 2 {
            0 => futures_util::future::join_all(running).await,
            _ => {
                let mut reports = Vec::new();
                for report in running {
                    reports.push(report.await);
                }
                reports
            }
        };
        let after = tree(&outside);
        let most = calls.iter().map(|((_, access), _)| *access).max().flatten();
        let leaks = calls.iter().zip(&reports).filter_map(|(((_, most), _), report)| world.leak(report, *most));
        let wrongs: Vec<_> = leaks.chain(world.violation(&before, &after, most)).collect();
        if !wrongs.is_empty() {
            let said: Vec<_> = calls
                .iter()
                .zip(&reports)
                .map(|(((tool, _), steps), report)| {
                    let steps = steps["steps"].as_array().unwrap().iter().zip(report.lines());
                    let lines = steps
                        .filter(|(_, report)| *report != "failed")
                        .map(|(step, report)| format!("{step} -> {report}"));
                    format!("{tool}:\n{}", lines.collect::<Vec<_>>().join("\n"))
                })
                .collect();
            panic!("seed {seed}, round {round}, grants {:?}: {wrongs:#?}\n{}", world.grants, said.join("\n"));
        }
        for (((tool, _), _), report) in calls.iter().zip(&reports) {
            *successes.entry(tool).or_default() += report.lines().filter(|line| line.starts_with("ok")).count();
        }
        before = after;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_exceeds_grants_and_declared_effects() {
    let first = std::env::var("PINION_TESTS_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut successes = Successes::new();
    for world in 0..WORLDS {
        play(first + world, &mut successes).await;
    }
    assert_eq!(usize::try_from(WORLDS).unwrap() * ROUNDS * CALLS * STEPS, ALL_STEPS);
    // Otherwise nothing was tested.
    assert!(successes["steps_write"] > ALL_STEPS / 20, "{successes:?}");
    assert!(successes["steps_read"] > ALL_STEPS / 100, "{successes:?}");
}
