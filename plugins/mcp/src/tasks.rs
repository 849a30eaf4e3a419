//! The tool for tasks: calls that servers still work on, or whose results wait there.

use crate::catalog::{self, TASKS};
use crate::{failed, result};
use listing::clean;
use pinion_plugin_sdk::mcp::{self, Server};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The server.
    server: String,
    /// The action on the task.
    action: Action,
    /// The task.
    task: String,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Wait for its result.
    Get,
    Cancel,
}

/// A task of a server.
#[derive(Deserialize)]
struct Task {
    id: String,
    tool: String,
}

/// The tool, for servers that have tasks. It says which, because they are few and short-lived.
pub(crate) fn tool(servers: &[Server]) -> Tool {
    let tasks: Vec<String> = catalog::usable(servers)
        .flat_map(|server| tasks(server).into_iter().map(move |task| (server, task)))
        .take(20)
        .map(|(server, Task { id, tool })| {
            let (server, tool) = (clean::line(&server.name, 64), clean::line(&tool, 128));
            format!("- {} of `{tool}` at `{server}`", clean::line(&json!(id).to_string(), 300))
        })
        .collect();
    let about = format!(
        "Fetches the results of earlier calls that MCP servers went on to work on, or cancels them:\n{}",
        tasks.join("\n")
    );
    Tool::new(TASKS, about, run).label("MCP tasks").executes().network().approved_by(&["server", "task"])
}

/// Returns whether a server has tasks.
pub(crate) fn has_any(server: &Server) -> bool {
    !tasks(server).is_empty()
}

fn tasks(server: &Server) -> Vec<Task> {
    #[derive(Deserialize)]
    struct Extra {
        #[serde(default)]
        tasks: Vec<Task>,
    }
    let extra = server.extra.as_deref().and_then(|extra| serde_json::from_str(extra).ok());
    extra.map(|Extra { tasks }| tasks).unwrap_or_default()
}

fn run(arguments: Arguments, _call: &Call) -> Result<Output> {
    let Arguments { server, action, task } = arguments;
    match action {
        Action::Get => {
            let result = mcp::follow_task(&server, &task).map_err(|error| failed(&server, error))?;
            Ok(result::of_tool(&result, &|text| mcp::keep(text)))
        }
        Action::Cancel => {
            mcp::cancel_task(&server, &task).map_err(|error| failed(&server, error))?;
            Ok("cancelled".into())
        }
    }
}
