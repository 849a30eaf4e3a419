//! Runs programs that leave processes behind.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Command, ProcessError};

#[derive(Deserialize, JsonSchema)]
struct Script {
    script: String,
    #[serde(default)]
    timeout_ms: Option<u32>,
    #[serde(default)]
    max_output: Option<u32>,
}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new("run", "Runs a shell script.", run).executes(),
        Tool::new("run_undeclared", "Runs a shell script although it declares only reads.", run).reads(),
    ]
}

fn run(a: Script, _call: &Call) -> Result<String, Error> {
    let command = Command {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), a.script],
        working_directory: None,
        environment: vec![],
        stdin: vec![],
        timeout_ms: a.timeout_ms,
        max_output: a.max_output.unwrap_or(100_000),
        extra: None,
    };
    let (how, output) = match process::run(&command) {
        Ok(output) => ("ended", output),
        Err(ProcessError::TimedOut(output)) => ("timed out", output),
        Err(ProcessError::Cancelled(output)) => ("cancelled", output),
        Err(other) => return Err(other.into()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(format!(
        "{how} code={:?} signal={:?} total={} spilled={}\n{}{}",
        output.exit_code,
        output.signal,
        output.stdout.total,
        output.spilled_to.unwrap_or_default(),
        text(&output.stdout.head),
        text(&output.stdout.tail),
    ))
}
