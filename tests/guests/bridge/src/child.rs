//! Talks to programs, step by step.

use pinion_plugin_sdk::child_process::{self, Child, OutputStream, ReadResult};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::Command;
use std::fmt::Debug;
use std::sync::Mutex;

#[derive(Deserialize)]
pub struct Steps {
    /// A shell script to start; without one, the program that an earlier call kept.
    script: Option<String>,
    /// Programs to start.
    #[serde(default = "one")]
    times: usize,
    /// The beginning of the program's standard input.
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    timeout_ms: Option<u32>,
    #[serde(default)]
    steps: Vec<Step>,
    /// Keeps the program for the next call.
    #[serde(default)]
    keep: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// Text to write, at most so many times, until nothing is taken within so many milliseconds.
    Write(String, u32, u32),
    CloseStdin,
    /// Bytes of stdout to read, and milliseconds to wait.
    Read(u32, u32),
    ReadStderr(u32, u32),
    /// Reads stdout to its end and says the number of bytes.
    Drain,
    Wait(u32),
    Kill,
}

static KEPT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn one() -> usize {
    1
}

pub fn run(a: Steps) -> String {
    let mut said = Vec::new();
    let mut children = match &a.script {
        Some(script) => start(script, &a, &mut said),
        None => std::mem::take(&mut *KEPT.lock().unwrap()),
    };
    if let Some(child) = children.first() {
        for step in &a.steps {
            said.push(take(child, step));
        }
    }
    if a.keep {
        KEPT.lock().unwrap().append(&mut children);
    }
    said.join("\n")
}

fn start(script: &str, a: &Steps, said: &mut Vec<String>) -> Vec<Child> {
    let mut children = Vec::new();
    for _ in 0..a.times {
        let command = Command {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            working_directory: None,
            environment: vec![],
            stdin: a.stdin.clone().into_bytes(),
            timeout_ms: a.timeout_ms,
            max_output: 0,
            extra: None,
        };
        match child_process::spawn(&command) {
            Ok(child) => children.push(child),
            Err(error) => said.push(failure(&error)),
        }
    }
    children
}

fn take(child: &Child, step: &Step) -> String {
    match step {
        Step::Write(text, times, ms) => {
            let mut written = 0;
            for _ in 0..*times {
                match child.write(text.as_bytes(), *ms) {
                    Ok(0) => break,
                    Ok(bytes) => written += u64::from(bytes),
                    Err(error) => return failure(&error),
                }
            }
            format!("wrote {written}")
        }
        Step::CloseStdin => {
            child.close_stdin();
            "closed".to_owned()
        }
        Step::Read(limit, ms) => read(child, OutputStream::Stdout, *limit, *ms),
        Step::ReadStderr(limit, ms) => read(child, OutputStream::Stderr, *limit, *ms),
        Step::Drain => {
            let mut bytes = 0;
            loop {
                match child.read(OutputStream::Stdout, 1 << 20, 60_000) {
                    Ok(ReadResult::Data(data)) => bytes += data.len(),
                    Ok(_) => return format!("drained {bytes}"),
                    Err(error) => return failure(&error),
                }
            }
        }
        Step::Wait(ms) => match child.wait(*ms) {
            Ok(Some(exit)) => format!("exit {:?} {:?}", exit.code, exit.signal),
            Ok(None) => "runs".to_owned(),
            Err(error) => failure(&error),
        },
        Step::Kill => {
            child.kill();
            "killed".to_owned()
        }
    }
}

fn read(child: &Child, source: OutputStream, limit: u32, ms: u32) -> String {
    match child.read(source, limit, ms) {
        Ok(ReadResult::Data(data)) => format!("read {}", String::from_utf8_lossy(&data).trim_end()),
        Ok(ReadResult::End) => "end".to_owned(),
        Ok(ReadResult::TimedOut) => "nothing".to_owned(),
        Err(error) => failure(&error),
    }
}

fn failure(error: &(impl Debug + ?Sized)) -> String {
    format!("error {error:?}")
}
