//! Hooks of packages for other programs: scripts that these programs run at events.
//!
//! Pinion runs hooks only as components. The hooks here never run. They are read so that the user sees each one before the
//! installation.

use crate::files::PackageFiles;
use crate::json::parse_strict;
use crate::placeholders::package_path;
use serde_json::{Map, Value};

/// The usual file of hooks.
const FILE: &str = "hooks/hooks.json";
/// Maximum hooks that are listed, and characters of a text in the list.
const MAX_HOOKS: usize = 64;
const MAX_SHOWN: usize = 200;
/// Events of Claude and Codex, for which a package may have hooks.
const EVENTS: &[&str] = &[
    "ConfigChange",
    "CwdChanged",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "Notification",
    "PermissionDenied",
    "PermissionRequest",
    "PostCompact",
    "PostToolBatch",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PreToolUse",
    "SessionEnd",
    "SessionStart",
    "Setup",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "UserPromptSubmit",
    "WorktreeCreate",
    "WorktreeRemove",
];
/// Kinds of hooks, and the member that says what each does.
const KINDS: &[(&str, &str)] =
    &[("command", "command"), ("http", "url"), ("mcp_tool", "tool"), ("prompt", "prompt"), ("agent", "prompt")];

/// A hook of a package, which is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedHook {
    /// The event, such as `PreToolUse`.
    pub event: String,
    /// The pattern of the tools or sources that it is for; empty for all.
    pub matcher: String,
    /// The kind with the command, address or prompt.
    pub action: String,
}

impl PackagedHook {
    /// Describes the hook in a line.
    pub fn summary(&self) -> String {
        match self.matcher.is_empty() {
            true => format!("{}: {}", self.event, self.action),
            false => format!("{} ({}): {}", self.event, self.matcher, self.action),
        }
    }
}

/// Reads the hooks in the usual file and in the member `hooks` of manifests. A mistake costs one hook.
pub(crate) fn read_hooks(
    files: &PackageFiles,
    manifests: &[(String, Value)],
    notices: &mut Vec<String>,
) -> Vec<PackagedHook> {
    let mut list = HookList { hooks: Vec::new(), read: Vec::new() };
    if files.get(FILE).is_some() {
        list.read_file(files, FILE, notices);
    }
    for (manifest, member) in manifests {
        list.read_member(files, manifest, member, notices);
    }
    if list.hooks.len() > MAX_HOOKS {
        notices.push(format!("{} more hooks are not listed", list.hooks.len() - MAX_HOOKS));
        list.hooks.truncate(MAX_HOOKS);
    }
    list.hooks
}

struct HookList {
    hooks: Vec<PackagedHook>,
    /// Files that were read, which a manifest may name, too.
    read: Vec<String>,
}

impl HookList {
    fn read_member(&mut self, files: &PackageFiles, manifest: &str, member: &Value, notices: &mut Vec<String>) {
        match member {
            Value::Null => {}
            Value::String(path) => match package_path(path).filter(|path| files.get(path).is_some()) {
                Some(path) => self.read_file(files, &path, notices),
                None => notices.push(format!("`hooks` in {manifest} names no file of the package: `{}`", shown(path))),
            },
            Value::Object(hooks) => self.add_events(manifest, hooks, notices),
            Value::Array(members) if !members.iter().any(Value::is_array) => {
                members.iter().for_each(|member| self.read_member(files, manifest, member, notices));
            }
            _ => notices.push(format!("`hooks` in {manifest} is neither a path nor an object of events")),
        }
    }

    fn read_file(&mut self, files: &PackageFiles, path: &str, notices: &mut Vec<String>) {
        if self.read.iter().any(|read| read == path) {
            return;
        }
        self.read.push(path.to_owned());
        match parse_strict(files.get(path).unwrap_or_default()) {
            Ok(Value::Object(hooks)) => self.add_events(path, &hooks, notices),
            Ok(_) => notices.push(format!("`{}` is not an object of events", shown(path))),
            Err(problem) => notices.push(format!("`{}` is not readable: {problem}", shown(path))),
        }
    }

    /// Adds the hooks of each event, which may be inside a member `hooks`.
    fn add_events(&mut self, place: &str, hooks: &Map<String, Value>, notices: &mut Vec<String>) {
        let events = hooks.get("hooks").and_then(Value::as_object).unwrap_or(hooks);
        for (event, groups) in events.iter().filter(|(event, _)| *event != "description") {
            let Some(groups) = groups.as_array() else {
                notices.push(format!("the hooks of `{}` in {place} are not a list", shown(event)));
                continue;
            };
            if !EVENTS.contains(&event.as_str()) {
                notices.push(format!("`{}` in {place} is not the name of an event", shown(event)));
            }
            for group in groups {
                let matcher = shown(group["matcher"].as_str().unwrap_or_default());
                let Some(hooks) = group["hooks"].as_array() else {
                    notices.push(format!("a group of hooks of `{}` in {place} has no list `hooks`", shown(event)));
                    continue;
                };
                for hook in hooks {
                    match action(hook) {
                        Some(action) => {
                            self.hooks.push(PackagedHook { event: shown(event), matcher: matcher.clone(), action });
                        }
                        None => notices.push(format!("a hook of `{}` in {place} has no known `type`", shown(event))),
                    }
                }
            }
        }
    }
}

/// Returns the kind of a hook with its command, address or prompt.
fn action(hook: &Value) -> Option<String> {
    let kind = hook["type"].as_str()?;
    let (_, member) = KINDS.iter().find(|(known, _)| *known == kind)?;
    Some(format!("{kind} `{}`", shown(hook[*member].as_str()?)))
}

fn shown(text: &str) -> String {
    let end = if text.chars().nth(MAX_SHOWN).is_some() { "…" } else { "" };
    format!("{}{end}", text.chars().take(MAX_SHOWN).collect::<String>().escape_debug())
}
