//! The key map: names of keys and of the actions they cause.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::HashMap;

macro_rules! actions {
    ($($(#[doc = $doc:literal])* $action:ident $name:literal $keys:expr;)*) => {
        /// An action of the user.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[doc = $doc])* $action,)*
        }

        /// The actions with their names, descriptions and default keys.
        const ACTIONS: &[(Action, &str, &str, &[&str])] =
            &[$((Action::$action, $name, concat!($($doc),*), &$keys)),*];
    };
}

actions! {
    /// Send the message; the working agent reads it after the call in progress
    Send "send" ["enter"];
    /// Send the message after the end of the work
    SendLater "send-later" ["ctrl+enter"];
    /// Begin a new line
    Newline "newline" ["shift+enter", "alt+enter", "ctrl+j"];
    /// Interrupt the agent, or only the running step if a message waits for that; close an open list
    Interrupt "interrupt" ["esc"];
    /// Clear the editor, interrupt the agent, or quit when pressed twice
    Cancel "cancel" ["ctrl+c"];
    /// Quit if the editor is empty, else delete the character at the cursor
    Quit "quit" ["ctrl+d"];
    /// Quit; the message in the editor is kept for the next conversation
    Exit "exit" ["ctrl+q"];
    /// Complete a command or a file, open a pasted block, or send the message after the end of the work
    Complete "complete" ["tab"];
    /// Edit the message in the external editor
    Edit "edit" ["ctrl+g"];
    /// Switch to the next mode: ask, smart, edits, plan
    Mode "mode" ["shift+tab"];
    /// Turn plan mode on or off
    Plan "plan" [];
    /// Search the messages that were sent
    History "history" ["ctrl+r"];
    /// List commands and keys
    Palette "palette" ["ctrl+p"];
    /// Switch to the next thinking level
    ThinkingLevel "thinking-level" ["alt+t"];
    /// Choose a model
    Models "models" ["alt+m"];
    /// Choose a session
    Sessions "sessions" ["alt+s"];
    /// List waiting messages, to edit, remove, reorder or send it
    Queue "queue" ["alt+q"];
    /// Show everything that runs: sub-agents, branches, steps
    Agents "agents" ["alt+a"];
    /// Fold or unfold all results
    Unfold "unfold" ["ctrl+o"];
    /// Fold or unfold the selected block, or the last one
    Toggle "toggle" ["f2"];
    /// Show or hide reasoning
    Thinking "thinking" ["ctrl+t"];
    /// Show or hide the resource use of calls
    Ledgers "ledgers" ["alt+l"];
    /// Show unfolded diffs side by side or unified
    Sides "sides" ["alt+v"];
    /// Select the block above
    SelectUp "select-up" ["shift+up"];
    /// Select the block below
    SelectDown "select-down" ["shift+down"];
    /// Scroll up by a page
    PageUp "page-up" ["pageup"];
    /// Scroll down by a page
    PageDown "page-down" ["pagedown"];
    /// Scroll up by a row
    ScrollUp "scroll-up" ["ctrl+up"];
    /// Scroll down by a row
    ScrollDown "scroll-down" ["ctrl+down"];
    /// Scroll to the beginning
    Top "top" ["ctrl+home"];
    /// Scroll to the end
    Bottom "bottom" ["ctrl+end"];
    /// Jump to the message of the user above
    PromptUp "prompt-up" ["alt+up"];
    /// Jump to the message of the user below
    PromptDown "prompt-down" ["alt+down"];
    /// Search the transcript
    Search "search" ["ctrl+s"];
    /// Copy the selected block, or the last answer
    Copy "copy" ["alt+c"];
    /// Copy the last code block of the answers
    CopyCode "copy-code" ["alt+x"];
    /// Give the mouse to pinion, which copies the text you drag over, or back to the terminal
    Mouse "mouse" ["alt+w"];
    /// Redraw the screen
    Redraw "redraw" ["ctrl+l"];
    /// Suspend the program
    Suspend "suspend" ["ctrl+z"];
    /// Show the keys
    Help "help" ["f1"];
    /// Undo
    Undo "undo" ["ctrl+_", "ctrl+7", "ctrl+/"];
    /// Paste the picture in the clipboard
    PastePicture "paste-picture" ["ctrl+v"];
    /// Redo
    Redo "redo" ["alt+_", "alt+/"];
    /// Paste the text that was cut last
    Yank "yank" ["ctrl+y"];
    /// Replace the pasted text by the one cut before it
    YankEarlier "yank-earlier" ["alt+y"];
    /// Cut to the end of the line
    KillLine "kill-line" ["ctrl+k"];
    /// Cut to the beginning of the line
    KillBefore "kill-before" ["ctrl+u"];
    /// Cut the word before the cursor
    KillWord "kill-word" ["ctrl+w", "alt+backspace", "ctrl+backspace"];
    /// Cut the word behind the cursor
    KillWordAfter "kill-word-after" ["alt+d"];
    /// Delete the character before the cursor
    Backspace "backspace" ["backspace", "shift+backspace", "ctrl+h"];
    /// Delete the character at the cursor
    Delete "delete" ["delete"];
    /// Move to the left
    Left "left" ["left", "ctrl+b"];
    /// Move to the right
    Right "right" ["right", "ctrl+f"];
    /// Move up, or to the earlier message
    Up "up" ["up"];
    /// Move down, or to the later message
    Down "down" ["down"];
    /// Move to the word before
    WordLeft "word-left" ["alt+left", "ctrl+left", "alt+b"];
    /// Move behind the word
    WordRight "word-right" ["alt+right", "ctrl+right", "alt+f"];
    /// Move to the beginning of the line
    LineStart "line-start" ["home", "ctrl+a"];
    /// Move to the end of the line
    LineEnd "line-end" ["end", "ctrl+e"];
}

/// The actions of keys.
#[derive(Debug, Clone)]
pub struct KeyMap(HashMap<(KeyCode, KeyModifiers), Action>);

impl Default for KeyMap {
    fn default() -> Self {
        let keys = ACTIONS.iter().flat_map(|(action, _, _, keys)| keys.iter().map(|key| (*key, *action)));
        Self(keys.filter_map(|(key, action)| parse(key).map(|key| (key, action))).collect())
    }
}

impl KeyMap {
    /// Gives an action other keys, named like `ctrl+o`, `alt+enter`, `f1` or `pageup`.
    ///
    /// # Errors
    /// Returns the name of the action or of the key that is unknown.
    pub fn set<'a>(&mut self, action: &str, keys: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let action = Self::action_of(action).ok_or_else(|| format!("no action `{action}`"))?;
        self.0.retain(|_, other| *other != action);
        for key in keys {
            self.0.insert(parse(key).ok_or_else(|| format!("no key `{key}`"))?, action);
        }
        Ok(())
    }

    /// Checks that messages can be sent, and the program be left.
    ///
    /// # Errors
    /// Returns the name of an action that needs a key and lacks one.
    pub fn check(&self) -> Result<(), &'static str> {
        let needed = [Action::Send, Action::Cancel, Action::Quit];
        let lacks = |action: &&Action| !self.0.values().any(|other| other == *action);
        let lacking =
            needed.iter().find(lacks).and_then(|lacking| ACTIONS.iter().find(|(action, ..)| action == lacking));
        lacking.map_or(Ok(()), |(_, name, ..)| Err(name))
    }

    /// Returns whether a key clears, interrupts or quits. An application that reads the terminal on a separate thread
    /// can end the program if the UI is too busy for two of these keys.
    pub fn is_cancel(&self, key: KeyEvent) -> bool {
        key.kind != KeyEventKind::Release && self.action(key) == Some(Action::Cancel)
    }

    /// Returns the action of a key.
    pub(crate) fn action(&self, key: KeyEvent) -> Option<Action> {
        let shift = KeyModifiers::SHIFT;
        let always = if key.code == KeyCode::BackTab { shift } else { KeyModifiers::NONE };
        let exact = self.0.get(&(key.code, key.modifiers | always));
        // Terminals differ in whether they report Shift with a sign.
        exact.or_else(|| self.0.get(&(key.code, key.modifiers.difference(shift)))).copied().filter(|action| {
            exact.is_some()
                || !matches!(key.code, KeyCode::Enter | KeyCode::Up | KeyCode::Down)
                || *action == Action::Send
        })
    }

    /// Returns the names of the keys of an action: the default ones that it has first, then others by name.
    fn names(&self, action: Action, defaults: &[&str]) -> Vec<String> {
        let mut names: Vec<String> =
            self.0.iter().filter(|(_, other)| **other == action).map(|(key, _)| name(*key)).collect();
        let place = |name: &String| defaults.iter().position(|key| key == name).unwrap_or(defaults.len());
        names.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.cmp(b)));
        names
    }

    /// Returns the first key of an action as people read it; `None` without a key.
    fn shown(&self, action: Action) -> Option<String> {
        let (.., defaults) = ACTIONS.iter().find(|(known, ..)| *known == action)?;
        let name = self.names(action, defaults).into_iter().next()?;
        Some(if name == "up" { "↑".to_owned() } else { name })
    }

    /// Returns a part of a text about the effect of an action's key, with a separator before it; empty if no key has
    /// the action.
    pub fn says(&self, action: Action, separator: &str, does: &str) -> String {
        self.shown(action).map(|key| format!("{separator}{key} {does}")).unwrap_or_default()
    }

    /// Returns the actions with their names, descriptions and keys.
    pub fn actions(&self) -> impl Iterator<Item = (&'static str, &'static str, Vec<String>)> {
        let described = |(action, name, description, defaults): &(Action, &'static str, &'static str, &[&str])| {
            (*name, description.trim(), self.names(*action, defaults))
        };
        ACTIONS.iter().map(described)
    }

    /// Returns the action of a name.
    pub(crate) fn action_of(name: &str) -> Option<Action> {
        ACTIONS.iter().find(|(_, known, ..)| *known == name).map(|(action, ..)| *action)
    }
}

/// Returns the name of a key, which [`parse`] reads.
fn name((code, modifiers): (KeyCode, KeyModifiers)) -> String {
    let mut name = String::new();
    for (modifier, word) in
        [(KeyModifiers::CONTROL, "ctrl+"), (KeyModifiers::ALT, "alt+"), (KeyModifiers::SHIFT, "shift+")]
    {
        name.push_str(if modifiers.contains(modifier) { word } else { "" });
    }
    match code {
        KeyCode::Char(' ') => name.push_str("space"),
        KeyCode::Char(c) => name.push(c),
        KeyCode::F(number) => name.push_str(&format!("f{number}")),
        KeyCode::BackTab => name.push_str("tab"),
        other => name.push_str(&format!("{other:?}").to_lowercase()),
    }
    name
}

/// Parses the name of a key.
fn parse(name: &str) -> Option<(KeyCode, KeyModifiers)> {
    let mut modifiers = KeyModifiers::NONE;
    let mut rest = name;
    while let Some((modifier, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
        modifiers |= match modifier {
            "ctrl" => KeyModifiers::CONTROL,
            "alt" => KeyModifiers::ALT,
            "shift" => KeyModifiers::SHIFT,
            _ => return None,
        };
        rest = after;
    }
    let code = match rest {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        other => match (other.strip_prefix('f').and_then(|n| n.parse().ok()), other.chars().count()) {
            (Some(number @ 1..=24), 2..) => KeyCode::F(number),
            (_, 1) => KeyCode::Char(other.chars().next()?),
            _ => return None,
        },
    };
    Some((code, modifiers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_default_keys_parse_and_are_unique() {
        let keys: Vec<&&str> = ACTIONS.iter().flat_map(|(.., keys)| keys.iter()).collect();
        let parsed: std::collections::HashSet<_> = keys.iter().map(|key| parse(key).expect("a key")).collect();
        assert_eq!(parsed.len(), keys.len());
    }

    #[test]
    fn names_of_keys_are_those_that_are_parsed() {
        let keys = ACTIONS.iter().flat_map(|(.., keys)| keys.iter().copied());
        for key in keys.chain(["space", "ctrl+space", "alt+f12", "+", "ctrl++", "|"]) {
            assert_eq!(name(parse(key).unwrap()), key);
        }
    }

    #[test]
    fn actions_have_the_keys_in_effect() {
        let mut keys = KeyMap::default();
        keys.set("send", ["ctrl+enter", "|"]).unwrap();
        keys.set("newline", ["enter", "ctrl+j"]).unwrap();
        let of = |action: &str| keys.actions().find(|(name, ..)| *name == action).unwrap().2;
        assert_eq!(
            (of("send"), of("newline")),
            (vec!["ctrl+enter".into(), "|".into()], vec!["ctrl+j".into(), "enter".into()])
        );
        assert_eq!(of("plan"), Vec::<String>::new());
    }

    #[test]
    fn keys_of_an_action_can_be_replaced() {
        let mut keys = KeyMap::default();
        keys.set("send", ["ctrl+enter"]).unwrap();
        keys.set("newline", ["enter"]).unwrap();
        let action = |code, modifiers| keys.action(KeyEvent::new(code, modifiers));
        assert_eq!(action(KeyCode::Enter, KeyModifiers::NONE), Some(Action::Newline));
        assert_eq!(action(KeyCode::Enter, KeyModifiers::CONTROL), Some(Action::Send));
        assert_eq!(keys.check(), Ok(()));
        assert_eq!(keys.set("sned", ["x"]), Err("no action `sned`".to_owned()));
        assert_eq!(keys.set("send", ["hyper+x"]), Err("no key `hyper+x`".to_owned()));
        let mut keys = KeyMap::default();
        keys.set("newline", ["enter"]).unwrap();
        assert_eq!(keys.check(), Err("send"));
    }
}
