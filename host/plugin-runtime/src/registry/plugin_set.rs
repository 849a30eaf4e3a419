//! The plugins that calls see: an immutable snapshot.

use crate::registry::loaded::{Loaded, ToolRef};
use crate::registry::slot::PluginSlot;
use pinion_plugin_offers::lists::ListedTool;
use pinion_protocol::{HookPoint, Instructions, ToolDefinition};
use std::collections::HashMap;
use std::sync::Arc;

/// The current generation of each plugin, with the names that lead to it. The registry replaces it as a whole.
#[derive(Default)]
pub(crate) struct PluginSet {
    loaded: Vec<Arc<Loaded>>,
    /// Sources that did not load, by the name of the plugin or of its file, with the error.
    problems: Vec<(String, String)>,
    tools: HashMap<String, usize>,
    commands: HashMap<String, usize>,
    /// Plugins with a hook, by the position of its point in [`HookPoint::ALL`].
    hooked: [Vec<usize>; HookPoint::ALL.len()],
}

impl PluginSet {
    pub(crate) fn from_slots(slots: &[PluginSlot]) -> Self {
        let mut set = Self::default();
        for slot in slots {
            if let Some(problem) = &slot.problem {
                set.problems.push((slot.name().into_owned(), format!("{problem:#}")));
            }
            if let Some(loaded) = &slot.loaded {
                set.add(loaded.clone());
            }
        }
        set
    }

    fn add(&mut self, loaded: Arc<Loaded>) {
        let at = self.loaded.len();
        for tool in &loaded.lists.tools {
            self.tools.insert(tool.definition.name.clone(), at);
        }
        for command in &loaded.lists.commands {
            self.commands.insert(command.name.clone(), at);
        }
        for point in HookPoint::ALL.into_iter().filter(|point| loaded.generation.has_hook(*point)) {
            self.hooked[point as usize].push(at);
        }
        self.loaded.push(loaded);
    }

    /// Returns whether a plugin has a hook at this point.
    pub(crate) fn wants(&self, point: HookPoint) -> bool {
        !self.hooked[point as usize].is_empty()
    }

    /// The plugins with a hook at this point, in the order of their sources.
    pub(crate) fn hooked(&self, point: HookPoint) -> impl Iterator<Item = &Arc<Loaded>> {
        self.hooked[point as usize].iter().map(|at| &self.loaded[*at])
    }

    /// The plugin that offers a tool.
    pub(crate) fn tool(&self, name: &str) -> Option<(Arc<Loaded>, ToolRef)> {
        let loaded = &self.loaded[*self.tools.get(name)?];
        Some((loaded.clone(), loaded.tool(name)?))
    }

    /// The plugin that offers a command.
    pub(crate) fn command(&self, name: &str) -> Option<Arc<Loaded>> {
        Some(self.loaded[*self.commands.get(name)?].clone())
    }

    pub(crate) fn loaded(&self) -> &[Arc<Loaded>] {
        &self.loaded
    }

    pub(crate) fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    /// The tools that can be called by their names.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.all_tools().filter(|tool| tool.served.is_callable()).map(|tool| &tool.definition)
    }

    /// All tools, including tools that serve only as resources.
    pub(crate) fn all_tools(&self) -> impl Iterator<Item = &ListedTool> {
        self.loaded.iter().flat_map(|loaded| &loaded.lists.tools)
    }

    pub(crate) fn instructions(&self) -> impl Iterator<Item = &Instructions> {
        self.loaded.iter().filter_map(|loaded| loaded.lists.instructions.as_ref())
    }

    /// Returns whether a tool was offered by a plugin that is loaded and whose tools change while it runs.
    pub(crate) fn may_have_offered(&self, tool: &ToolDefinition) -> bool {
        let is_its = |loaded: &Arc<Loaded>| loaded.program().name == tool.source.plugin;
        self.loaded.iter().any(|loaded| is_its(loaded) && loaded.generation.has_offers())
    }
}
