//! Where the replies come from: a vendor that the user names, or a script.

use crate::Result;
use pinion_agent::{EventStream, FoundModel, Model, Provider, Request};
use pinion_providers::{Keys, ModelTable, ProviderConfig, ProviderContext, Replay, Reply, Script, build_with, resolve};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The options that choose a model.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// The model to ask, such as `anthropic/claude-opus-5-5`; its key comes from the environment. Without it, a script
    /// answers
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
}

impl ModelArgs {
    /// The model that was named, or one that gives these replies, one a request.
    ///
    /// # Errors
    /// There is no such provider.
    pub fn or_script(&self, replies: impl IntoIterator<Item = Reply>) -> Result<FoundModel> {
        match &self.model {
            Some(name) => find_model(name),
            None => Ok(scripted(Replay::new(Script::new(replies)))),
        }
    }
}

/// A model by its name. Asks nobody yet: a key that is missing is told by the first request.
///
/// # Errors
/// There is no such provider.
pub fn find_model(name: &str) -> Result<FoundModel> {
    let models = ModelTable::builtin();
    let (info, name) = resolve(None, name, &models)?;
    let variable = |name: &str| std::env::var(name).ok();
    let config = ProviderConfig { name: info.name.to_owned(), ..ProviderConfig::default() };
    let context = ProviderContext {
        keys: Some(Arc::new(Keys::new(info).environment(variable))),
        region: variable(if info.name == "vertex" { "GOOGLE_CLOUD_LOCATION" } else { "AWS_REGION" }),
        project: variable("GOOGLE_CLOUD_PROJECT"),
        ..ProviderContext::default()
    };
    let provider = build_with(config, context, models.clone())?;
    let known = models.find(info.name, &name);
    let context_window = known.known.then_some(known.context_window);
    Ok(FoundModel { provider, model: Model { name, context_window, ..Model::default() } })
}

fn scripted(provider: impl Provider + 'static) -> FoundModel {
    FoundModel { provider: Arc::new(provider), model: Model { name: "script".to_owned(), ..Model::default() } }
}

/// A model that makes each reply from its request.
pub struct Offline<F>(F);

impl<F: Fn(&Request) -> Reply + Send + Sync + 'static> Offline<F> {
    /// One that answers so.
    pub fn model(answer: F) -> FoundModel {
        scripted(Self(answer))
    }
}

impl<F: Fn(&Request) -> Reply + Send + Sync> Provider for Offline<F> {
    fn name(&self) -> &str {
        "offline"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        Replay::new(Script::new([(self.0)(&request)])).stream(request, token)
    }
}
