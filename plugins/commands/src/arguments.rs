//! Arguments of commands.

use pinion_plugin_sdk::prelude::*;

/// Creates a command that takes no arguments and has one action.
pub(crate) fn plain(name: &'static str, description: &str, action: impl Fn() -> Action + 'static) -> Command {
    Command::new(name, description, move |typed, _call| {
        if !typed.trim().is_empty() {
            return Err(format!("`/{name}` takes no arguments"));
        }
        Ok(vec![action()])
    })
}

/// Returns the only word that was typed; `None` without one.
///
/// # Errors
/// There are several words.
pub(crate) fn one_word(command: &str, typed: &str) -> Result<Option<String>, String> {
    let mut words = typed.split_whitespace();
    match (words.next(), words.next()) {
        (_, Some(_)) => Err(format!("`/{command}` takes one word")),
        (word, None) => Ok(word.map(str::to_owned)),
    }
}
