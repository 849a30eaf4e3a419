//! The setup of a first conversation: stores the key of a provider, and the user's choice of a model.

use crate::args::RunArgs;
use crate::base::Base;
use crate::commands::model::tokens;
use crate::config::Config;
use crate::failure::Result;
use crate::files::private::{create_directory, read_settings, replace};
use crate::model::{Lacking, Place, key_in};
use crate::output::{note, text};
use crate::run::full::canvas::{Canvas, unusable};
use crate::run::full::themes;
use pinion_tui::terminal;
use pinion_tui::{Choice, EnteredKey, Setup, SetupRequest};
use std::io;
use std::path::Path;

/// Asks for a key if a conversation lacks one, and for a model. Returns the base of a conversation with the model; `None` if
/// nothing was asked, or if the user left, of which the start of the conversation reports the lack.
///
/// # Errors
/// The terminal cannot be used.
pub(super) async fn complete(base: &Base, args: &RunArgs) -> Result<Option<Base>> {
    let Some(lacking) = base.lacking_key(args).await else { return Ok(None) };
    let setup = Setup::new(themes::configured(base)?, providers(base), place(base));
    let setup = match lacking {
        Lacking::Any => setup,
        Lacking::Of(info) => setup.for_provider(info.name),
    };
    let mut shown = Shown { setup, canvas: Canvas::open(base, false)? };
    let Some(begun) = shown.run(base, lacking).await? else { return Ok(None) };
    drop(shown);
    begun.iter().for_each(|model| keep_model(base, model));
    let model = begun.or_else(|| base.config.model.clone());
    Ok(Some(Base { config: Config { model, ..base.config.clone() }, ..base.clone() }))
}

fn providers(base: &Base) -> Vec<Choice> {
    let choice = |info: &pinion_providers::ProviderInfo| Choice {
        value: info.name.to_owned(),
        label: info.name.to_owned(),
        detail: info.label.to_owned(),
    };
    base.providers_with_plain_keys().into_iter().map(choice).collect()
}

/// Names the place where keys are stored, which is known for certain once one was stored.
fn place(base: &Base) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_program = std::env::split_paths(&path).any(|directory| directory.join("secret-tool").is_file());
    match cfg!(target_os = "linux") && has_program {
        true => "the keyring".to_owned(),
        false => format!("`{}`, which only you can read", base.paths.auth_file().display()),
    }
}

/// The setup on the terminal.
struct Shown {
    setup: Setup,
    canvas: Canvas,
}

impl Shown {
    /// Shows the setup until it is complete. Returns the model, if one was chosen; the outer `None` if the user left.
    async fn run(&mut self, base: &Base, lacking: Lacking) -> Result<Option<Option<String>>> {
        loop {
            self.canvas.draw_setup(&mut self.setup)?;
            let read = tokio::task::spawn_blocking(terminal::read_inputs).await;
            for event in read.map_err(|error| unusable(io::Error::other(error)))?.map_err(unusable)? {
                if let crossterm::event::Event::Resize(columns, rows) = event {
                    self.canvas.resize(columns, rows);
                }
                match self.setup.handle(&event) {
                    None => {}
                    Some(SetupRequest::Leave) => return Ok(None),
                    Some(SetupRequest::Begin(model)) => return Ok(Some(model)),
                    Some(SetupRequest::Store { provider, key }) => {
                        self.canvas.draw_setup(&mut self.setup)?;
                        let Some(place) = self.store(base, &provider, key).await else { continue };
                        let models = models(base, &provider);
                        if matches!(lacking, Lacking::Of(_)) || models.is_empty() {
                            return Ok(Some(None));
                        }
                        self.setup.models(models, &place.to_string());
                    }
                }
            }
        }
    }

    /// Stores a key. A problem is shown, and the user asked again.
    async fn store(&mut self, base: &Base, provider: &str, key: EnteredKey) -> Option<Place> {
        let key = key_in(&key.into_text()).map_err(|problem| self.setup.failed(format!("{problem}."))).ok()?;
        base.store_key(provider, &key).await.map_err(|failure| self.setup.failed(failure.to_string())).ok()
    }
}

/// Lists the models of a provider, its default first.
fn models(base: &Base, provider: &str) -> Vec<Choice> {
    let default = base.config.registry.provider(provider).ok().and_then(|info| info.default_model);
    let Ok(models) = base.models() else { return Vec::new() };
    let is_default = |id: &str| default == Some(id);
    let choice = |model: &pinion_providers::Model| {
        let name = format!("{}/{}", model.provider, model.id);
        let default = if is_default(&model.id) { "default · " } else { "" };
        Choice {
            value: name.clone(),
            label: name,
            detail: format!("{default}{} context", tokens(model.context_window)),
        }
    };
    let mut models: Vec<_> = models.iter().filter(|model| model.provider == provider).collect();
    models.sort_by_key(|model| !is_default(&model.id));
    models.into_iter().map(|model| choice(model)).collect()
}

/// Makes a model the default of all conversations. Reports a failure, which costs only the choice.
fn keep_model(base: &Base, model: &str) {
    if let Err(error) = set_model(&base.paths.config_file(), model) {
        note(&text!(
            "! the model is used once: could not write it to `{}`: {}",
            base.paths.config_file(),
            error.to_string()
        ));
    }
}

/// Writes the model before everything else in the config, which has none.
fn set_model(file: &Path, model: &str) -> io::Result<()> {
    create_directory(file.parent().unwrap_or(Path::new(".")))?;
    // The config may be a link to a file that the user keeps elsewhere.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let text = read_settings(&file)?.unwrap_or_default();
    let line = toml::Table::from_iter([("model".to_owned(), toml::Value::String(model.to_owned()))]);
    replace(&file, format!("{line}{text}").as_bytes())
}
