//! {{title}}

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The file, relative to the workspace.
    path: String,
}

struct Plug;

impl Plugin for Plug {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("{{tool}}", "{{example}}ounts the words of a file.", count).reads()]
    }

    fn commands() -> Vec<Command> {
        vec![Command::new("{{name}}", "Ask for the number of words in a file", ask).argument("<file>")]
    }
}

fn count(input: Input, call: &Call) -> Result<String> {
    let text = std::fs::read_to_string(call.path(&input.path)?)?;
    Ok(format!("{} words", text.split_whitespace().count()))
}

fn ask(input: &str, _call: &Call) -> Result<Vec<Action>, String> {
    Ok(vec![Action::Submit(format!("Count the words in {input}."))])
}

export!(Plug, exports = [tools, commands], asks = { "files": "read" }, lifetime = "reused");
