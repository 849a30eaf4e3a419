//! Slash commands that users know from other programs, and the ones that serve the purpose here.

/// Names of such commands, and Markdown about their purpose.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["skill", "skills"],
        "There are no skills. Put one into `~/.agents/skills/NAME/SKILL.md`; `/skill` then lists it, and `/skill:NAME REQUEST` uses it.",
    ),
    (
        &["status", "info"],
        "`/context` shows what fills the context, `/cost` what the session cost, and `pinion doctor` checks keys and plugins.",
    ),
    (
        &["usage", "stats", "tokens", "limits"],
        "`/cost` shows the tokens and the money of this session, and `/context` what fills the context.",
    ),
    (
        &["login", "auth", "key", "keys-api", "connect"],
        "`pinion login PROVIDER` in another terminal stores a key. This conversation uses it after `/model PROVIDER/MODEL`.",
    ),
    (&["logout"], "`pinion logout PROVIDER` in another terminal removes a stored key."),
    (
        &["config", "preferences", "options"],
        "`pinion config edit` opens the config, and `pinion config set KEY VALUE` sets a key. Here, `/model`, `/mode`, `/thinking` and `/theme` change this conversation.",
    ),
    (
        &["memory", "remember", "rules"],
        "Instructions for agents are in `AGENTS.md`, in the project or in the config's directory. `/init` writes one.",
    ),
    (&["agent"], "Agents for the tool `task` are defined under `[agents.kinds.NAME]` in the config."),
    (
        &["review"],
        "Ask for it, as in `review the changes of the last commit`. A file `.pinion/prompts/review.md` makes it a command.",
    ),
    (
        &["vim", "vi", "keybindings"],
        "`pinion config set tui.vi true` gives the editor the keys of vi. `/keys` shows all keys.",
    ),
    (
        &["doctor", "bug", "feedback", "debug"],
        "`pinion doctor` in another terminal checks the installation, keys and plugins.",
    ),
    (
        &["approvals", "approval", "yolo", "auto", "allowed-tools"],
        "`/mode` shows and changes what needs approval, and `/permissions` lists the rules.",
    ),
    (
        &["sandbox", "network"],
        "`/net` shows and changes the network of programs, and `pinion sandbox --status` the sandbox.",
    ),
    (&["effort", "reasoning", "think"], "`/thinking` shows and changes how much the model thinks."),
    (
        &["history", "sessions", "session", "switch", "continue"],
        "`/resume` lists sessions, and `/fork` continues in a copy of this one.",
    ),
    (&["reset", "restart"], "`/new` starts a new session."),
    (&["summarize", "summary", "compress"], "`/compact` replaces the conversation with a summary."),
    (
        &["restore", "checkpoint", "revert", "rollback"],
        "`/undo` undoes the last turn, files and conversation. `/rewind` lists turns.",
    ),
    (&["save", "share"], "The session is saved. `/export FILE.md` or `/export FILE.html` writes it as a document."),
    (&["models", "provider", "providers"], "`/model` lists and changes the model."),
    (&["themes", "color", "colors", "colours"], "`/theme` lists and changes the colours."),
    (&["hotkeys", "shortcuts"], "`/keys` shows the keys."),
    (&["hooks", "extensions", "plugin"], "`/plugins` lists plugins. Hooks are parts of plugins."),
    (
        &["update", "upgrade", "version"],
        "`pinion --version` in another terminal shows the version, and `pinion update` says how to update it.",
    ),
    (&["add", "file", "files", "mention", "image"], "`@` completes the name of a file, which goes with the message."),
    (&["shell", "run", "bash", "terminal"], "`!COMMAND` runs a shell command."),
    (&["ask"], "`/btw QUESTION` asks beside the conversation."),
    (&["commands", "man", "?"], "`/help` lists commands, and `/keys` the keys."),
];

/// Returns Markdown about a command that does not exist under this name; `None` if its purpose is unknown. Commands of plugins and
/// of the user come first.
pub(super) fn elsewhere(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::ACTIONS;

    #[test]
    fn no_command_of_pinion_is_explained_away() {
        // Commands have the names of their actions, except for `/net`.
        for action in ACTIONS.iter().map(|action| action.name()).filter(|name| *name != "network") {
            assert_eq!(elsewhere(action), None, "{action}");
        }
    }

    #[test]
    fn commands_of_other_programs_name_one_that_exists() {
        for name in ["status", "login", "config", "usage", "memory", "agent", "review", "vim", "skill", "doctor"] {
            assert!(elsewhere(name).is_some_and(|text| text.contains('`')), "{name}");
        }
        assert_eq!(elsewhere("nonsense"), None);
    }
}
