//! The models of servers on this machine, which need no configuration, and models that belong to no known provider,
//! which the user's Ollama server may have.

use crate::failure::{Failure, Result};
use crate::model::select::{certificates, provider_config};
use crate::workspace_base::Base;
use pinion_agent::futures_util::future::join_all;
use pinion_providers::{
    LOCAL_PROVIDERS, LocalModel, LocalServer, ModelTable, OllamaModels, ProviderContext, ProviderInfo, RegistryError,
};

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

impl Base {
    /// Finds the provider and the model that a user means. If the name belongs to no provider, asks the Ollama server at
    /// the configured address, the address in `OLLAMA_HOST` or the usual one, whether it has the model. A known name
    /// costs no request.
    ///
    /// # Errors
    /// See [`pinion_providers::Registry::resolve`]. For an unknown model, the failure contains the server's answer.
    pub async fn resolve(
        &self,
        provider_name: Option<&str>,
        model: &str,
        models: &ModelTable,
    ) -> Result<(&'static ProviderInfo, String)> {
        let error = match self.config.registry.resolve(provider_name, model, models) {
            Ok(resolved) => return Ok(resolved),
            Err(error) => error,
        };
        // A base URL on the command line belongs to a provider, which must be named. A replay reaches no server.
        let may_ask = self.base_url.is_none() && self.exchanges.playback().is_none();
        let is_unknown = matches!(error, RegistryError::UnknownModel { .. });
        let failure = Failure::from(error);
        if !may_ask || !is_unknown {
            return Err(failure);
        }
        let (info, server) = match self.ollama() {
            Ok(found) => found,
            Err(problem) => return Err(failure.because(problem.message())),
        };
        let address = server.address();
        match server.find(model).await {
            Ok(Some(name)) => Ok((info, name)),
            Ok(None) => Err(failure.because(format!("Ollama at `{address}` has no such model"))),
            Err(problem) => {
                tracing::debug!(%problem, "no list of the models of Ollama");
                Err(failure.because(format!("no Ollama server answers at `{address}`")))
            }
        }
    }

    fn ollama(&self) -> Result<(&'static ProviderInfo, OllamaModels)> {
        let info = OllamaModels::provider()?;
        let said = self.config.providers.get(info.name).cloned().unwrap_or_default();
        let context = ProviderContext { certificates: certificates(&said)?, ..ProviderContext::default() };
        let base_url = self.base_url_of(info, None);
        Ok((info, OllamaModels::from_config(provider_config(info, said, base_url), &context)?))
    }
}
