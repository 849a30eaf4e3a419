//! The source of replies: a vendor's model or a script.

use crate::Result;
use pinion_agent::delegation::FoundModel;
use pinion_agent::provider::{EventStream, Request};
use pinion_agent::usage::PriceList;
use pinion_agent::{Model, Provider};
use pinion_providers::{
    KeySources, ModelTable, ProviderConfig, ProviderContext, Replay, Script, ScriptedReply, build_with, resolve,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Options that select a model.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// Model to use, such as `anthropic/claude-opus-5-5`, with its key in the environment [default: a script]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
}

impl ModelArgs {
    /// Returns the selected model, or one that gives these replies, one per request.
    ///
    /// # Errors
    /// The provider is unknown.
    pub fn or_script(&self, replies: impl IntoIterator<Item = ScriptedReply>) -> Result<FoundModel> {
        match &self.model {
            Some(name) => find_model(name),
            None => Ok(scripted(Replay::new(Script::new(replies)))),
        }
    }
}

/// Finds a model by name. Makes no request: the first request reports a missing key.
///
/// # Errors
/// The provider is unknown.
pub fn find_model(name: &str) -> Result<FoundModel> {
    let models = ModelTable::builtin();
    let (info, name) = resolve(None, name, &models)?;
    let variable = |name: &str| std::env::var(name).ok();
    let config = ProviderConfig { name: info.name.to_owned(), ..ProviderConfig::default() };
    let context = ProviderContext {
        keys: Some(Arc::new(KeySources::new(info).environment(variable))),
        region: variable(if info.name == "vertex" { "GOOGLE_CLOUD_LOCATION" } else { "AWS_REGION" }),
        project: variable("GOOGLE_CLOUD_PROJECT"),
        ..ProviderContext::default()
    };
    let provider = build_with(config, context, models.clone())?;
    let known = models.find(info.name, &name);
    let context_window = known.request_limit();
    let prices = known.prices(0).is_some().then_some(known as Arc<dyn PriceList>);
    Ok(FoundModel { provider, model: Model { name, context_window, prices } })
}

fn scripted(provider: impl Provider + 'static) -> FoundModel {
    FoundModel { provider: Arc::new(provider), model: Model { name: "script".to_owned(), ..Model::default() } }
}

/// A model that computes each reply from its request.
pub struct Offline<F>(F);

impl<F: Fn(&Request) -> ScriptedReply + Send + Sync + 'static> Offline<F> {
    /// Wraps `answer` as a model.
    pub fn model(answer: F) -> FoundModel {
        scripted(Self(answer))
    }
}

impl<F: Fn(&Request) -> ScriptedReply + Send + Sync> Provider for Offline<F> {
    fn name(&self) -> &str {
        "offline"
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        Replay::new(Script::new([(self.0)(&request)])).stream(request, token)
    }
}
