//! A conversation, line by line: `cargo run --release -p pinion-examples --bin repl [-- --model PROVIDER/MODEL]`.
//!
//! The smallest program around an [`Agent`]: no tools, one conversation, streamed replies.

use clap::Parser;
use pinion_agent::delegation::FoundModel;
use pinion_agent::provider::Request;
use pinion_agent::{Agent, Content, Context, LoopConfig, Message, NoTools};
use pinion_examples::{ModelArgs, Offline, Result, exit, find_model, lines, print, run_shown};
use pinion_providers::ScriptedReply;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

const HELP: &str = "Type a message, /clear to start over, /model PROVIDER/MODEL to switch, /quit to end. \
                    Ctrl-C interrupts a reply.\n";

/// Talk to a model
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(converse(Args::parse()).await)
}

async fn converse(args: Args) -> Result<()> {
    let FoundModel { provider, model } = match &args.model.model {
        Some(name) => find_model(name)?,
        None => Offline::model(echo),
    };
    let config = LoopConfig::new(provider, model, Arc::new(NoTools));
    let agent = Agent::new(config, Context::new("You talk with the user. Be brief.", "conversation"));
    let (help, prompt) = if std::io::stdin().is_terminal() { (HELP, "> ") } else { ("", "") };
    print(help)?;
    let mut lines = lines();
    loop {
        print(prompt)?;
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(line) = line else { return Ok(()) };
        let (command, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match command {
            "" => {}
            "/quit" => return Ok(()),
            "/clear" => {
                let prompt = agent.snapshot()?.system_prompt;
                agent.reset(Context::new(prompt, "conversation")).await;
                print("[a new conversation]\n")?;
            }
            "/model" => print(&change_model(&agent, rest.trim()))?,
            command if command.starts_with('/') => print(&format!("[there is no `{command}`] {HELP}"))?,
            _ => drop(run_shown(&agent, &line).await?),
        }
    }
}

/// Switches the model of the next run; the conversation stays.
fn change_model(agent: &Agent, name: &str) -> String {
    match find_model(name) {
        Ok(FoundModel { provider, model }) => {
            let changed = format!("[{}/{} from now on]\n", provider.name(), model.name);
            agent.configure(|config| (config.ports.provider, config.policy.model) = (provider, model));
            changed
        }
        Err(error) => format!("[{error}]\n"),
    }
}

/// A substitute for a model: repeats its input, a few letters at a time. On `wait` it blocks.
fn echo(request: &Request) -> ScriptedReply {
    let said: Vec<&str> = request.messages.iter().filter_map(|message| said_by_user(message)).collect();
    match said.last() {
        Some(&"wait") => ScriptedReply { hang: true, ..ScriptedReply::text("I wait until you press Ctrl-C.") },
        last => {
            let text = format!("You said `{}`, message {}.", last.unwrap_or(&""), said.len());
            ScriptedReply { chunk: 5, ..ScriptedReply::text(text) }
        }
    }
}

fn said_by_user(message: &Message) -> Option<&str> {
    match message {
        Message::User(message) => message.content.first().and_then(Content::as_text),
        _ => None,
    }
}
