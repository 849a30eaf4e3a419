//! The models of servers on this machine, which need no configuration.

use crate::model::select::{certificates, provider_config};
use crate::workspace_base::Base;
use pinion_agent::futures_util::future::join_all;
use pinion_providers::{LOCAL_PROVIDERS, LocalModel, LocalServer, ProviderContext, ProviderInfo};

/// The server of a model, and the model.
#[derive(Debug, Clone)]
pub struct FoundModel {
    /// The provider that speaks with the server.
    pub provider: &'static ProviderInfo,
    /// The model.
    pub model: LocalModel,
}

impl Base {
    /// Asks Ollama, llama.cpp and LM Studio for their models, at their usual addresses on this machine or at configured
    /// ones on it. Takes a second at most, and mostly no time: nothing listens, or the answer comes at once. A replay
    /// reaches no server.
    pub async fn local_models(&self) -> Vec<FoundModel> {
        if self.exchanges.is_scripted() || self.exchanges.playback().is_some() {
            return Vec::new();
        }
        let servers = LOCAL_PROVIDERS.iter().filter_map(|name| self.local_server(name));
        let found = join_all(servers.map(async |(provider, server)| {
            let models = server.models().await.inspect_err(|problem| {
                tracing::debug!(provider = provider.name, %problem, "no local models");
            });
            models.unwrap_or_default().into_iter().map(|model| FoundModel { provider, model }).collect::<Vec<_>>()
        }));
        found.await.into_iter().flatten().collect()
    }

    fn local_server(&self, name: &str) -> Option<(&'static ProviderInfo, LocalServer)> {
        let info = self.config.registry.provider(name).ok()?;
        let said = self.config.providers.get(info.name).cloned().unwrap_or_default();
        let context = ProviderContext { certificates: certificates(&said).ok()?, ..ProviderContext::default() };
        let base_url = self.base_url_of(info, None);
        let server = LocalServer::from_config(info, provider_config(info, said, base_url), &context).ok()??;
        Some((info, server))
    }
}
