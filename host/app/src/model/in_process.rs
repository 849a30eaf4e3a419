//! Models that run in this process instead of at a vendor, which an application may bring along.

use crate::failure::{Failure, Result};
use crate::model::select::Chosen;
use crate::workspace_base::Base;
use pinion_agent::secrets::RedactedProvider;
use pinion_agent::usage::Prices;
use pinion_agent::{Model, Provider};
use std::sync::Arc;

/// The name of the provider of these models.
pub const IN_PROCESS_PROVIDER: &str = "local";

/// A model that runs in this process.
pub struct InProcessModel {
    /// Answers requests. Its name is [`IN_PROCESS_PROVIDER`].
    pub provider: Arc<dyn Provider>,
    /// Tokens of the context window.
    pub context_window: Option<u64>,
}

/// A model that an application can run itself, without its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledModel {
    /// The name, as in `local/NAME`.
    pub name: String,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// Tokens of the context window.
    pub context_window: Option<u64>,
}

/// The models that an application runs itself, as `local/NAME`.
pub trait InProcessModels: Send + Sync {
    /// Finds a model by name, without loading it.
    ///
    /// # Errors
    /// There is no such model, or it cannot be used.
    fn find(&self, name: &str) -> Result<InProcessModel>;

    /// Lists the models that can be used, by name, without loading them.
    fn list(&self) -> Vec<InstalledModel>;
}

impl Base {
    /// Lists the models that run in this process. A replay uses no model, and a server that the user named `local` comes
    /// first.
    pub fn installed_models(&self) -> Vec<InstalledModel> {
        let is_recorded = self.exchanges.is_scripted() || self.exchanges.playback().is_some();
        match &self.in_process {
            Some(models) if !is_recorded && self.config.registry.provider(IN_PROCESS_PROVIDER).is_err() => {
                models.list()
            }
            _ => Vec::new(),
        }
    }

    /// Selects a model of this process, if the name means one. A server that the user named `local` comes first.
    pub(super) fn in_process_model(&self, provider: Option<&str>, model: &str) -> Result<Option<Chosen>> {
        let name = match provider {
            Some(IN_PROCESS_PROVIDER) => model,
            Some(_) => return Ok(None),
            None => match model.split_once('/') {
                Some((IN_PROCESS_PROVIDER, name)) => name,
                _ => return Ok(None),
            },
        };
        if self.config.registry.provider(IN_PROCESS_PROVIDER).is_ok() {
            return Ok(None);
        }
        let Some(models) = &self.in_process else {
            return Err(Failure::usage(format!("this build of Pinion runs no models itself, such as `local/{name}`"))
                .hint(
                    "build it with `--features local-models`, or use a server on this machine, such as `ollama/NAME`",
                ));
        };
        if self.exchanges.recorder().is_some() {
            return Err(Failure::usage("cannot record a model that runs in this process")
                .hint("`--record` records exchanges with servers"));
        }
        let found = models.find(name)?;
        Ok(Some(Chosen {
            label: format!("{IN_PROCESS_PROVIDER}/{name}"),
            provider: Arc::new(RedactedProvider::new(found.provider, self.secrets.clone())),
            model: Model {
                name: name.to_owned(),
                prices: Some(Arc::new(Prices::default())),
                context_window: found.context_window,
            },
            window: None,
            fallbacks: Vec::new(),
            notices: Vec::new(),
        }))
    }
}
