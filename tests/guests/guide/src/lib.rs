//! The snippets of `docs/plugins` in Rust. A test compares them.

mod clients;
mod guards;
mod people;
mod programs;
mod servers;
mod thinking;

use pinion_plugin_sdk::current_config;
use pinion_plugin_sdk::prelude::*;

struct Guide;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Plugin for Guide {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("count_lines", "Counts the lines of a text file.", count_lines).reads(),
            Tool::new("first_cell", "Reads a cell of the first line of a CSV file.", first_cell).reads(),
            Tool::new("latest_release", "Returns the latest release of a repository.", servers::latest_release)
                .network(),
            Tool::new("remember", "Keeps a fact for later sessions.", servers::remember),
            Tool::new("run_tests", "Runs the tests.", programs::run_tests).executes(),
            Tool::new("sorted", "Sorts lines with `sort`.", programs::sorted).executes(),
            Tool::new("release", "Publishes a release.", people::release),
            Tool::new("coverage", "Shows the coverage of each file.", people::coverage),
            Tool::new("count_todos", "Counts the lines with TODO.", thinking::count_todos).reads(),
            Tool::new("classify", "Classifies an error message.", thinking::classify).delegates(),
            Tool::new("review", "Lets a sub-agent review a file.", thinking::review).reads().delegates(),
            Tool::new("milestone", "Marks a milestone.", thinking::milestone),
            Tool::new("introduce", "Introduces the user.", clients::introduce),
            clients::handbook(),
        ]
    }

    fn commands() -> Vec<Command> {
        vec![count_command()]
    }

    fn init() -> Result<(), String> {
        config::<Settings>().map(drop)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Lines {
    /// The file, relative to the workspace.
    path: String,
    /// Count only lines with this text.
    text: Option<String>,
}

fn count_lines(input: Lines, call: &Call) -> Result<Output> {
    let content = std::fs::read_to_string(call.path(&input.path)?)?;
    let mut count = 0;
    for (number, line) in content.lines().enumerate() {
        if number % 100_000 == 0 {
            call.check()?; // Fails once the call is cancelled.
            call.progress(&format!("line {number}"));
        }
        count += u32::from(input.text.as_ref().is_none_or(|text| line.contains(text)));
    }
    Ok(Output::text(format!("{count} lines")).details(json!({ "lines": count })))
}

#[derive(Deserialize, JsonSchema)]
struct Cell {
    path: String,
    column: usize,
}

fn first_cell(input: Cell, call: &Call) -> Result<String> {
    let content = std::fs::read_to_string(call.path(&input.path)?)
        .map_err(|error| Error::from(error).context(format!("`{}`", input.path)))?;
    let cells: Vec<&str> = content.lines().next().unwrap_or_default().split(',').collect();
    let cell = cells.get(input.column).ok_or_else(|| {
        Error::invalid_input(format!("no column {}: the file has {} columns, from 0", input.column, cells.len()))
    })?;
    Ok((*cell).to_owned())
}

fn count_command() -> Command {
    Command::new("count", "Count the lines of a file", |typed, _call| {
        Ok(vec![Action::Submit(format!("Count the lines of {typed} with count_lines."))])
    })
    .argument("<file>")
    .complete(|typed| {
        let names = std::fs::read_dir(".").into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(typed)).map(|value| Completion { value, description: None }).collect()
    })
}

/// The section `[plugins.NAME.config]` of the user's config.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    repository: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { repository: "rust-lang/rust".to_owned() }
    }
}

fn repository() -> Result<String> {
    let settings: Settings = current_config().map_err(Error::failed)?;
    Ok(settings.repository)
}

export!(
    Guide,
    exports = [tools, commands, lifecycle, before_tool_call, after_tool_call, before_prompt, before_compaction],
    asks = {
        "files": "read",
        "process": true,
        "http": ["https://api.github.com"],
        "secrets": true,
        "storage": true,
        "ui": true,
        "invoke": true,
        "model": true,
        "session": "write",
        "agents": true,
        "hooks": true
    },
    limits = { "memory-bytes": 536870912 }
);
