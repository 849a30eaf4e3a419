//! The tool `search` of the built-in plugin `fs`, from request to formatted result, against ripgrep over the same 2,000
//! files, with as many threads and the same limits. Prints a line for each pattern.
//!
//! Reads the plugin from `$PINION_DIST` or `plugins/dist`, and runs `rg` from the PATH. Without `rg`, only the plugin is
//! measured.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "search/corpus.rs"]
mod corpus;
#[path = "call/guests.rs"]
#[expect(dead_code, reason = "the other benchmark needs the rest")]
mod guests;

use guests::Plugins;
use pinion_protocol::ToolOutput;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 41;
/// Lines shown of each file, and in all.
const LIMIT: u32 = 2_000;

struct Case {
    name: &'static str,
    pattern: &'static str,
    /// Additional arguments of the tool, and of `rg`.
    ours: Value,
    rg: &'static [&'static str],
}

/// Searches whose results stay below every limit, so that both programs do and show the same.
fn cases() -> [Case; 6] {
    let case = |name, pattern, ours, rg| Case { name, pattern, ours, rg };
    [
        case("no match", "nowhere_to_be_found", json!({}), &[]),
        case("rare literal", corpus::RARE, json!({}), &[]),
        case("common word", corpus::COMMON, json!({}), &[]),
        case("regex", r"\bfn\s+(keel|mast|[op-r]\w+)_ring\b", json!({}), &[]),
        case("ignoring case", "HARBOUR_MASTER", json!({ "ignore_case": true }), &["--ignore-case"]),
        case("files only", corpus::COMMON, json!({ "output": "files" }), &["--files-with-matches"]),
    ]
}

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let plugins = tokio.block_on(Plugins::load_file(component(), None));
    let corpus = corpus::write(plugins.workspace());
    // The number of threads that the runtime uses.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    let size = corpus.bytes as f64 / 1e6;
    println!("{} files, {size:.1} MB, {threads} threads; median of {ROUNDS} rounds", corpus.files);
    let rg = Rg { threads, directory: plugins.workspace() };
    let has_rg = rg.command().arg("--version").output().is_ok();
    if !has_rg {
        println!("no `rg` on the PATH: nothing to compare with");
    }
    for case in cases() {
        let search = || tokio.block_on(plugins.output("search", arguments(&case)));
        if has_rg {
            assert_same(&case, &search(), &rg.run(&case));
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(timed(search));
            if has_rg {
                theirs.push(timed(|| rg.run(&case)));
            }
        }
        report(&case, &mut ours, &mut theirs);
    }
}

/// Checks that both found as many lines or files, and that the tool shows all of them.
fn assert_same(case: &Case, ours: &ToolOutput, rg: &str) {
    let details = ours.details.as_ref().unwrap();
    assert_eq!(details["truncated"], false, "{}", case.name);
    // Under each path stand the lines, with their numbers; or there are only paths.
    let wants_lines = case.ours["output"].is_null();
    let is_counted = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit()) == wants_lines;
    assert_eq!(details["matches"], rg.lines().filter(is_counted).count(), "{}", case.name);
}

fn component() -> PathBuf {
    let dist = std::env::var_os("PINION_DIST")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist"), PathBuf::from);
    let file = dist.join("fs.wasm");
    assert!(file.is_file(), "no `{}`: run `plugins/build.sh`", file.display());
    file
}

fn arguments(case: &Case) -> Value {
    let mut arguments = json!({ "pattern": case.pattern, "limit": LIMIT });
    for (name, value) in case.ours.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    arguments
}

/// The same search with `rg`: ignore files apply outside a repository, and hidden files are searched.
struct Rg<'a> {
    threads: usize,
    directory: &'a Path,
}

impl Rg<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new("rg");
        command.current_dir(self.directory).stdin(Stdio::null());
        command
    }

    fn run(&self, case: &Case) -> String {
        let mut command = self.command();
        command.args(["--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "--glob=!.git"]);
        command.args(["--heading", "--line-number", "--color=never"]);
        command.arg(format!("--threads={}", self.threads)).arg(format!("--max-count={LIMIT}"));
        command.args(case.rg).args(["--", case.pattern, "."]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    std::hint::black_box(work());
    started.elapsed()
}

fn report(case: &Case, ours: &mut [Duration], theirs: &mut [Duration]) {
    let median = |times: &mut [Duration]| {
        times.sort_unstable();
        times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1e3)
    };
    let ours = median(ours).unwrap_or_default();
    match median(theirs) {
        Some(rg) => println!("{:14} {ours:7.2} ms   rg {rg:7.2} ms   ratio {:.2}", case.name, ours / rg),
        None => println!("{:14} {ours:7.2} ms", case.name),
    }
}
