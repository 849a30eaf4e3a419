//! Slash commands as the UI knows them, and lines that mean one.

/// The way in which the UI carries a slash command out. Other commands go to the application, like messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UiCommand {
    /// Shows the tree of everything that runs.
    Agents,
    /// Asks a side question.
    Aside,
    /// Opens the list of models.
    ChooseModel,
    /// Opens the list of sessions.
    ChooseSession,
    /// Copies an answer or a code block.
    Copy,
    /// Opens the external editor.
    Edit,
    /// Opens a plan in the external editor.
    EditPlan,
    /// Executes a plan.
    Execute,
    /// Has the application carry it out at once, also while something works ([`UiRequest::Own`](crate::UiRequest::Own)).
    Immediate,
    /// Shows the keys.
    Keys,
    /// Changes the approval mode at once, and with it plan mode.
    Mode,
    /// Writes a plan, or switches plan mode.
    Plan,
    /// Ends the conversation.
    Quit,
    /// Opens the list of settings.
    Settings,
    /// Changes the colours.
    Theme,
}

/// A slash command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlashCommand {
    /// Name without the slash.
    pub name: String,
    /// Form of the arguments, such as `[MODEL]`.
    pub hint: String,
    /// Description in one line.
    pub description: String,
    /// The way in which the UI carries it out, if it does.
    pub action: Option<UiCommand>,
    /// The way in which the UI carries it out without an argument.
    pub bare_action: Option<UiCommand>,
}

impl SlashCommand {
    /// Returns the way in which the UI carries the command out with an argument, which may be empty.
    pub(crate) fn ui_command(&self, argument: &str) -> Option<UiCommand> {
        self.bare_action.filter(|_| argument.is_empty()).or(self.action)
    }
}

/// Splits a line into the name of a slash command and its arguments: `/skill pdf`, or `/skill:pdf`. A line that begins with a
/// path is not a command. `/approve` is another name of `/mode`.
pub fn command_of(line: &str) -> Option<(&str, &str)> {
    let command = line.trim().strip_prefix('/')?;
    let is_end = |c: char| c.is_whitespace() || c == ':';
    let (name, arguments) = command.split_once(is_end).unwrap_or((command, ""));
    let name = if name == "approve" { "mode" } else { name };
    (!name.contains('/')).then_some((name, arguments.trim()))
}

/// Returns whether a text of the user goes to the model: neither a slash command nor one for the shell.
pub(crate) fn is_message(text: &str) -> bool {
    !text.trim_start().starts_with('!') && command_of(text).is_none()
}

/// Returns the slash command that a line with `#approve` means: `on` for the mode `ask`, `off` for `all`, or the name of a mode;
/// `None` for other lines, such as headings in Markdown.
pub fn of_hash(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("#approve")?;
    let mode = match rest.trim() {
        "on" => "ask",
        "off" => "all",
        mode => mode,
    };
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| format!("/mode {mode}").trim_end().to_owned())
}

/// Returns the slash command that a word alone means: `help` and `?`.
pub fn of_word(line: &str) -> Option<String> {
    matches!(line.trim(), "help" | "?").then(|| "/help".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_messages_are_told_apart() {
        assert_eq!(command_of(" /model  a/b "), Some(("model", "a/b")));
        assert_eq!(command_of("/skill:pdf x"), Some(("skill", "pdf x")));
        assert_eq!(command_of("/approve ask"), Some(("mode", "ask")));
        for text in ["/model", " !ls", "!!ls", "/skill:pdf"] {
            assert!(!is_message(text), "{text}");
        }
        for text in ["", "a /model", "/etc/hosts is empty", "really!", "#approve on"] {
            assert!(is_message(text), "{text}");
        }
    }

    #[test]
    fn help_alone_is_a_command() {
        for (line, is_command) in [(" help ", true), ("?", true), ("help me", false), ("why?", false), ("??", false)] {
            assert_eq!(of_word(line).is_some(), is_command, "{line}");
        }
    }

    #[test]
    fn only_approve_is_a_command_with_a_hash() {
        for (line, command) in [
            ("#approve", Some("/mode")),
            (" #approve  on ", Some("/mode ask")),
            ("#approve off", Some("/mode all")),
            ("#approve smart", Some("/mode smart")),
            ("# approve", None),
            ("#approved", None),
            ("see #approve", None),
            ("#define X", None),
        ] {
            assert_eq!(of_hash(line).as_deref(), command, "{line}");
        }
    }
}
