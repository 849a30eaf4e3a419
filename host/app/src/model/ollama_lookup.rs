//! Models that belong to no known provider, which the user's Ollama server may have.

use crate::failure::{Failure, Result};
use crate::model::select::{certificates, provider_config};
use crate::workspace_base::Base;
use pinion_providers::{ModelTable, OllamaModels, ProviderContext, ProviderInfo, RegistryError};

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
