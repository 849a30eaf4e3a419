//! `pinion model`: known models, their features and prices, and the keys of their providers.

use crate::base::Base;
use crate::failure::{Result, chain};
use crate::invocation::Invocation;
use crate::output::{Text, left, print, text};
use clap::{Args, Subcommand};
use pinion_providers::{Caching, KeyError, KeyOrigin, Model as KnownModel, ProviderInfo, ThinkingStyle};

/// The arguments of `pinion model`.
#[derive(Debug, Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List known models with their limits, prices and features, and the providers' keys
    List,
}

impl Model {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        match self.command {
            ModelCommand::List => list(&invocation.base()?).await,
        }
    }
}

async fn list(base: &Base) -> Result<()> {
    let models = base.models()?;
    let origins = base.key_origins().await;
    let is_configured = |model: &KnownModel| {
        origins.iter().any(|(info, origin)| info.name == model.provider && matches!(origin, Ok(Some(_))))
    };
    let mut text = Text::default();
    text.line(columns(["model (* has a key)", "context", "output", "US$/M in, out, cached", "can", "as of"]));
    for model in models.iter() {
        text.line(row(model, is_configured(model)));
    }
    text.push(text!("\nprovider         default model                  key\n"));
    for (info, origin) in &origins {
        let default = info.default_model.unwrap_or("none");
        text.line(text!("{} {} {}", left(info.name, 16), left(default, 30), key(info, origin)));
    }
    print(&text)
}

fn columns([model, context, output, prices, can, date]: [&str; 6]) -> Text {
    let (context, output) = (format!("{context:>7}"), format!("{output:>7}"));
    let numbers = text!("{} {}", context.as_str(), output.as_str());
    text!("{} {}  {} {} {}", left(model, 46), numbers, left(prices, 21), left(can, 33), date)
}

fn row(model: &KnownModel, is_configured: bool) -> Text {
    let name = format!("{}{}/{}", if is_configured { "* " } else { "  " }, model.provider, model.id);
    let prices = model
        .prices(0)
        .map_or("unknown".to_owned(), |prices| format!("{}, {}, {}", prices.input, prices.output, prices.cache_read));
    let can = abilities(model).join(" ");
    let (context, output) = (thousands(model.context_window), thousands(model.max_output));
    columns([&name, &context, &output, &prices, &can, &model.date])
}

fn abilities(model: &KnownModel) -> Vec<&'static str> {
    let all = [
        ("images", model.images),
        ("thinking", model.thinking != ThinkingStyle::None),
        ("caching", model.caching != Caching::None),
        ("parallel", model.parallel_tools),
    ];
    all.into_iter().filter_map(|(name, can)| can.then_some(name)).collect()
}

/// Describes the origin of a provider's key, or names the variable that sets it.
fn key(info: &ProviderInfo, origin: &Result<Option<KeyOrigin>, KeyError>) -> String {
    match (origin, info.key_variable) {
        (Ok(Some(origin)), _) => origin.to_string(),
        (Ok(None), Some(variable)) => format!("none (set {variable})"),
        (Ok(None), None) => "not needed".to_owned(),
        (Err(error), _) => chain(error),
    }
}

fn thousands(tokens: u64) -> String {
    if tokens >= 1_000_000 { format!("{:.1} M", tokens as f64 / 1e6) } else { format!("{} k", tokens / 1000) }
}
