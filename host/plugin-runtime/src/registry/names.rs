//! Collisions of names between plugins.
//!
//! Of two plugins with one name, one is refused. Of two tools or commands with one name, one is left out, and the rest of its
//! plugin works, its hooks included: the plugin that was registered first keeps the name, and holds it during its reloads. A
//! name that is free again goes to the next load that wants it.
//!
//! Names that appear while a plugin runs lose to names of loads at a start, and win over names of later loads.

use crate::load_error::LoadError;
use crate::loading::generation::Generation;
use crate::registry::loaded::Loaded;
use crate::registry::notice::{Notice, NoticeEvent};
use crate::registry::slot::PluginSlot;
use pinion_plugin_offers::lists::Lists;
use std::sync::Arc;

/// Checks the name of a new generation for the slot at `at` against all others. A plugin keeps its name as long as it
/// is loaded. Returns the slots that the generation displaces, with the error of each.
///
/// # Errors
/// The generation itself loses to another plugin.
pub(super) fn displaced(
    slots: &[PluginSlot],
    at: usize,
    new: &Generation,
) -> Result<Vec<(usize, LoadError)>, LoadError> {
    if let Some(old) = slots[at].loaded.as_ref().filter(|old| old.program().name != new.program.name) {
        let (from, to) = (old.program().name.to_string(), new.program.name.to_string());
        return Err(LoadError::Renamed { from, to });
    }
    let mut displaced = Vec::new();
    for (i, loaded) in others(slots, at) {
        let is_stronger = is_stronger(slots, i, at);
        let (stronger, weaker) = if is_stronger { (&*loaded.generation, new) } else { (new, &*loaded.generation) };
        let Some(error) = collision(weaker, stronger) else { continue };
        if is_stronger {
            return Err(error);
        }
        displaced.push((i, error));
    }
    Ok(displaced)
}

/// Returns whether the plugin of the slot at `other` keeps its names before one that is loaded for the slot at `at`:
/// names of a first load go by the order of slots, names of a reload must be free.
fn is_stronger(slots: &[PluginSlot], other: usize, at: usize) -> bool {
    slots[at].is_settled || other < at
}

/// The plugins of all other slots, with their positions.
fn others(slots: &[PluginSlot], at: usize) -> impl Iterator<Item = (usize, &Arc<Loaded>)> {
    slots.iter().enumerate().filter(move |(i, _)| *i != at).filter_map(|(i, slot)| Some((i, slot.loaded.as_ref()?)))
}

/// The error of a plugin that has the name of another one, or a name that a person could mistake for it.
fn collision(new: &Generation, other: &Generation) -> Option<LoadError> {
    if !new.plugin_name.meets(&other.plugin_name) {
        return None;
    }
    let (name, other) = (new.program.name.to_string(), other.program.name.to_string());
    Some(if name == other { LoadError::Collision { name } } else { LoadError::LookAlike { name, other } })
}

/// Removes from a plugin that is loaded for the slot at `at` the tools and commands whose names stronger plugins have,
/// from their loads or from their instances' offers. Returns phrases for the removed items.
pub(super) fn without_taken(slots: &[PluginSlot], at: usize, loaded: Arc<Loaded>) -> (Arc<Loaded>, Vec<String>) {
    let stronger: Vec<&Arc<Loaded>> =
        others(slots, at).filter(|(i, _)| is_stronger(slots, *i, at)).map(|(_, loaded)| loaded).collect();
    let has =
        |other: &Loaded, has: &dyn Fn(&Lists) -> bool| has(&other.own) || other.is_confirmed() && has(&other.lists);
    let owner = |is_its: &dyn Fn(&Lists) -> bool| {
        stronger.iter().find(|other| has(other, is_its)).map(|other| other.program().name.to_string())
    };
    let mut own = (*loaded.own).clone();
    let removed = own.remove_taken(
        |tool| owner(&|lists| lists.tool_names.has(tool)),
        |command| owner(&|lists| lists.command_names.has(command)),
    );
    if removed.is_empty() { (loaded, removed) } else { (Arc::new(loaded.without(own, &removed)), removed) }
}

/// Removes the tools and commands of the slots after `at` whose names belong to the load of this slot, which settled
/// after them. Returns the notices.
pub(super) fn take_names(slots: &mut [PluginSlot], at: usize) -> Vec<Notice> {
    let Some(first) = slots[at].loaded.clone() else { return Vec::new() };
    let name = first.program().name.to_string();
    let mut notices = Vec::new();
    for slot in &mut slots[at + 1..] {
        let Some(loaded) = &slot.loaded else { continue };
        let mut own = (*loaded.own).clone();
        let removed = own.remove_taken(
            |tool| first.own.tool_names.has(tool).then(|| name.clone()),
            |command| first.own.command_names.has(command).then(|| name.clone()),
        );
        if !removed.is_empty() {
            slot.loaded = Some(Arc::new(loaded.without(own, &removed)));
            notices.push(slot.notice(NoticeEvent::LeftOut(taken(&removed))));
        }
    }
    notices
}

/// Removes from lists of the slot at `at` the items with a name of another plugin. Returns phrases for the removed
/// items.
pub(super) fn remove_taken(slots: &[PluginSlot], at: usize, lists: &mut Lists) -> Vec<String> {
    let owner = |has: &dyn Fn(&Lists) -> bool| {
        let owner = others(slots, at).find(|(_, loaded)| has(&loaded.lists) || has(&loaded.own));
        owner.map(|(_, loaded)| loaded.program().name.to_string())
    };
    lists.remove_taken(
        |tool| owner(&|lists| lists.tool_names.has(tool)),
        |command| owner(&|lists| lists.command_names.has(command)),
    )
}

/// Settles the names that appeared while plugins run, after the slots at `new` got new generations: these take their
/// names from all others, but names from before their load from no plugin. Returns the notices.
pub(super) fn settle_running(slots: &mut [PluginSlot], new: &[usize]) -> Vec<Notice> {
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

/// Words for tools and commands that a load loses.
pub(super) fn taken(removed: &[String]) -> String {
    format!("{}\nhint: rename them, or load only one of the plugins", removed.join("; "))
}
