//! The built-in tool `bash`: runs a shell command through the host's `process`.
//!
//! This crate decides the time limit and how much of the output the model sees ([`report`]). The host decides which commands
//! run, confines and kills the program, and bounds its output.

mod config;
mod report;
mod streams;

use config::Config;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Command as Program, Output as Ran, ProcessError, Variable};
use report::Ending;

/// Variables that keep programs from waiting for input or for an editor, and from printing colours. Git keeps the message that it
/// would have an editor change.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
];
/// Maximum bytes of a command that is passed as an argument; Linux allows 128 KiB.
const ARGUMENT: usize = 120 * 1024;
/// Runs the command on standard input, which the command then cannot read.
const RUN_INPUT: &str = "eval \"$(cat)\" < /dev/null";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    /// Seconds; default 120.
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// Working directory; default: the workspace.
    cwd: Option<String>,
}

/// The plugin.
pub struct Shell;

impl Plugin for Shell {
    fn tools() -> Vec<Tool> {
        let description = "Runs a command in bash. Each call starts a new shell in the workspace, without a terminal; \
                           processes left running are killed. Long output is cut in the middle.";
        // Sequential because the commands of one message often build on each other: make, then run.
        vec![
            Tool::new("bash", description, bash)
                .executes()
                .destructive()
                .sequential()
                .guideline("Use bash for builds, tests, version control and other programs."),
        ]
    }

    fn init() -> Result<(), String> {
        Config::read().map(drop)
    }
}

// The deadline covers the longest command that the default config allows, plus the report.
export!(
    Shell,
    exports = [tools, lifecycle],
    asks = { "process": true },
    limits = { "deadline-ms": 610000 },
);

fn bash(arguments: Arguments, call: &Call) -> Result<Output> {
    let config = Config::read().map_err(Error::failed)?;
    if arguments.command.trim().is_empty() {
        return Err(Error::invalid_input("the command is empty"));
    }
    call.check()?;
    let timeout_ms = config.timeout_ms(arguments.timeout, call.deadline_ms());
    let (ran, ending) = run(&arguments, timeout_ms)?;
    Ok(report::output(&ran, ending))
}

fn run(arguments: &Arguments, timeout_ms: u32) -> Result<(Ran, Ending)> {
    let mut program = program("bash", arguments, timeout_ms);
    let mut ended = process::run(&program);
    if let Err(ProcessError::NotFound(_)) = ended {
        program.program = "sh".to_owned();
        ended = process::run(&program);
    }
    match ended {
        Ok(ran) => Ok((ran, Ending::Exited)),
        Err(ProcessError::TimedOut(ran)) => Ok((ran, Ending::TimedOut { after_ms: timeout_ms.into() })),
        Err(ProcessError::Cancelled(ran)) => Ok((ran, Ending::Cancelled)),
        Err(error) => Err(error.into()),
    }
}

fn program(name: &str, arguments: &Arguments, timeout_ms: u32) -> Program {
    let (command, stdin) = match arguments.command.len() {
        0..=ARGUMENT => (arguments.command.as_str(), ""),
        _ => (RUN_INPUT, arguments.command.as_str()),
    };
    Program {
        program: name.to_owned(),
        args: vec!["-c".to_owned(), command.to_owned()],
        working_directory: arguments.cwd.clone(),
        environment: ENVIRONMENT.map(|(name, value)| (name.to_owned(), Variable::Text(value.to_owned()))).to_vec(),
        stdin: stdin.into(),
        timeout_ms: Some(timeout_ms),
        max_output: streams::BYTES as u32,
        extra: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    #[test]
    fn definition_stays_short() {
        let tool = testing::tools::<Shell>().remove(0);
        let bytes = tool.name.len() + tool.description.len() + tool.input_schema.len();
        assert!(bytes / 4 < 250, "{bytes} bytes");
    }

    #[test]
    fn empty_command_is_rejected() {
        let error = testing::call_tool::<Shell>("bash", json!({ "command": " \n" })).unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)));
    }

    #[test]
    fn cancelled_call_runs_nothing() {
        testing::cancel_after(0);
        let error = testing::call_tool::<Shell>("bash", json!({ "command": "true" })).unwrap_err();
        assert_eq!(error, Error::Cancelled);
    }

    #[test]
    fn command_runs_in_bash() {
        let arguments = Arguments { command: "make".into(), timeout: None, cwd: Some("src".into()) };
        let program = program("bash", &arguments, 5_000);
        assert_eq!((program.program.as_str(), program.args), ("bash", vec!["-c".into(), "make".into()]));
        assert_eq!((program.working_directory, program.timeout_ms), (Some("src".into()), Some(5_000)));
        assert!(program.stdin.is_empty());
    }

    #[test]
    fn command_that_is_too_long_for_an_argument_runs_from_the_input() {
        let text = "x".repeat(300_000);
        let command = format!("cat; printf %s '{text}' | wc -c; exit 7 # {text}");
        let arguments = Arguments { command: command.clone(), timeout: None, cwd: None };
        let program = program("bash", &arguments, 5_000);
        assert_eq!((program.args[1].as_str(), program.stdin.len()), (RUN_INPUT, command.len()));
        for shell in ["bash", "sh"] {
            let mut child = std::process::Command::new(shell)
                .args(&program.args)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), &program.stdin).unwrap();
            let ran = child.wait_with_output().unwrap();
            assert_eq!(
                (ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim()),
                (Some(7), "300000"),
                "{shell}"
            );
        }
    }
}
