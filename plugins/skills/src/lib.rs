//! The built-in skills: instructions for particular tasks, which the model reads when it needs them.
//!
//! The host finds the directories of skills and grants them for reading. This crate reads their `SKILL.md` files, lists
//! names and descriptions in the system prompt, and hands out instructions: to the model with the tool `skill`, and with a
//! message of the user with the command `/skill`. Skills of a repository are untrusted text, like its `AGENTS.md`. Prompts that
//! the user wrote down become commands of their own.

mod front_matter;
mod prompts;
mod skill;

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{Offer, current_config, log};
use skill::{Found, Skill, line};
use std::fmt::Write as _;

/// Bytes of the list of skills in the prompt; the host accepts 8 KiB.
const MAX_LIST: usize = 7 * 1024;
/// Bytes of a description in the prompt.
const MAX_DESCRIPTION: usize = 400;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The name of the skill.
    name: String,
    /// A file that the skill mentions, relative to its directory. Without it, its instructions are returned.
    file: Option<String>,
}

/// The plugin.
pub struct Skills;

impl Plugin for Skills {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("skill", "Returns the instructions of a skill, or one of its files.", instructions)
                .label("skill")
                .reads(),
        ]
    }

    fn commands() -> Vec<Command> {
        let mut commands = vec![
            Command::new("skill", "Use a skill for a request, or list skills", use_skill)
                .argument("[name] [request]")
                .complete(|typed| {
                    let skills = skills().unwrap_or_default();
                    let fitting = skills.into_iter().filter(|skill| skill.name.starts_with(typed));
                    let completion = |skill: Skill| Completion {
                        value: skill.name,
                        description: Some(line(&skill.description, MAX_DESCRIPTION)),
                    };
                    fitting.map(completion).collect()
                }),
        ];
        commands.extend(prompts::commands());
        commands
    }

    fn offer() -> Result<Offer, String> {
        let (skills, problems) = read_skills()?;
        problems.iter().for_each(|problem| log::log(log::Level::Warn, problem));
        // For the files of a skill that the user starts, too.
        let tools = if skills.is_empty() { Vec::new() } else { Self::tools() };
        let listed = listed(&for_model(&skills));
        Ok(Offer { tools, commands: Self::commands(), instructions: listed })
    }
}

export!(Skills, exports = [tools, commands, offers], asks = { "files": "read" });

/// The settings that the host makes.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    /// The skills in the order in which they win their names.
    skills: Vec<Found>,
}

/// Returns the skills that can be used.
fn skills() -> Result<Vec<Skill>, String> {
    Ok(read_skills()?.0)
}

/// Reads the skills. Also returns a line for each one that cannot be used; the offer logs them, so that calls do not repeat
/// them.
fn read_skills() -> Result<(Vec<Skill>, Vec<String>), String> {
    let Settings { skills: found } = current_config()?;
    let (mut skills, mut problems): (Vec<Skill>, _) = (Vec::new(), Vec::new());
    for found in &found {
        match Skill::read(found) {
            Ok(skill) if skills.iter().any(|known| known.name == skill.name) => {}
            Ok(skill) => skills.push(skill),
            Err(problem) => {
                problems.push(format!("the skill in `{}` is not used: {problem}", line(&found.directory, 200)));
            }
        }
    }
    Ok((skills, problems))
}

/// Returns the skills that the model may start.
fn for_model(skills: &[Skill]) -> Vec<&Skill> {
    skills.iter().filter(|skill| !skill.is_for_user_only).collect()
}

/// Returns the text for the system prompt; `None` without skills.
fn listed(skills: &[&Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut text =
        "Skills are instructions for particular tasks. Before you begin a task that one of them is for, call \
                    `skill` with its name, and follow what it says as far as it serves the user's request:"
            .to_owned();
    for (at, skill) in skills.iter().enumerate() {
        let origin = if skill.is_users { "" } else { " (of this repository)" };
        let entry = format!("\n- {}{origin}: {}", skill.name, line(&skill.description, MAX_DESCRIPTION));
        if text.len() + entry.len() > MAX_LIST {
            // Writing to a string does not fail.
            let _ = write!(text, "\n- {} more, which `/skill` lists for the user", skills.len() - at);
            break;
        }
        text.push_str(&entry);
    }
    Some(text)
}

/// Returns the skill with a name.
fn named(name: &str) -> Result<Skill, String> {
    let name = name.trim();
    let skills = skills()?;
    let names: Vec<&str> = for_model(&skills).iter().map(|skill| skill.name.as_str()).collect();
    let unknown = match names.is_empty() {
        true => format!("there is no skill `{}`; there are none", line(name, 80)),
        false => format!("there is no skill `{}`; the skills are: {}", line(name, 80), names.join(", ")),
    };
    skills.into_iter().find(|skill| skill.name == name).ok_or(unknown)
}

fn instructions(arguments: Arguments, _call: &Call) -> Result<String> {
    let skill = named(&arguments.name).map_err(Error::NotFound)?;
    match &arguments.file {
        Some(file) => skill.file(file),
        None if skill.is_for_user_only => {
            let name = &skill.name;
            Err(Error::Denied(format!("only the user starts the skill `{name}`, with `/skill:{name}`")))
        }
        None => skill.instructions(),
    }
}

/// Sends a request together with the instructions of a skill.
fn use_skill(typed: &str, _call: &Call) -> Result<Vec<Action>, String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Ok(vec![Action::Print(table(&skills()?))]);
    }
    let (name, request) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let skill = named(name)?;
    let instructions = skill.instructions().map_err(|error| match error {
        Error::InvalidInput(text) | Error::NotFound(text) | Error::Denied(text) => text,
        Error::Failed { message, .. } => message,
        Error::Cancelled => "cancelled".to_owned(),
    })?;
    let request = match request.trim() {
        "" => "Follow these instructions.".to_owned(),
        request => request.to_owned(),
    };
    Ok(vec![Action::Submit(format!("{instructions}\n\n{request}"))])
}

fn table(skills: &[Skill]) -> String {
    if skills.is_empty() {
        return "There are no skills. A skill is a directory with a `SKILL.md`, in `.agents/skills` of the project or of your \
                home directory."
            .to_owned();
    }
    let row = |skill: &Skill| {
        let origin = if skill.is_users { "" } else { " (of this repository)" };
        format!("- `/skill:{}`{origin}: {}\n", skill.name, line(&skill.description, MAX_DESCRIPTION))
    };
    skills.iter().map(row).collect()
}
