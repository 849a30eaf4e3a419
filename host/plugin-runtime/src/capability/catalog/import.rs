//! The import `catalog`. Every list is empty without the grant.

use super::Catalog;
use crate::bindings::pinion::plugin::catalog::{self, CommandInfo, ModelInfo, PluginInfo, ToolInfo, UsageInfo};
use crate::calls::state::State;
use crate::registry::Registry;
use std::sync::Arc;
use wasmtime::component::{HasSelf, Linker};

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    catalog::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl catalog::Host for State {
    async fn tools(&mut self) -> wasmtime::Result<Vec<ToolInfo>> {
        Ok(self.registry().map(|registry| registry.tool_infos()).unwrap_or_default())
    }

    async fn commands(&mut self) -> wasmtime::Result<Vec<CommandInfo>> {
        Ok(self.registry().map(|registry| registry.command_infos()).unwrap_or_default())
    }

    async fn plugins(&mut self) -> wasmtime::Result<Vec<PluginInfo>> {
        Ok(self.registry().map(|registry| registry.plugin_infos()).unwrap_or_default())
    }

    async fn models(&mut self) -> wasmtime::Result<Vec<ModelInfo>> {
        let models = self.granted().map(|state| state.info.models()).unwrap_or_default();
        Ok(models.into_iter().map(|model| ModelInfo { name: model.name, current: model.current }).collect())
    }

    async fn usage(&mut self) -> wasmtime::Result<UsageInfo> {
        let spent = self.granted().map(|state| state.info.spent()).unwrap_or_default();
        Ok(UsageInfo {
            requests: spent.requests,
            input_tokens: spent.usage.input,
            output_tokens: spent.usage.output,
            cache_read_tokens: spent.usage.cache_read,
            cache_write_tokens: spent.usage.cache_write,
            cost: spent.cost.map(|cost| cost.total()),
        })
    }
}

impl State {
    fn granted(&self) -> Option<&Self> {
        self.call.authority.is_granted::<Catalog>().then_some(self)
    }

    fn registry(&self) -> Option<Arc<Registry>> {
        self.granted()?.registry.upgrade()
    }
}
