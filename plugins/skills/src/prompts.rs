//! Prompts that the user wrote down, as slash commands: `NAME.md` is `/NAME`.

use crate::front_matter;
use crate::skill::{line, text};
use pinion_plugin_sdk::current_config;
use pinion_plugin_sdk::prelude::*;
use std::path::Path;

/// Characters of a command's name.
const MAX_NAME: usize = 64;
/// Bytes of a description in a list.
const MAX_DESCRIPTION: usize = 160;
/// Bytes of a placeholder for arguments.
const MAX_HINT: usize = 80;

/// A file, as the host found it.
#[derive(Deserialize, Debug)]
struct Found {
    file: String,
}

/// The settings that the host makes.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    /// The prompts in the order in which they win their names.
    prompts: Vec<Found>,
}

/// Returns a command for each prompt that can be read. While the plugin is only described, none can.
pub(crate) fn commands() -> Vec<Command> {
    let Settings { prompts } = current_config().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    let mut commands = Vec::new();
    for Found { file } in prompts {
        let name = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // One that the host refuses would cost the others.
        if !is_name(&name) || names.contains(&name) {
            continue;
        }
        let Ok(text) = text(Path::new(&file)) else { continue };
        let (members, body) = front_matter::split(&text);
        let body = body.trim_end().to_owned();
        let description = match members.description.as_str() {
            "" => body.lines().find(|line| !line.trim().is_empty()).unwrap_or("An empty prompt"),
            description => description,
        };
        let description = line(description, MAX_DESCRIPTION);
        let hint = line(&members.argument_hint, MAX_HINT);
        let send = move |typed: &str, _: &Call| Ok(vec![Action::Submit(filled(&body, typed.trim()))]);
        let command = Command::new(name.clone(), description, send);
        commands.push(if hint.is_empty() { command } else { command.argument(hint) });
        names.push(name);
    }
    commands
}

/// Returns whether a prompt of this name can be a command beside `/skill`.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain) && name != "skill"
}

/// Puts arguments into a prompt: `$ARGUMENTS` and `$@` stand for all of them, and `$1` to `$9` for one word each. A prompt
/// without such a place gets them at its end. Inserted text is not searched again.
fn filled(body: &str, typed: &str) -> String {
    let words: Vec<&str> = typed.split_whitespace().collect();
    let (mut text, mut rest, mut has_place) = (String::new(), body, false);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digit = rest.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
        let (value, length) = match digit {
            Some(digit) => (words.get(digit as usize - 1).copied().unwrap_or_default(), 1),
            None if rest.starts_with('@') => (typed, 1),
            None if rest.starts_with("ARGUMENTS") => (typed, "ARGUMENTS".len()),
            None => {
                text.push('$');
                continue;
            }
        };
        has_place = true;
        text.push_str(value);
        rest = &rest[length..];
    }
    text.push_str(rest);
    if !has_place && !typed.is_empty() {
        text.push_str("\n\n");
        text.push_str(typed);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arguments_take_their_places() {
        assert_eq!(filled("Fix $1 in $2: $ARGUMENTS ($@)", "a b"), "Fix a in b: a b (a b)");
        assert_eq!(filled("Fix $1 and $2.", "a"), "Fix a and .");
        assert_eq!(filled("Review this.", "now"), "Review this.\n\nnow");
        assert_eq!(filled("Costs $0 or $x $", ""), "Costs $0 or $x $");
        assert_eq!(filled("$1", "$2 x"), "$2");
    }

    proptest! {
        #[test]
        fn any_prompt_takes_any_arguments(body in ".{0,40}", typed in ".{0,40}") {
            let text = filled(&body, typed.trim());
            prop_assert!(body.contains('$') || text.starts_with(&body));
        }
    }
}
