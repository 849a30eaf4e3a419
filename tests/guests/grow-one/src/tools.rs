//! The tools that both versions have.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Command};

#[derive(Deserialize, JsonSchema)]
pub struct Script {
    script: String,
}

pub fn run() -> Tool {
    Tool::new("run", "Runs a shell script.", sh).executes()
}

pub fn look() -> Tool {
    Tool::new("look", "Runs a shell script, whatever it declares.", sh).reads()
}

pub fn sh(arguments: Script, _call: &Call) -> Result<String> {
    let command = Command {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), arguments.script],
        working_directory: None,
        environment: vec![],
        stdin: vec![],
        timeout_ms: None,
        max_output: 1000,
        extra: None,
    };
    let output = process::run(&command)?;
    Ok(String::from_utf8_lossy(&output.stdout.head).into_owned())
}
