//! The capability `catalog`: the loaded plugins and the usage of the session.

use super::definition::{Capability, GrantContext};
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// True if the user grants it.
pub(crate) type Entry = bool;
/// True if it is granted.
pub(crate) type Grant = bool;

/// The capability.
pub(crate) struct Catalog;

impl Capability for Catalog {
    const NAME: &'static str = "catalog";
    const INTERFACES: &'static [&'static str] = &["catalog"];
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ();
    type Account = ();

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(true)
    }

    fn ask_for(entry: &Entry) -> Ask {
        *entry
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        *entry
    }

    fn held(grant: &Grant) -> Option<&()> {
        grant.then_some(&())
    }

    fn phrase(_ask: Ask) -> &'static str {
        "see what is loaded and spent"
    }
}

/// The import `catalog`. Every list is empty without the grant.
pub(crate) mod import {
    use super::Catalog;
    use crate::bindings::pinion::plugin::catalog::{self, CommandInfo, ModelInfo, PluginInfo, ToolInfo, UsageInfo};
    use crate::calls::state::State;
    use crate::convert::count;
    use crate::host_info::LoadedPlugins;
    use pinion_plugin_journal::linker::Linker;
    use pinion_plugin_offers::offer::CommandDefinition;
    use std::sync::Arc;
    use wasmtime::component::HasSelf;

    pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        catalog::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }

    impl catalog::Host for State {
        async fn tools(&mut self) -> wasmtime::Result<Vec<ToolInfo>> {
            Ok(self.loaded_plugins().map(|plugins| plugins.tools()).unwrap_or_default())
        }

        async fn commands(&mut self) -> wasmtime::Result<Vec<CommandInfo>> {
            let actions = self.granted().map(|state| state.info.actions()).unwrap_or_default();
            let is_offered = |command: &CommandDefinition| command.is_offered(&actions);
            Ok(self.loaded_plugins().map(|plugins| plugins.commands(&is_offered)).unwrap_or_default())
        }

        async fn plugins(&mut self) -> wasmtime::Result<Vec<PluginInfo>> {
            Ok(self.loaded_plugins().map(|plugins| plugins.plugins()).unwrap_or_default())
        }

        async fn models(&mut self) -> wasmtime::Result<Vec<ModelInfo>> {
            let models = self.granted().map(|state| state.info.models()).unwrap_or_default();
            Ok(models.into_iter().map(|model| ModelInfo { name: model.name, current: model.current }).collect())
        }

        async fn usage(&mut self) -> wasmtime::Result<UsageInfo> {
            let spent = self.granted().map(|state| state.info.spent()).unwrap_or_default();
            Ok(UsageInfo {
                requests: count(spent.requests),
                input_tokens: count(spent.usage.input),
                output_tokens: count(spent.usage.output),
                cache_read_tokens: count(spent.usage.cache_read),
                cache_write_tokens: count(spent.usage.cache_write),
                cost: spent.cost.map(|cost| cost.total()),
            })
        }
    }

    impl State {
        fn granted(&self) -> Option<&Self> {
            self.call.authority.is_granted::<Catalog>().then_some(self)
        }

        fn loaded_plugins(&self) -> Option<Arc<dyn LoadedPlugins>> {
            self.granted()?.plugins.upgrade()
        }
    }
}
