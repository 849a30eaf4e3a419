//! Cost of the sandbox for one program: `bash -c true` as it is, and with each set of layers.
//!
//! Run `cargo build --release --bins`, then `cargo bench -p pinion-tests --bench programs`. The variants take turns, so that other
//! load affects them alike. Fails if all layers together cost more than [`MOST`] in the median. Linux only.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use pinion_sandbox::{GitUser, Launcher, Layers, Program, SandboxPolicy, helper_beside, protected_in, secret_paths};
use pinion_tests::binary;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;
/// Cost of the sandbox with all layers for one program.
const MOST: Duration = Duration::from_millis(4);

fn main() -> ExitCode {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().canonicalize().unwrap();
    assert!(Command::new("git").args(["init", "-q"]).arg(&work).status().unwrap().success());
    let home = std::env::home_dir();
    let policy = SandboxPolicy {
        read_only: protected_in(&work, &GitUser::default()),
        writable: vec![work.clone()],
        hidden: secret_paths(home.as_deref(), &[]),
        ..SandboxPolicy::default()
    };
    let layers = |namespaces: bool, landlock: bool| Some(Layers { namespaces, landlock });
    let variants = [
        ("as it is", None),
        ("namespaces and Landlock", layers(true, true)),
        ("namespaces", layers(true, false)),
        ("Landlock", layers(false, true)),
    ];
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, layers), times) in variants.iter().zip(&mut times) {
            times.push(once(&work, &policy, *layers));
        }
    }
    for ((name, _), times) in variants.iter().zip(&mut times) {
        times.sort();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1000.0;
        println!("{name:<24} p10 {:.2} ms   p50 {:.2} ms   p90 {:.2} ms", at(10), at(50), at(90));
    }
    let [plain, confined, ..] = times.map(|times| times[times.len() / 2]);
    let cost = confined.saturating_sub(plain);
    println!("the sandbox costs {:.2} ms; at most {} ms", cost.as_secs_f64() * 1000.0, MOST.as_millis());
    if cost > MOST { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn once(work: &Path, policy: &SandboxPolicy, layers: Option<Layers>) -> Duration {
    let command_arguments = ["-c".to_owned(), "true".to_owned()];
    let environment = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let started = Instant::now();
    let mut command = match layers {
        None => {
            let mut command = Command::new("bash");
            command.args(&command_arguments).env_clear().envs(environment).current_dir(work);
            command
        }
        Some(layers) => {
            let (helper, arguments) = match helper_beside(&binary()) {
                Some(helper) => (helper, Vec::new()),
                None => (binary(), vec!["run-in-sandbox-for-parent".into()]),
            };
            let launcher = Launcher::new(helper, arguments).with_layers(layers);
            let program =
                Program { program: "bash", arguments: &command_arguments, directory: work, environment: &environment };
            launcher.command(program, policy).unwrap()
        }
    };
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    started.elapsed()
}
