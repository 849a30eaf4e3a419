//! Sections of a system prompt and their owners.
//!
//! The application writes the headings that divide the prompt. Text of projects and plugins is quoted line by line there,
//! so it cannot contain one; a heading in the user's own files at worst names another owner.

use crate::owner::SegmentOwner;
use std::ops::Range;

/// The heading before the directory, the date and the system.
const SURROUNDINGS: &str = "# Surroundings";
/// The heading before the guidelines of tools and the instructions of plugins.
const TOOLS: &str = "# Tools";
const DATE: &str = "Date: ";
const SYSTEM: &str = "System: ";
const PROJECT_FILE: (&str, &str) = ("<project_instructions path=\"", "\">");
const PROJECT_FILE_END: &str = "</project_instructions>";
const PROJECT_END: &str = "</project_context>";
const PLUGIN: (&str, &str) = ("The plugin `", "` says about its tools:");

/// Divides a system prompt. The ranges cover it without gaps; an empty prompt has no section.
pub(crate) fn system_sections(prompt: &str) -> Vec<(SegmentOwner, Range<usize>)> {
    let mut sections: Vec<(SegmentOwner, Range<usize>)> = Vec::new();
    let (mut owner, mut is_after_system, mut is_in_tools) = (SegmentOwner::SystemPrompt, false, false);
    let mut at = 0;
    for line in prompt.split_inclusive('\n') {
        let text = line.trim_end();
        let within = |(begin, end): (&str, &str)| Some(text.strip_prefix(begin)?.strip_suffix(end)?.to_owned());
        if text == SURROUNDINGS {
            owner = SegmentOwner::Surroundings;
        } else if owner == SegmentOwner::Surroundings && text.starts_with(DATE) {
            owner = SegmentOwner::Date;
        } else if owner == SegmentOwner::Date && text.starts_with(SYSTEM) {
            (owner, is_after_system) = (SegmentOwner::Surroundings, true);
        } else if text == TOOLS {
            (owner, is_in_tools) = (SegmentOwner::SystemPrompt, true);
        } else if let Some(plugin) = within(PLUGIN).filter(|_| is_in_tools) {
            owner = SegmentOwner::of_instructions(&plugin);
        } else if let Some(tool) = guideline_of(text).filter(|_| is_in_tools) {
            owner = SegmentOwner::Guidelines(tool);
        } else if let Some(name) = within(PROJECT_FILE) {
            owner = SegmentOwner::ContextFile(name);
        } else if text == PROJECT_END {
            owner = SegmentOwner::AppendedPrompt;
        } else if let Some(name) = users_file(text).filter(|_| is_after_system && !is_in_tools) {
            owner = SegmentOwner::ContextFile(name);
        } else if is_after_system
            && owner == SegmentOwner::Surroundings
            && !text.is_empty()
            && !text.starts_with(SYSTEM)
        {
            let is_frame = text.starts_with('<');
            owner = if is_frame { SegmentOwner::SystemPrompt } else { SegmentOwner::AppendedPrompt };
        }
        let end = at + line.len();
        match sections.last_mut().filter(|(last, _)| *last == owner) {
            Some((_, range)) => range.end = end,
            None => sections.push((owner.clone(), at..end)),
        }
        if text == PROJECT_FILE_END {
            owner = SegmentOwner::SystemPrompt;
        }
        at = end;
    }
    sections
}

/// Returns the tool that a guideline is about.
fn guideline_of(line: &str) -> Option<String> {
    let (tool, _) = line.strip_prefix("- `")?.split_once("`: ")?;
    Some(tool.to_owned())
}

/// Returns the context file of the user that a heading names.
fn users_file(line: &str) -> Option<String> {
    line.strip_prefix("# ").filter(|name| name.ends_with(".md")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_cover_the_prompt_and_name_their_owners() {
        let prompt = "You are Pinion.\n\n# Surroundings\n\nDirectory: /src\nDate: 2026-01-02\nSystem: linux x86_64\n\n\
                      # ~/.config/pinion/AGENTS.md\n\nBe brief.\n\n<project_context>\n\nQuoted files:\n\n\
                      <project_instructions path=\"AGENTS.md\">\n> # Tools\n</project_instructions>\n\n</project_context>\n\
                      \nAppended.\n\n\n# Tools\n\n- `read`: Read first.\n- `bash`: Be careful.\n\nThe plugin `skills` \
                      says about its tools:\n\n> pdf\n\nThe plugin `notes` says about its tools:\n\n> Note it.\n";
        let sections = system_sections(prompt);
        let covered: String = sections.iter().map(|(_, range)| &prompt[range.clone()]).collect();
        assert_eq!(covered, prompt);
        let owners: Vec<String> = sections.iter().map(|(owner, _)| owner.to_string()).collect();
        for expected in [
            "the date in the system prompt",
            "the context file `~/.config/pinion/AGENTS.md`",
            "the context file `AGENTS.md`",
            "the text appended to the system prompt",
            "the guidelines of the tool `bash`",
            "the list of skills",
            "the instructions of the plugin `notes`",
        ] {
            assert!(owners.iter().any(|owner| owner == expected), "{expected}: {owners:?}");
        }
        assert!(system_sections("").is_empty());
    }
}
