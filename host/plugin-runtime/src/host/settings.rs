//! The import `settings`: the plugin's own section of the config, as it is now.

use crate::bindings::pinion::plugin::settings;
use crate::calls::state::State;
use std::sync::Arc;

/// The settings of one generation of a plugin.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The plugin's own section of the config, as JSON.
    pub(crate) config: Arc<str>,
    /// The number of the generation.
    pub(crate) generation: u32,
}

impl settings::Host for State {
    /// A changed config makes a new generation. Instances of an earlier one see its settings; those of one that is still
    /// being loaded see their own.
    async fn current(&mut self) -> wasmtime::Result<String> {
        let newest = self.plugins.upgrade().and_then(|plugins| plugins.settings(self.call.authority.plugin()));
        let newest = newest.filter(|newest| newest.generation > self.settings.generation);
        Ok(newest.as_ref().unwrap_or(&self.settings).config.to_string())
    }
}
