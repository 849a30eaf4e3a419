//! The snippets of `docs/plugins` for plugins of lifetime `session`. A test compares them.

use pinion_plugin_sdk::hooks::SessionEvents;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{log, offers_host};
use std::sync::Mutex;

struct Board;

/// The names of the lists, which are tools.
static LISTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Plugin for Board {
    fn tools() -> Vec<Tool> {
        let lists = LISTS.lock().unwrap().clone();
        let of_list = |name: String| {
            let answer = format!("the list {name} is empty");
            Tool::new(format!("list_{name}"), "Shows a list.", move |_: Nothing, _: &Call| Ok(answer.clone()))
        };
        let mut tools = vec![Tool::new("new_list", "Creates a list, which becomes a tool.", new_list)];
        tools.extend(lists.into_iter().map(of_list));
        tools
    }

    fn instructions() -> Option<String> {
        Some("Create a list for each topic of a discussion.".to_owned())
    }
}

fn new_list(input: Name, _call: &Call) -> Result<String> {
    LISTS.lock().unwrap().push(input.name.clone());
    offers_host::changed(); // The host asks for the tools again.
    Ok(format!("created {}", input.name))
}

impl State for Board {
    fn save() -> Vec<u8> {
        LISTS.lock().unwrap().join("\n").into_bytes()
    }

    fn restore(saved: Vec<u8>, _from_version: &str) -> Result<(), String> {
        let text = String::from_utf8(saved).map_err(|error| error.to_string())?;
        *LISTS.lock().unwrap() = text.lines().map(str::to_owned).collect();
        Ok(())
    }
}

impl SessionEvents for Board {
    fn on_events(events: Vec<String>) {
        let failed = events.iter().filter(|event| event.contains(r#""is_error":true"#)).count();
        if failed > 0 {
            log::log(log::Level::Info, &format!("{failed} calls failed"));
        }
    }
}

export!(Board, exports = [tools, offers, state, session_events], asks = { "hooks": true }, lifetime = "session");
