//! Collisions of names between plugins.
//!
//! Names from a load are exclusive: one of two plugins is refused. Names that appear while a plugin runs give way to all
//! others, so that no plugin keeps another from being loaded by listing its names.

use crate::errors::load::LoadError;
use crate::loading::generation::Generation;
use crate::loading::lists::Lists;
use crate::registry::notice::{Notice, NoticeEvent};
use crate::registry::slot::Slot;
use std::sync::Arc;

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
    let (lists, others) = (&new.lists, &other.lists);
    if lists.tool_names.meets(&others.tool_names)
        && let Some(tool) = lists.tools.iter().find(|tool| others.tool_names.has(&tool.definition.name))
    {
        let name = &tool.definition.name;
        return Some(error("tool", name, others.tool(name).is_some()));
    }
    if lists.command_names.meets(&others.command_names)
        && let Some(command) = lists.commands.iter().find(|command| others.command_names.has(&command.name))
    {
        let is_same = others.commands.iter().any(|theirs| theirs.name == command.name);
        return Some(error("command", &command.name, is_same));
    }
    None
}

/// Removes from lists of the slot at `at` what has a name of another plugin. Returns phrases for what was removed.
pub(super) fn remove_taken(slots: &[Slot], at: usize, lists: &mut Lists) -> Vec<String> {
    let others = || slots.iter().enumerate().filter(|(i, _)| *i != at).filter_map(|(_, slot)| slot.loaded.as_ref());
    let owner = |has: &dyn Fn(&Lists) -> bool| {
        let owner = others().find(|loaded| has(&loaded.lists) || has(&loaded.generation.lists));
        owner.map(|loaded| loaded.program().name.to_string())
    };
    lists.remove_taken(
        |tool| owner(&|lists| lists.tool_names.has(tool)),
        |command| owner(&|lists| lists.command_names.has(command)),
    )
}

/// Settles the names that appeared while plugins run, after the slots at `new` got new generations: these take their names
/// from all others, and those that they had before their load from none. Returns the notices.
pub(super) fn settle_running(slots: &mut [Slot], new: &[usize]) -> Vec<Notice> {
    let has_offer = |at: &usize| slots[*at].loaded.as_ref().is_some_and(|loaded| loaded.offer().is_some());
    let (last, first): (Vec<usize>, Vec<usize>) = (0..slots.len()).filter(has_offer).partition(|at| new.contains(at));
    let mut notices = Vec::new();
    for at in first.into_iter().chain(last) {
        let Some(loaded) = slots[at].loaded.clone() else { continue };
        let mut lists = (*loaded.lists).clone();
        let removed = remove_taken(slots, at, &mut lists);
        if !removed.is_empty() {
            let loaded = loaded.offering(Arc::new(lists), loaded.offer().cloned());
            slots[at].loaded = Some(Arc::new(loaded));
            notices.push(slots[at].notice(NoticeEvent::Offer(left_out(&removed))));
        }
    }
    notices
}

/// Words for tools and commands that a list loses.
pub(super) fn left_out(removed: &[String]) -> String {
    format!("left out: {}", removed.join("; "))
}
