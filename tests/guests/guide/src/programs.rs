//! Programs.

use crate::Nothing;
use pinion_plugin_sdk::child_process::{self, OutputStream, ReadResult};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Variable};

pub(crate) fn run_tests(_input: Nothing, _call: &Call) -> Result<Output> {
    let token = ("GITHUB_TOKEN".to_owned(), Variable::Secret("github".to_owned()));
    let output = process::run(&process::Command { environment: vec![token], ..command("cargo", &["test"]) })?;
    let result = Output::text(String::from_utf8_lossy(&output.stdout.head));
    Ok(if output.exit_code == Some(0) { result } else { result.failed() })
}

fn command(program: &str, arguments: &[&str]) -> process::Command {
    process::Command {
        program: program.to_owned(),
        args: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        working_directory: None, // The workspace.
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout_ms: Some(60_000),
        max_output: 64 * 1024,
        extra: None,
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    text: String,
}

pub(crate) fn sorted(input: Text, _call: &Call) -> Result<String> {
    let child = child_process::spawn(&command("sort", &[]))?;
    let mut rest = input.text.as_bytes();
    while !rest.is_empty() {
        let written = child.write(rest, 5_000)?;
        rest = &rest[written as usize..];
    }
    child.close_stdin();
    let mut sorted = Vec::new();
    loop {
        match child.read(OutputStream::Stdout, 64 * 1024, 5_000)? {
            ReadResult::Data(bytes) => sorted.extend(bytes),
            ReadResult::End => return Ok(String::from_utf8_lossy(&sorted).into_owned()),
            ReadResult::TimedOut => return Err(Error::failed("`sort` does not answer")),
        }
    }
}
