//! Offers other tools and commands while it runs: the ones in its config at first, then the ones that a call sets.
//!
//! Every tool follows its input, under any name.

mod child;

use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands as wit_commands;
use pinion_plugin_sdk::bindings::imports::pinion::plugin::types;
use pinion_plugin_sdk::bindings::offers::exports::pinion::plugin::offers as wit_offers;
use pinion_plugin_sdk::bindings::tools::exports::pinion::plugin::tools as wit_tools;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{offers_host, serde_json, workspace};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The tool that a plugin without an offer has, which takes any input.
const STEER: &str = r#"{"type":"object"}"#;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    /// The tools of `list-tools`, besides `steer`.
    tools: Vec<Listed>,
    /// The commands of `list-commands`.
    commands: Vec<Listed>,
    /// The first offer.
    offer: Offer,
}

/// The answer of `offers.list`.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Offer {
    tools: Vec<Listed>,
    commands: Vec<Listed>,
    instructions: Option<String>,
    /// Further tools, with names made of numbers.
    more: u32,
    /// Leaves out `steer`.
    alone: bool,
    /// One of `ok`, `hang`, `trap`, `fail`, `signal`.
    mode: String,
    /// A file of the workspace that the list writes first.
    touch: Option<String>,
    /// Lists nothing before this file of the workspace exists.
    wait_for: Option<String>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Listed {
    name: String,
    description: String,
    schema: Option<String>,
    effects: Vec<String>,
}

/// The input of every tool.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Input {
    /// The offer from now on.
    offer: Option<Offer>,
    /// Signs of a change.
    changed: u32,
    /// A file of the workspace to write.
    write: Option<String>,
    /// A file of the workspace to wait for.
    wait_for: Option<String>,
    trap: bool,
    /// Steps for programs.
    child: Option<child::Steps>,
}

static OFFER: Mutex<Option<Offer>> = Mutex::new(None);
static LISTS: AtomicU32 = AtomicU32::new(0);

struct Bridge;

impl Plugin for Bridge {}

struct Lists;

fn settings() -> Config {
    config().unwrap_or_default()
}

fn steer() -> Listed {
    let effects = ["reads", "writes", "executes"].map(str::to_owned).to_vec();
    Listed { name: "steer".into(), effects, ..Listed::default() }
}

fn tool(listed: Listed) -> types::ToolDefinition {
    let effect = |name: &String| match name.as_str() {
        "reads" => types::Effects::READS,
        "writes" => types::Effects::WRITES,
        "executes" => types::Effects::EXECUTES,
        "network" => types::Effects::NETWORK,
        "destructive" => types::Effects::DESTRUCTIVE,
        _ => types::Effects::DELEGATES,
    };
    types::ToolDefinition {
        label: listed.name.replace('_', " "),
        name: listed.name,
        description: listed.description,
        input_schema: listed.schema.unwrap_or_else(|| STEER.to_owned()),
        guidelines: Vec::new(),
        effects: listed.effects.iter().map(effect).collect(),
        execution: types::Execution::Parallel,
        extra: None,
    }
}

fn command(listed: Listed) -> types::CommandDefinition {
    types::CommandDefinition { name: listed.name, description: listed.description, argument_hint: None, extra: None }
}

/// Waits for a file of the test.
fn wait_for(file: &str) {
    // The contract has no event for files; a guest can only look again.
    while workspace::read_text(file).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

impl wit_offers::Guest for Lists {
    fn list() -> Result<wit_offers::Offer, String> {
        LISTS.fetch_add(1, Ordering::Relaxed);
        let offer = OFFER.lock().unwrap().clone().unwrap_or_else(|| settings().offer);
        if let Some(file) = &offer.touch {
            workspace::replace_file(file, b"listed").map_err(|error| format!("{error:?}"))?;
        }
        offer.wait_for.as_deref().into_iter().for_each(wait_for);
        match offer.mode.as_str() {
            "hang" => loop {
                std::hint::spin_loop();
            },
            "trap" => panic!("as planned"),
            "fail" => return Err("the server is down".to_owned()),
            "signal" => offers_host::changed(),
            _ => {}
        }
        let more = (0..offer.more).map(|n| Listed { name: format!("more{n}"), ..Listed::default() });
        let steer = (!offer.alone).then(steer);
        Ok(wit_offers::Offer {
            tools: steer.into_iter().chain(offer.tools).chain(more).map(tool).collect(),
            commands: offer.commands.into_iter().map(command).collect(),
            instructions: offer.instructions,
        })
    }
}

impl wit_tools::Guest for Lists {
    fn list_tools() -> Result<Vec<types::ToolDefinition>, String> {
        let config = settings();
        // A plugin with tools in its config shows only these.
        let steer = config.tools.is_empty().then(steer);
        Ok(steer.into_iter().chain(config.tools).map(tool).collect())
    }

    fn call_tool(_: types::CallContext, name: String, input: String) -> Result<types::ToolOutput, types::ToolError> {
        let input: Input = serde_json::from_str(&input).map_err(Error::invalid_input)?;
        if let Some(offer) = input.offer {
            *OFFER.lock().unwrap() = Some(offer);
        }
        (0..input.changed).for_each(|_| offers_host::changed());
        input.wait_for.as_deref().into_iter().for_each(wait_for);
        if let Some(file) = &input.write {
            workspace::replace_file(file, name.as_bytes()).map_err(Error::failed)?;
        }
        let said = match input.child {
            Some(steps) => child::run(steps),
            None => format!("{name} after {} lists", LISTS.load(Ordering::Relaxed)),
        };
        if input.trap {
            panic!("as planned");
        }
        Ok(types::ToolOutput {
            content: vec![types::Content::Text(said)],
            details: None,
            display: types::Display::Plain,
            extra: None,
        })
    }
}

impl wit_commands::Guest for Lists {
    fn list_commands() -> Result<Vec<types::CommandDefinition>, String> {
        Ok(settings().commands.into_iter().map(command).collect())
    }

    fn complete_argument(_: String, _: String) -> Vec<wit_commands::Completion> {
        Vec::new()
    }

    fn run_command(_: types::CallContext, name: String, input: String) -> Result<Vec<wit_commands::Action>, String> {
        if !input.is_empty() {
            workspace::replace_file(&input, name.as_bytes()).map_err(|error| format!("{error:?}"))?;
        }
        Ok(vec![wit_commands::Action::Print(name)])
    }
}

#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::tools::__export_tools!(Lists with_types_in pinion_plugin_sdk::bindings::tools);
#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::commands::__export_commands!(Lists with_types_in pinion_plugin_sdk::bindings::commands);
#[cfg(target_arch = "wasm32")]
pinion_plugin_sdk::bindings::offers::__export_offers!(Lists with_types_in pinion_plugin_sdk::bindings::offers);
export!(Bridge, exports = [lifecycle], asks = { "files": "write", "process": true }, lifetime = "session");
