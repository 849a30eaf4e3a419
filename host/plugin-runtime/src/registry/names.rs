//! Collisions of names between plugins.

use crate::errors::load::LoadError;
use crate::loading::generation::Generation;
use crate::registry::slot::Slot;

/// Checks a new generation for the slot at `at` against all others. Each name leads to one plugin, and a plugin keeps its
/// name as long as it is loaded. Returns the slots that must give way to the generation, with the error of each.
///
/// # Errors
/// The generation itself must give way.
pub(super) fn displaced(slots: &[Slot], at: usize, new: &Generation) -> Result<Vec<(usize, LoadError)>, LoadError> {
    if let Some(old) = slots[at].loaded.as_ref().filter(|old| old.program().name != new.program.name) {
        let (from, to) = (old.program().name.to_string(), new.program.name.to_string());
        return Err(LoadError::Renamed { from, to });
    }
    let mut displaced = Vec::new();
    let others = slots.iter().enumerate().filter(|(i, _)| *i != at);
    for (i, loaded) in others.filter_map(|(i, slot)| Some((i, slot.loaded.as_ref()?))) {
        let is_stronger = slots[at].is_settled || i < at;
        let (stronger, weaker) = if is_stronger { (&*loaded.generation, new) } else { (new, &*loaded.generation) };
        let Some(error) = collision(weaker, stronger) else { continue };
        if is_stronger {
            return Err(error);
        }
        displaced.push((i, error));
    }
    Ok(displaced)
}

/// The error of a plugin that has the name of another one, or a name that a person could mistake for it.
fn collision(new: &Generation, other: &Generation) -> Option<LoadError> {
    let error = |what, name: &str, is_same| {
        let (name, other) = (name.to_owned(), other.program.name.to_string());
        if is_same { LoadError::Collision { what, name, other } } else { LoadError::LookAlike { what, name, other } }
    };
    if new.plugin_name.meets(&other.plugin_name) {
        return Some(error("plugin", &new.program.name, new.program.name == other.program.name));
    }
    if new.tool_names.meets(&other.tool_names)
        && let Some(tool) = new.tools.iter().find(|tool| other.tool_names.has(&tool.definition.name))
    {
        let name = &tool.definition.name;
        return Some(error("tool", name, other.tool(name).is_some()));
    }
    if new.command_names.meets(&other.command_names)
        && let Some(command) = new.commands.iter().find(|command| other.command_names.has(&command.name))
    {
        let is_same = other.commands.iter().any(|theirs| theirs.name == command.name);
        return Some(error("command", &command.name, is_same));
    }
    None
}
