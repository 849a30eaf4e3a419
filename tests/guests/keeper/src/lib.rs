//! Runs scripts of operations on stored values, secrets and settings. The answer has one line for each step.

use pinion_plugin_sdk::child_process::{self, Child, OutputStream, ReadResult};
use pinion_plugin_sdk::http::Request;
use pinion_plugin_sdk::log::{self, Level};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Captured, Variable};
use pinion_plugin_sdk::storage::{self, Scope, StorageError};
use pinion_plugin_sdk::{current_config, progress, secrets, settings};
use std::cell::RefCell;

#[derive(Deserialize, JsonSchema)]
struct Script {
    steps: Vec<Vec<String>>,
}

thread_local! {
    /// The answer of a write in `init`.
    static IN_INIT: RefCell<String> = RefCell::default();
}

struct Keeper;

impl Plugin for Keeper {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("keep", "Runs a script.", |a: Script, _: &Call| run(&a)),
            Tool::new("keep_running", "Runs a script that runs programs.", |a: Script, _: &Call| run(&a)).executes(),
            Tool::new("keep_sending", "Runs a script that sends requests.", |a: Script, _: &Call| run(&a)).network(),
        ]
    }

    fn commands() -> Vec<Command> {
        let keep = |typed: &str, _: &Call| {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            Ok(vec![Action::Print(line(&words))])
        };
        let complete = |typed: &str| {
            let steps =
                [vec!["get", "plugin", typed], vec!["set", "plugin", typed, "x"], vec!["get", "session", typed]];
            let steps = steps.map(|step| step.into_iter().map(str::to_owned).collect::<Vec<_>>());
            steps.iter().map(|step| Completion { value: line(step), description: None }).collect()
        };
        vec![Command::new("keep", "Runs one step.", keep).complete(complete)]
    }

    fn init() -> Result<(), String> {
        let answer = line(&["set".to_owned(), "plugin".to_owned(), "init".to_owned(), "x".to_owned()]);
        IN_INIT.set(answer);
        Ok(())
    }
}

fn run(script: &Script) -> Result<String, Error> {
    Ok(script.steps.iter().map(|step| line(step)).collect::<Vec<_>>().join("\n"))
}

fn line(step: &[String]) -> String {
    let step: Vec<&str> = step.iter().map(String::as_str).collect();
    match answer(&step) {
        Ok(text) => format!("ok {text}").replace('\n', "⏎"),
        Err(text) => format!("err {text}").replace('\n', "⏎"),
    }
}

fn answer(step: &[&str]) -> Result<String, String> {
    match step {
        ["get", scope, key] => {
            let stored = storage::get(of(scope), key).map_err(shown)?;
            Ok(stored.map_or("none".to_owned(), |stored| String::from_utf8_lossy(&stored.value).into_owned()))
        }
        ["version", scope, key] => {
            let stored = storage::get(of(scope), key).map_err(shown)?;
            Ok(stored.map_or("none".to_owned(), |stored| stored.version.to_string()))
        }
        ["set", scope, key, value] => storage::set(of(scope), key, value.as_bytes()).map(text).map_err(shown),
        ["set-bytes", scope, key, count] => {
            storage::set(of(scope), key, &vec![7; number(count)]).map(text).map_err(shown)
        }
        ["replace", scope, key, version, value] => {
            storage::replace(of(scope), key, version.parse().ok(), value.as_bytes()).map(text).map_err(shown)
        }
        ["remove", scope, key] => storage::remove(of(scope), key).map(|()| String::new()).map_err(shown),
        ["keys", scope, prefix, after, limit] => {
            let after = Some(*after).filter(|after| !after.is_empty());
            let limit = limit.parse().unwrap_or(u32::MAX);
            storage::keys(of(scope), prefix, after, limit).map(|keys| keys.join(",")).map_err(shown)
        }
        // Writes values until one is refused.
        ["fill", scope, prefix, size] => {
            let value = vec![7; number(size)];
            let mut written = 0;
            loop {
                match storage::set(of(scope), &format!("{prefix}{written}"), &value) {
                    Ok(_) => written += 1,
                    Err(error) => return Ok(format!("{written} {}", shown(error))),
                }
            }
        }
        ["increment", scope, key, times] => {
            for _ in 0..number(times) {
                let added = storage::update(of(scope), key, |value: &mut u32| {
                    *value += 1;
                    Ok(())
                });
                added.map_err(|error| format!("{error:?}"))?;
            }
            Ok(String::new())
        }
        ["init"] => Ok(IN_INIT.with_borrow(Clone::clone)),
        ["has", name] => Ok(secrets::has(name).to_string()),
        ["settings"] => Ok(settings::current()),
        // Reports progress, then waits until the settings change.
        ["await-settings"] => {
            let before = settings::current();
            progress::report("waiting");
            loop {
                let now = settings::current();
                if now != before {
                    return Ok(now);
                }
            }
        }
        ["config"] => current_config::<Value>().map(|value| value.to_string()),
        // Runs a shell command with a secret in TOKEN.
        ["run", secret, command] => program(command, secret, 64 * 1024),
        ["run-long", secret, command] => program(command, secret, 64),
        // Talks to a shell command with a secret in TOKEN.
        ["talk", secret, command] => talk(&with_secret(command, secret, 0)),
        // Sends a request with a secret.
        ["send", secret, url] => match Request::get(*url).credential(*secret).send() {
            Ok(response) => {
                let body = String::from_utf8_lossy(&response.body);
                let seen = format!("{} {:?} {} {body}", response.status, response.headers, response.url);
                Ok(hidden(&seen))
            }
            Err(error) => Err(hidden(&format!("{error:?}"))),
        },
        // Puts the answer of a step everywhere.
        ["spread", step @ ..] => {
            let answer = answer(step);
            let text = answer.clone().unwrap_or_else(|error| error);
            progress::report(&text);
            progress::update(&[progress::Content::Text(text.clone())]);
            for level in [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error] {
                log::log(level, &text);
            }
            for scope in [Scope::Plugin, Scope::Workspace, Scope::Session] {
                storage::set(scope, "spread", text.as_bytes()).map_err(shown)?;
            }
            eprintln!("{text}");
            answer
        }
        _ => Err(format!("unknown step: {step:?}")),
    }
}

/// Returns everything that the plugin sees of a program.
fn program(command: &str, secret: &str, max_output: u32) -> Result<String, String> {
    let output = process::run(&with_secret(command, secret, max_output)).map_err(|error| error.to_string())?;
    let all = |captured: Captured| {
        hidden(&(String::from_utf8_lossy(&captured.head).into_owned() + &String::from_utf8_lossy(&captured.tail)))
    };
    let spilled = output.spilled_to.unwrap_or_default();
    Ok(format!("{} | {} | {spilled}", all(output.stdout), all(output.stderr)))
}

/// Returns everything that the plugin sees of a program while it runs, read in small pieces.
fn talk(command: &process::Command) -> Result<String, String> {
    let child = child_process::spawn(command).map_err(|error| error.to_string())?;
    let all = |source| heard(&child, source).map(|bytes| hidden(&String::from_utf8_lossy(&bytes)));
    Ok(format!("{} | {}", all(OutputStream::Stdout)?, all(OutputStream::Stderr)?))
}

fn heard(child: &Child, source: OutputStream) -> Result<Vec<u8>, String> {
    let mut heard = Vec::new();
    loop {
        match child.read(source, 3, 30_000).map_err(|error| error.to_string())? {
            ReadResult::Data(bytes) => heard.extend(bytes),
            ReadResult::End => return Ok(heard),
            ReadResult::TimedOut => return Err("nothing more was said".to_owned()),
        }
    }
}

/// Returns a text in a form that no redaction recognizes.
fn hidden(text: &str) -> String {
    text.chars().flat_map(|character| [character, '.']).collect()
}

fn with_secret(command: &str, secret: &str, max_output: u32) -> process::Command {
    process::Command {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), command.to_owned()],
        environment: vec![("TOKEN".to_owned(), Variable::Secret(secret.to_owned()))],
        max_output,
        ..process_defaults()
    }
}

fn process_defaults() -> process::Command {
    process::Command {
        program: String::new(),
        args: Vec::new(),
        working_directory: None,
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout_ms: None,
        max_output: 0,
        extra: None,
    }
}

fn of(scope: &str) -> Scope {
    match scope {
        "plugin" => Scope::Plugin,
        "workspace" => Scope::Workspace,
        _ => Scope::Session,
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or(0)
}

fn text(version: u32) -> String {
    version.to_string()
}

fn shown(error: StorageError) -> String {
    match error {
        StorageError::Denied(text) => format!("denied: {text}"),
        StorageError::Invalid(text) => format!("invalid: {text}"),
        StorageError::QuotaExceeded(left) => format!("quota: {left}"),
        StorageError::Changed => "changed".to_owned(),
        StorageError::Io(text) => format!("io: {text}"),
    }
}

export!(Keeper, exports = [tools, commands, lifecycle], asks = { "storage": true, "secrets": true, "process": true, "http": true });
