//! `/init`: has the agent write `AGENTS.md`.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("init", "Have the agent write AGENTS.md, or improve it", |typed, _call| {
        Ok(vec![Action::Submit(prompt(typed.trim()))])
    })
    .argument("[wishes]")
}

/// The task for the agent: the purpose of `AGENTS.md`, and ways to find what belongs in it.
const TASK: &str = "\
Write `AGENTS.md` in the root of this project: what a coding agent has to know to work here.

1. Read first: the README, the files of the build, of the linters and of continuous integration, and as much of the code as \
it takes to see how it is organised. Read an existing `AGENTS.md`, `CLAUDE.md` or similar file, and keep what is right in it.
2. Write down the commands to build, to check and to test, with the one for a single test; the structure, as far as names do not \
tell it; conventions and decisions that the code follows and that are easy to get wrong; and what not to touch.
3. Run the commands that are safe to run, so that only those that work are in the file.
4. Leave out what any reader sees at a glance, general advice, and lists of all files. At most 80 lines.";

/// Returns the task for the agent.
fn prompt(wishes: &str) -> String {
    match wishes {
        "" => TASK.to_owned(),
        wishes => format!("{TASK}\n\nThe user adds: {wishes}"),
    }
}
