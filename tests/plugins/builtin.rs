//! The built-in plugins as shipped, in the real runtime.

#[path = "builtin/commands.rs"]
mod commands;
#[path = "builtin/edit.rs"]
mod edit;
#[path = "builtin/escapes.rs"]
mod escapes;
#[path = "builtin/find.rs"]
mod find;
#[path = "builtin/read.rs"]
mod read;
#[path = "builtin/shell.rs"]
mod shell;
#[path = "builtin/web.rs"]
mod web;

use pinion_agent::tool::ToolOutput;
use pinion_tests::{Sandbox, SandboxBuilder, builtin};
use serde_json::Value;

/// A sandbox with these built-in plugins, each with the grants that it requests.
async fn with(names: &[&str]) -> Sandbox {
    let builder = SandboxBuilder::default();
    let sandbox = names.iter().fold(builder, |b, name| b.file(builtin(name)).trust(name).catalog(name)).build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    sandbox
}

/// Calls a tool and returns its text and details.
async fn called(sandbox: &Sandbox, tool: &str, arguments: Value) -> (String, Value) {
    text_and_details(sandbox.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}")))
}

fn text_and_details(output: ToolOutput) -> (String, Value) {
    let text = output.content.iter().filter_map(|content| content.as_text()).collect();
    (text, output.details.expect("details"))
}
