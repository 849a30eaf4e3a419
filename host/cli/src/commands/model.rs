//! `pinion model`: known models, their features and prices, and the keys of their providers.

use clap::{Args, Subcommand};
use pinion_app::failure::{Failure, Result, with_causes};
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, left, print, text, tokens};
use pinion_providers::{Caching, KeyError, KeyOrigin, ModelSpec as KnownModel, ProviderInfo, ThinkingStyle};

/// The arguments of `pinion model`.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List known models with their limits, prices and features, and the providers' keys
    List {
        /// List only models and providers whose names contain this
        #[arg(value_name = "TEXT", default_value = "", hide_default_value = true)]
        filter: String,
    },
    /// Add a model that runs in Pinion: a known one, or from a file or an address
    #[cfg(feature = "local-models")]
    Pull(crate::local_models::commands::PullArgs),
    /// Remove a model that runs in Pinion
    #[cfg(feature = "local-models")]
    Remove(crate::local_models::commands::RemoveArgs),
}

impl ModelArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        match self.command {
            ModelCommand::List { filter } => list(&invocation.base()?, &filter.to_lowercase()).await,
            #[cfg(feature = "local-models")]
            ModelCommand::Pull(args) => args.run(invocation).await,
            #[cfg(feature = "local-models")]
            ModelCommand::Remove(args) => args.run(invocation),
        }
    }
}

async fn list(base: &Base, filter: &str) -> Result<()> {
    #[cfg(feature = "local-models")]
    let has_local = crate::local_models::commands::list(base, filter)?;
    #[cfg(not(feature = "local-models"))]
    let has_local = false;
    let models = base.models()?;
    let origins = base.key_origins().await;
    let is_configured = |model: &KnownModel| {
        origins.iter().any(|(info, origin)| info.name == model.provider && matches!(origin, Ok(Some(_))))
    };
    let matches = |name: &str| name.to_lowercase().contains(filter);
    let found: Vec<&KnownModel> = models
        .iter()
        .map(|model| &**model)
        .filter(|model| matches(&format!("{}/{}", model.provider, model.id)))
        .collect();
    let providers: Vec<_> = origins.iter().filter(|(info, _)| matches(info.name)).collect();
    if found.is_empty() && providers.is_empty() {
        if has_local {
            return Ok(());
        }
        return Err(Failure::usage(format!("no known model contains `{filter}`"))
            .hint("`pinion model list` lists all; a model that is not listed can be used as PROVIDER/MODEL"));
    }
    let mut text = Text::default();
    if !found.is_empty() {
        text.line(columns(["model (* has a key)", "context", "output", "$/M in/out", "features"]));
        found.iter().for_each(|model| text.line(row(model, is_configured(model))));
        text.line(text!("features: i images, t thinking, c caching, p parallel calls\n"));
    }
    if !providers.is_empty() {
        text.line(text!("{} {} key", left("provider", 16), left("default model", 30)));
    }
    for (info, origin) in providers {
        let (name, default, key) = (left(info.name, 16), info.default_model.unwrap_or("none"), key(info, origin));
        match default.len() {
            0..=30 => text.line(text!("{} {} {}", name, left(default, 30), key)),
            _ => {
                text.line(text!("{} {}", name, default));
                text.line(text!("{} {}", left("", 16), key));
            }
        }
    }
    print(&text)
}

/// Lays out a row of at most 80 columns, unless a name is very long.
fn columns([model, context, output, prices, features]: [&str; 5]) -> Text {
    let numbers = format!("{context:>7} {output:>6}  {prices:<10}");
    text!("{} {} {}", left(model, 44), numbers.as_str(), features)
}

fn row(model: &KnownModel, is_configured: bool) -> Text {
    let name = format!("{}{}/{}", if is_configured { "* " } else { "  " }, model.provider, model.id);
    let prices = model.prices(0).map_or("unknown".to_owned(), |prices| format!("{}/{}", prices.input, prices.output));
    let (context, output) = (tokens(model.context_window), tokens(model.max_output));
    columns([&name, &context, &output, &prices, &features(model)])
}

fn features(model: &KnownModel) -> String {
    let all = [
        ('i', model.images),
        ('t', model.thinking != ThinkingStyle::None),
        ('c', model.caching != Caching::None),
        ('p', model.parallel_tools),
    ];
    all.map(|(letter, has)| if has { letter } else { '-' }).iter().collect()
}

/// Describes the origin of a provider's key, or names the variable that sets it.
fn key(info: &ProviderInfo, origin: &Result<Option<KeyOrigin>, KeyError>) -> String {
    match (origin, info.key_variable) {
        (Ok(Some(origin)), _) => origin.to_string(),
        (Ok(None), Some(variable)) => format!("none (set {variable})"),
        (Ok(None), None) => "not needed".to_owned(),
        (Err(error), _) => with_causes(error),
    }
}
