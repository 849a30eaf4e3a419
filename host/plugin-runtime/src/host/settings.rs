//! The import `settings`: the plugin's own section of the config, as it is now.

use crate::bindings::pinion::plugin::settings;
use crate::calls::state::State;

impl settings::Host for State {
    /// A changed config makes a new generation. Instances of an earlier generation see its settings; instances of a
    /// generation that is still being loaded see their own.
    async fn current(&mut self) -> wasmtime::Result<String> {
        let newest = self.plugins.upgrade().and_then(|plugins| plugins.settings(self.call.authority.plugin()));
        let newest = newest.filter(|newest| newest.generation > self.settings.generation);
        Ok(newest.as_ref().unwrap_or(&self.settings).config.to_string())
    }
}
