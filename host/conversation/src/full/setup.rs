//! The setup of a first conversation: stores the key of a provider, and the user's choice of a model.

use crate::full::canvas::{Canvas, unusable};
use crate::full::local_choices::local_choices;
use crate::full::{keyboard, lists, themes};
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::{create_directory, read_settings, replace};
use pinion_app::model::browser_login::WaitingLogin;
use pinion_app::model::{KeyVerdict, Lacking, SecretLocation, key_in};
use pinion_app::workspace_base::Base;
use pinion_console::args::RunArgs;
use pinion_console::output::{note, open_browser, text};
use pinion_tui::{EnteredKey, PickChoice, Setup, SetupRequest};
use secrecy::SecretString;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Time between two looks at a login.
const LOOK: Duration = Duration::from_millis(100);

/// Asks for a key if a conversation lacks one, and for a model. Returns the base of a conversation with the model; `None` if
/// nothing was asked, or if the user left. Then the start of the conversation reports the lack.
///
/// # Errors
/// The terminal cannot be used.
pub(super) async fn complete(base: &Base, args: &RunArgs) -> Result<Option<Base>> {
    let Some(lacking) = base.lacking_key(&args.options()).await else { return Ok(None) };
    let setup =
        Setup::new(themes::configured(base)?, providers(base), key_storage_name(base)).with_login(with_login(base));
    let setup = match lacking {
        Lacking::Any => setup,
        Lacking::Of(info) => setup.for_provider(info.name),
    };
    // The first frame waits for no server.
    let local = matches!(lacking, Lacking::Any).then(|| {
        let base = base.clone();
        AbortOnDropHandle::new(tokio::spawn(async move { local_choices(&base).await }))
    });
    let lost = keyboard::lost().map_err(unusable)?;
    let mut shown = SetupScreen { setup, canvas: Canvas::open(base, false)?, lost, login: None, test: None, local };
    let Some(begun) = shown.run(base, lacking).await? else { return Ok(None) };
    drop(shown);
    begun.iter().for_each(|model| keep_model(base, model));
    let model = begun.or_else(|| base.config.model.clone());
    Ok(Some(Base { config: Config { model, ..base.config.clone() }, ..base.clone() }))
}

fn providers(base: &Base) -> Vec<PickChoice> {
    let choice = |info: &pinion_providers::ProviderInfo| PickChoice {
        value: info.name.to_owned(),
        label: brand(info).to_owned(),
        detail: info.name.to_owned(),
    };
    base.providers_with_plain_keys().into_iter().map(choice).collect()
}

/// Returns the name that people know a provider by.
fn brand(info: &pinion_providers::ProviderInfo) -> &str {
    match info.name {
        "anthropic" => "Anthropic (Claude)",
        "gemini" => "Google (Gemini)",
        "openai-responses" => "OpenAI",
        "openai-chat" => "OpenAI (Chat Completions)",
        _ => info.label,
    }
}

/// Returns the providers that the user can log in to with a browser.
fn with_login(base: &Base) -> Vec<String> {
    let with_login = |info: &&pinion_providers::ProviderInfo| info.login_page.is_some();
    base.config.registry.iter().filter(with_login).map(|info| info.name.to_owned()).collect()
}

/// Names the place where keys are stored, which is known for certain once one was stored.
fn key_storage_name(base: &Base) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_program = std::env::split_paths(&path).any(|directory| directory.join("secret-tool").is_file());
    match cfg!(target_os = "linux") && has_program {
        true => "the keyring".to_owned(),
        false => format!("`{}`, which only you can read", base.paths.auth_file().display()),
    }
}

/// The setup on the terminal.
struct SetupScreen {
    setup: Setup,
    canvas: Canvas,
    /// Cancelled when the terminal is lost.
    lost: CancellationToken,
    login: Option<BrowserLoginTask>,
    /// The test of a key that is not stored yet.
    test: Option<KeyTest>,
    /// The search for models on this machine.
    local: Option<AbortOnDropHandle<Vec<PickChoice>>>,
}

/// A login with a browser that waits for the user.
struct BrowserLoginTask {
    provider: String,
    /// Takes the address that a browser elsewhere was redirected to.
    redirected: Option<oneshot::Sender<String>>,
    key: AbortOnDropHandle<Result<SecretString>>,
}

/// The test of a key that was entered.
struct KeyTest {
    provider: String,
    entered: EnteredKey,
    secret: SecretString,
    verdict: AbortOnDropHandle<KeyVerdict>,
}

impl KeyTest {
    fn begin(base: &Base, provider: String, entered: EnteredKey, secret: SecretString) -> Self {
        let (base, name, key) = (base.clone(), provider.clone(), secret.clone());
        let verdict = AbortOnDropHandle::new(tokio::spawn(async move { base.check_key(&name, &key).await }));
        Self { provider, entered, secret, verdict }
    }
}

impl SetupScreen {
    /// Shows the setup until it is complete. Returns the model, if one was chosen; the outer `None` if the user left.
    async fn run(&mut self, base: &Base, lacking: Lacking) -> Result<Option<Option<String>>> {
        let mut inputs = self.canvas.inputs();
        // A message that was typed ahead is no key of a provider.
        inputs.discard();
        loop {
            self.canvas.draw_setup(&mut self.setup)?;
            // Reading ends before the conversation begins, which would miss the keys that another reader takes.
            let is_waiting = self.login.is_some() || self.test.is_some() || self.local.is_some();
            let reading = tokio::task::spawn_blocking(move || {
                let read = if is_waiting { inputs.read_within(LOOK) } else { inputs.read() };
                // The conversation asks for it again.
                let _ = inputs.background();
                (inputs, read)
            });
            let (reader, read) = tokio::select! {
                biased;
                () = self.lost.cancelled() => return Err(Failure::failed("the terminal is gone")),
                read = reading => read.map_err(|error| unusable(io::Error::other(error)))?,
            };
            inputs = reader;
            let read = read.map_err(unusable)?;
            let (mut stored, mut tested) = (None, String::new());
            for event in read {
                if let crossterm::event::Event::Resize(columns, rows) = event {
                    self.canvas.resize(columns, rows);
                }
                match self.setup.handle(&event) {
                    None => {}
                    Some(SetupRequest::Leave) => return Ok(None),
                    Some(SetupRequest::Begin(model)) => return Ok(Some(model)),
                    Some(SetupRequest::LogIn { provider }) => self.log_in(base, provider).await,
                    Some(SetupRequest::Redirected(address)) => {
                        let sender = self.login.as_mut().and_then(|login| login.redirected.take());
                        // A login that has just ended needs no address.
                        let _ = sender.map(|sender| sender.send(address.into_text()));
                    }
                    Some(SetupRequest::StopLogin) => self.login = None,
                    Some(SetupRequest::Store { provider, key }) => match key_in(&key.clone().into_text()) {
                        Ok(secret) => {
                            self.setup.testing();
                            self.test = Some(KeyTest::begin(base, provider, key, secret));
                        }
                        Err(problem) => stored = Some((provider, Err(format!("{problem}.")))),
                    },
                    Some(SetupRequest::SkipTest) => {
                        tested = ", and was not tested".to_owned();
                        stored = self.test.take().map(|test| (test.provider, Ok(test.secret)));
                    }
                    Some(SetupRequest::Keep { provider, key }) => {
                        self.canvas.draw_setup(&mut self.setup)?;
                        tested = format!(", although {provider} refuses it");
                        stored = Some((provider, key_in(&key.into_text()).map_err(|problem| format!("{problem}."))));
                    }
                }
            }
            if let Some(local) = self.local.take_if(|local| local.is_finished()) {
                self.setup.found_models(local.await.unwrap_or_default());
            }
            if let Some(test) = self.test.take_if(|test| test.verdict.is_finished()) {
                let Some((provider, secret, verdict)) = self.conclude(test).await else { continue };
                (stored, tested) = (Some((provider, Ok(secret))), verdict);
            }
            if let Some(login) = self.login.take_if(|login| login.key.is_finished()) {
                let key = login.key.await.unwrap_or_else(|error| Err(Failure::failed(error.to_string())));
                stored = Some((login.provider, key.map_err(|failure| failure.to_string())));
            }
            let Some((provider, key)) = stored else { continue };
            let Some(place) = self.store(base, &provider, key).await else { continue };
            let models = models(base, &provider);
            if matches!(lacking, Lacking::Of(_)) || models.is_empty() {
                return Ok(Some(None));
            }
            self.setup.models(models, &format!("{place}{tested}"));
        }
    }

    /// Returns the provider and the key of a test that ended, with the end of the sentence about it; `None` if the key is
    /// refused, which is shown.
    async fn conclude(&mut self, test: KeyTest) -> Option<(String, SecretString, String)> {
        let KeyTest { provider, entered, secret, verdict } = test;
        match verdict.await.unwrap_or_else(|error| KeyVerdict::Unknown(error.to_string())) {
            KeyVerdict::Accepted => Some((provider, secret, ", and works".to_owned())),
            KeyVerdict::Unknown(problem) => Some((provider, secret, format!(", and was not tested: {problem}"))),
            KeyVerdict::Refused(problem) => {
                let rest = "Press enter to store it all the same, or paste another one.";
                self.setup.refused(format!("{provider} refuses this key: {problem}. {rest}"), entered);
                None
            }
        }
    }

    /// Begins a login. A problem is shown.
    async fn log_in(&mut self, base: &Base, provider: String) {
        let begun = match base.config.registry.provider(&provider).map_err(Failure::from) {
            Ok(info) => WaitingLogin::begin(base, info).await,
            Err(failure) => Err(failure),
        };
        match begun {
            Err(failure) => self.setup.failed(failure.to_string()),
            Ok(login) => {
                open_browser(&login.page);
                self.setup.opened(login.page.as_str());
                let (sender, receiver) = oneshot::channel();
                let key = AbortOnDropHandle::new(tokio::spawn(login.key(async { receiver.await.ok() })));
                self.login = Some(BrowserLoginTask { provider, redirected: Some(sender), key });
            }
        }
    }

    /// Stores a key. A problem is shown, and the user asked again.
    async fn store(
        &mut self,
        base: &Base,
        provider: &str,
        key: std::result::Result<SecretString, String>,
    ) -> Option<SecretLocation> {
        let key = key.map_err(|problem| self.setup.failed(problem)).ok()?;
        base.store_key(provider, &key).await.map_err(|failure| self.setup.failed(failure.to_string())).ok()
    }
}

/// Lists the models of a provider, its default first.
fn models(base: &Base, provider: &str) -> Vec<PickChoice> {
    let default = base.config.registry.provider(provider).ok().and_then(|info| info.default_model);
    let Ok(models) = base.models() else { return Vec::new() };
    let is_default = |id: &str| default == Some(id);
    let choice = |model: &pinion_providers::ModelSpec| {
        let name = format!("{}/{}", model.provider, model.id);
        let default = if is_default(&model.id) { "default · " } else { "" };
        PickChoice { value: name.clone(), label: name, detail: format!("{default}{}", lists::abilities(model)) }
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

/// Writes the model before everything else in a config without a model.
fn set_model(file: &Path, model: &str) -> io::Result<()> {
    create_directory(file.parent().unwrap_or(Path::new(".")))?;
    // The config may be a link to a file that the user keeps elsewhere.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let text = read_settings(&file)?.unwrap_or_default();
    let line = toml::Table::from_iter([("model".to_owned(), toml::Value::String(model.to_owned()))]);
    replace(&file, format!("{line}{text}").as_bytes())
}
