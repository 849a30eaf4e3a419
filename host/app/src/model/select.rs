//! Selection of a model and its provider, with its address and its key.
//!
//! The providers themselves read neither environment nor files. Besides keys, this module reads the settings that the
//! vendors' own tools take from the environment (a region, a project, an endpoint). The config overrides them.

use crate::config::file::FileProvider;
use crate::config::providers;
use crate::failure::{Failure, Result};
use crate::files::private::{create_directory, read_file, read_settings, replace};
use crate::model::environment::{certificate_notices, gcloud_credentials, proxies_or};
use crate::model::exchanges::Exchanges;
use crate::model::prices::FallbackPrices;
use crate::options::RunOptions;
use crate::process::hardening;
use crate::process::key_commands::KeyCommandSandbox;
use crate::workspace_base::Base;
use futures_util::future::join_all;
use pinion_agent::Provider;
use pinion_agent::provider::ThinkingLevel;
use pinion_agent::secrets::RedactedProvider;
use pinion_providers::{
    BrowserLogin, Fallback, FallbackMember, KeyError, KeyOrigin, KeySources, ModelTable, PlatformKeyring,
    ProviderConfig, ProviderContext, ProviderInfo, Registry, RegistryError, Replay, Script, ServedWindow,
    ThinkingStyle, TransportSettings, build_info,
};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The remedy for a malformed table of models.
const MODEL_FORM: &str = "begin each model with `[[PROVIDER.models]]`, followed by lines such as `id = \"NAME\"` and \
                          `context-window = 32_768`";

/// Notices that are remembered.
const MAX_NOTICES: usize = 200;

/// A model and its provider, ready for requests.
pub struct Chosen {
    /// `PROVIDER/MODEL`.
    pub label: String,
    /// The provider, with the user's fallbacks.
    pub provider: Arc<dyn Provider>,
    /// The model.
    pub model: pinion_agent::Model,
    /// The server that may tell the context window, if nothing here says it.
    pub window: Option<Arc<ServedWindow>>,
    /// The models that are asked when it fails, `PROVIDER/MODEL`.
    pub fallbacks: Vec<String>,
    /// Notices for the user.
    pub notices: Vec<String>,
}

impl Chosen {
    /// A model that replies from a script.
    pub fn scripted(script: Script, model: &str) -> Self {
        Self {
            label: format!("replay/{model}"),
            provider: Arc::new(Replay::new(script)),
            model: pinion_agent::Model { name: model.to_owned(), ..pinion_agent::Model::default() },
            window: None,
            fallbacks: Vec::new(),
            notices: Vec::new(),
        }
    }
}

impl Base {
    /// Loads the known models: the built-in table with the user's own over it.
    pub fn models(&self) -> Result<Arc<ModelTable>> {
        let file = self.paths.models_file();
        let text = read_settings(&file)
            .map_err(|error| Failure::usage(format!("could not read `{}`", file.display())).because(error))?;
        let table = match text {
            Some(text) => {
                let own = ModelTable::read(&text)
                    .map_err(|error| Failure::usage(format!("`{}`", file.display())).because(error).hint(MODEL_FORM))?;
                Arc::new(ModelTable::builtin().with(&own))
            }
            None => ModelTable::builtin(),
        };
        match self.config.providers.values().any(providers::has_models) {
            true => Ok(Arc::new(table.with(&providers::models(&self.config.providers)?))),
            false => Ok(table),
        }
    }

    /// Selects the model of a run, with its fallbacks.
    pub async fn chosen(&self, options: &RunOptions) -> Result<Chosen> {
        if let Exchanges::Scripted(script) = &self.exchanges {
            return self.scripted(script, options);
        }
        let models = self.models()?;
        let base_url = options.base_url.as_deref();
        let playback = self.exchanges.playback();
        let mut first = match (&self.config.model, playback.as_ref().and_then(|playback| playback.recipient())) {
            // A replay asks the recorded provider, unless the command line names another.
            (_, Some(asked)) if options.model.is_none() => {
                let base_url = base_url.or(asked.base_url.as_deref());
                self.select(Some(&asked.provider), &asked.model, base_url, &models).await?
            }
            (Some(model), _) => self.select(self.config.provider.as_deref(), model, None, &models).await?,
            (None, _) if base_url.is_some() && self.config.provider.is_none() => {
                return Err(Failure::usage("--base-url needs the provider whose address it is")
                    .hint("name one with --provider NAME or --model PROVIDER/MODEL"));
            }
            (None, _) => {
                let (info, model) = self.default_model().await?;
                self.select(Some(info.name), model, None, &models).await?
            }
        };
        // A script has no use for it at each run.
        if first.take_known_window(&self.paths) && options.is_conversation {
            first.notices.extend(self.unknown_window(&first));
        }
        self.with_fallback(first, &models).await
    }

    /// Returns the default model of the named provider, or else of the first one that has a key.
    pub(super) async fn default_model(&self) -> Result<(&'static ProviderInfo, &'static str)> {
        if let Some(name) = &self.config.provider {
            let info = self.config.registry.provider(name).map_err(Failure::from)?;
            if info.is_scripted() {
                return Err(Failure::usage("the provider `replay` needs a script").hint("name one with --replay FILE"));
            }
            let base_url = self.base_url_of(info, self.base_url.clone());
            let default = info.named_default_model(base_url.as_deref());
            return Ok((info, default.ok_or(RegistryError::NeedsModel { provider: info.name })?));
        }
        let has_default = |info: &&'static ProviderInfo| {
            let model = info.default_model(self.base_url_of(info, None).as_deref());
            model.map(|model| (*info, model))
        };
        let in_environment = |info: &ProviderInfo| {
            info.key_variables().any(|name| hardening::variable(name).is_some_and(|key| !key.trim().is_empty()))
        };
        let infos: Vec<_> = self.config.registry.iter().filter_map(|info| has_default(&info)).collect();
        if let Some(first) = infos.iter().find(|(info, _)| in_environment(info)) {
            return Ok(*first);
        }
        let origins = join_all(infos.iter().map(async |(info, _)| self.keys(info).origin().await)).await;
        let has_key = |origin: &Result<Option<KeyOrigin>, KeyError>| matches!(origin, Ok(Some(_)));
        let is_open =
            |info: &ProviderInfo| info.key_variable.is_none() && self.config.providers.contains_key(info.name);
        let mut found = infos.iter().zip(&origins).filter(|((info, _), origin)| has_key(origin) || is_open(info));
        found.next().map(|(first, _)| *first).ok_or_else(no_model)
    }

    /// Returns the base URL of a provider: `flag`, or else from the config, or else from the vendor's own variables.
    pub(super) fn base_url_of(&self, info: &ProviderInfo, flag: Option<String>) -> Option<String> {
        let said = self.config.providers.get(info.name).and_then(|said| said.base_url.clone());
        flag.or(said).or_else(|| info.base_url_from(hardening::variable))
    }

    /// Selects another model for a conversation.
    pub async fn other_model(&self, name: &str) -> Result<Chosen> {
        if let Exchanges::Scripted(_) = &self.exchanges {
            return Err(Failure::usage("cannot switch models: a script replaces the model"));
        }
        self.named_model(name).await
    }

    /// Selects a model by name, with the same fallbacks as the first one, and at the same address if it has the same
    /// provider.
    pub async fn named_model(&self, name: &str) -> Result<Chosen> {
        let models = self.models()?;
        let mut chosen = self.select(None, name, None, &models).await?;
        chosen.take_known_window(&self.paths);
        self.with_fallback(chosen, &models).await
    }

    /// Selects the script as the model. It costs nothing, so a cost limit in the config is met. A limit on the command
    /// line needs `--model` to name the model whose prices apply.
    fn scripted(&self, script: &Script, options: &RunOptions) -> Result<Chosen> {
        let name = options.model.as_deref().unwrap_or("script");
        let mut chosen = Chosen::scripted(script.clone(), name);
        chosen.provider = Arc::new(RedactedProvider::new(chosen.provider, self.secrets.clone()));
        if options.max_cost.is_some_and(|max| max > 0.0) {
            let models = self.models()?;
            let known = self
                .config
                .registry
                .resolve(None, name, &models)
                .ok()
                .map(|(info, name)| models.find(info.name, &name));
            let known = known.filter(|known| known.prices(0).is_some());
            let known = known.ok_or_else(|| self.no_price(&chosen.label))?;
            chosen.model.prices = Some(known);
        }
        Ok(self.attributed(chosen))
    }

    fn no_price(&self, label: &str) -> Failure {
        Failure::usage(format!("cannot limit the cost: the prices of `{label}` are unknown")).hint(format!(
            "add the model with its `prices` to `{}`, or remove the cost limit (--max-cost or `max-cost`)",
            self.paths.models_file().display()
        ))
    }

    /// Returns `--base-url` if it applies to this provider. It applies to the provider of the model named with it, and
    /// to providers with the same key, which the user has set for that address.
    pub(super) fn base_url_flag(&self, info: &ProviderInfo, models: &ModelTable) -> Option<String> {
        let url = self.base_url.clone()?;
        let registry = &self.config.registry;
        let named = match (&self.config.provider, &self.config.model) {
            (provider, Some(model)) => registry.resolve(provider.as_deref(), model, models).ok()?.0,
            (Some(provider), None) => registry.provider(provider).ok()?,
            (None, None) => return None,
        };
        let shares_key = named.key_variable.is_some() && named.key_variable == info.key_variable;
        (named.name == info.name || shares_key).then_some(url)
    }

    async fn with_fallback(&self, first: Chosen, models: &Arc<ModelTable>) -> Result<Chosen> {
        if self.config.fallback.is_empty() {
            return Ok(self.attributed(first));
        }
        let Chosen { label, provider, mut model, window, mut fallbacks, mut notices } = first;
        let mut others = Vec::new();
        let mut prices = FallbackPrices { first: model.prices, others: BTreeMap::new() };
        for name in &self.config.fallback {
            let other = self.select(None, name, None, models).await?;
            if other.label == label {
                continue;
            }
            notices.extend(other.notices);
            let (provider, model) = (other.provider, other.model);
            let member = FallbackMember { provider, model: model.name };
            fallbacks.push(member.label());
            prices.others.insert(member.label(), model.prices);
            others.push(member);
        }
        let fallback = Fallback::new(FallbackMember { provider, model: model.name.clone() }, others);
        model.prices = Some(Arc::new(prices));
        Ok(self.attributed(Chosen { label, provider: Arc::new(fallback), model, window, fallbacks, notices }))
    }

    /// Selects a model by name, with or without its provider.
    async fn select(
        &self,
        provider_name: Option<&str>,
        model: &str,
        base_url: Option<&str>,
        models: &Arc<ModelTable>,
    ) -> Result<Chosen> {
        if let Some(chosen) = self.in_process_model(provider_name, model)? {
            return Ok(chosen);
        }
        let (info, name) = self.resolve(provider_name, model, models).await?;
        let said = self.config.providers.get(info.name).cloned().unwrap_or_default();
        let base_url = base_url.map(str::to_owned).or_else(|| self.base_url_flag(info, models));
        let base_url = self.base_url_of(info, base_url);
        if self.lacks_key(info, base_url.as_deref()).await? {
            return Err(no_key(info, self));
        }
        let keys = self.keys(info);
        let is_plain = base_url.as_deref().is_some_and(|url| url.trim().to_lowercase().starts_with("http:"));
        let mut notices = if is_plain { Vec::new() } else { certificate_notices() };
        let similar = Registry::similar_models(info, &name, models);
        if let Some(nearest) = similar.first().filter(|_| base_url.is_none()) {
            notices.push(format!("`{}` lists no model `{name}` (did you mean `{nearest}`?)", info.name));
        }
        if let Some(url) = base_url.as_deref().filter(|url| is_in_the_clear(url))
            && (!said.headers.is_empty() || matches!(keys.origin().await, Ok(Some(_))))
        {
            notices.push(format!("the key for `{}` is sent unencrypted to `{}` (use https)", info.name, host_of(url)));
        }
        let context = ProviderContext {
            secrets: self.secrets.clone(),
            region: said.region.clone().or_else(|| info.region_from(hardening::variable)),
            project: said.project.clone().or_else(|| info.project_from(hardening::variable)),
            keys: Some(Arc::new(keys)),
            certificates: certificates(&said)?,
            recorder: self.exchanges.recorder(),
            playback: self.exchanges.playback(),
        };
        let known = models.find(info.name, &name);
        let is_unknown = known.thinking == ThinkingStyle::OnRequest;
        if self.config.thinking != ThinkingLevel::Off && is_unknown && !info.takes_thinking(base_url.as_deref(), &known)
        {
            let reason = "has no effect: no parameter for the amount of thinking is known for";
            notices.push(format!("`thinking` {reason} `{}/{name}`", info.name));
        }
        let config = provider_config(info, said, base_url);
        let is_asked = known.request_limit().is_none() && self.exchanges.playback().is_none();
        let window = match is_asked {
            true => {
                ServedWindow::from_config(info, config.clone(), &name, &context).map_err(Failure::from)?.map(Arc::new)
            }
            false => None,
        };
        let provider = build_info(info, config, context, models.clone()).map_err(Failure::from)?;
        if self.config.limits.max_cost.is_some() && known.prices(0).is_none() {
            return Err(self.no_price(&format!("{}/{name}", info.name)));
        }
        let model = pinion_agent::Model { name, prices: Some(known.clone()), context_window: known.request_limit() };
        let label = format!("{}/{}", info.name, model.name);
        Ok(Chosen { label, provider, model, window, fallbacks: Vec::new(), notices })
    }

    /// Returns whether requests to a provider need a key that no source has. A server at an address of the user's choice may
    /// work without a key, and a recording always does.
    pub(super) async fn lacks_key(&self, info: &'static ProviderInfo, base_url: Option<&str>) -> Result<bool> {
        let has_headers = self.config.providers.get(info.name).is_some_and(|said| !said.headers.is_empty());
        let needs_key = info.needs_key(base_url) && !has_headers && self.exchanges.playback().is_none();
        Ok(needs_key && self.key_origin(info).await.map_err(Failure::from)?.is_none())
    }

    /// Returns a notice if the size of conversations with this model is a guess.
    fn unknown_window(&self, chosen: &Chosen) -> Option<String> {
        let policy = &self.config.compaction;
        let assumed = policy.assumed_window.filter(|_| policy.automatic && chosen.model.context_window.is_none())?;
        let (provider, _) = chosen.label.split_once('/')?;
        if !self.is_first_notice(&format!("window of {}", chosen.label)) {
            return None;
        }
        Some(format!(
            "the context window of `{label}` is unknown: {assumed} tokens are assumed\n\
             hint: `pinion config set providers.{provider}.context-window TOKENS` sets another",
            label = chosen.label,
        ))
    }

    /// Returns whether a notice has not been given before, and remembers it. One that cannot be remembered is given again.
    fn is_first_notice(&self, notice: &str) -> bool {
        let file = self.paths.data.join("notices");
        let given = read_settings(&file).ok().flatten().unwrap_or_default();
        if given.lines().any(|other| other == notice) {
            return false;
        }
        let kept = given.lines().rev().take(MAX_NOTICES).collect::<Vec<_>>();
        let text: String = kept.into_iter().rev().chain([notice]).map(|line| format!("{line}\n")).collect();
        if let Err(error) = create_directory(&self.paths.data).and_then(|()| replace(&file, text.as_bytes())) {
            tracing::debug!(%error, "a notice is not remembered");
        }
        true
    }

    /// Begins a login to a provider with a browser, at its configured address; `None` if the provider has no such
    /// login. `verifier` is a secret of this login.
    ///
    /// # Errors
    /// The configuration of the provider is invalid.
    pub(super) fn begin_login(
        &self,
        info: &'static ProviderInfo,
        verifier: SecretString,
    ) -> Result<Option<BrowserLogin>> {
        let said = self.config.providers.get(info.name).cloned().unwrap_or_default();
        let base_url = self.base_url_of(info, None);
        let context = ProviderContext { certificates: certificates(&said)?, ..ProviderContext::default() };
        BrowserLogin::begin(info, provider_config(info, said, base_url), &context, verifier).map_err(Failure::from)
    }

    /// Returns the sources of a provider's key: the environment, the keyring, `auth.toml` and the user's command.
    fn keys(&self, info: &'static ProviderInfo) -> KeySources {
        let keys = KeySources::new(info)
            .environment(hardening::variable)
            .keyring(Arc::new(PlatformKeyring))
            .auth_file(self.paths.auth_file());
        let keys = match gcloud_credentials() {
            Some(file) => keys.google_default_credentials(file),
            None => keys,
        };
        let Some(said) = self.config.providers.get(info.name) else { return keys };
        match &said.key_command {
            Some(line) => {
                let sandbox = KeyCommandSandbox::new(&self.config.sandbox, &self.paths, &self.permissions.audit);
                let setting = format!("`key-command-grants` of `[providers.{}]`", info.name);
                keys.command(sandbox.key_command(line, &said.key_command_grants, &setting))
            }
            None => keys,
        }
    }

    /// Finds the origin of the key of a provider.
    pub async fn key_origin(&self, info: &'static ProviderInfo) -> Result<Option<KeyOrigin>, KeyError> {
        self.keys(info).origin().await
    }

    /// Finds the origin of the key of each provider that takes one.
    pub async fn key_origins(&self) -> Vec<(&'static ProviderInfo, Result<Option<KeyOrigin>, KeyError>)> {
        let takes_key = |info: &&'static ProviderInfo| !info.is_scripted();
        join_all(self.config.registry.iter().filter(takes_key).map(async |info| (info, self.key_origin(info).await)))
            .await
    }
}

fn no_model() -> Failure {
    Failure::usage("no model selected").hint(
        "store a key with `pinion login`, set one such as ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY (`pinion \
         model list` shows all), or name a model, such as `--model anthropic/sonnet`; `pinion demo` needs none of them",
    )
}

fn no_key(info: &ProviderInfo, base: &Base) -> Failure {
    Failure::usage(format!("no key for `{}`", info.name)).hint(format!(
        "store one with `pinion login {name}`, set the environment variable {}, add `[{name}]` and `key = \"…\"` to `{}` \
         (mode 0600), or set a `key-command` in the config",
        info.key_variable.unwrap_or_default(),
        base.paths.auth_file().display(),
        name = info.name,
    ))
}

pub(super) fn provider_config(info: &ProviderInfo, said: FileProvider, base_url: Option<String>) -> ProviderConfig {
    let usual = TransportSettings::default();
    let proxy = proxies_or(said.proxy.as_deref(), &format!("[providers.{}] proxy", info.name));
    ProviderConfig {
        name: info.name.to_owned(),
        base_url,
        api_key: None,
        headers: said.headers.into_iter().map(|(name, value)| (name, SecretString::from(value))).collect(),
        http: TransportSettings {
            connect_timeout: seconds(said.connect_timeout_seconds, usual.connect_timeout),
            header_timeout: seconds(said.header_timeout_seconds, usual.header_timeout),
            idle_timeout: seconds(said.idle_timeout_seconds, usual.idle_timeout),
            proxy,
        },
    }
}

/// Returns whether requests to `url` are readable in transit. Requests to this machine are not in transit.
fn is_in_the_clear(url: &str) -> bool {
    let is_plain = url.trim().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let host = host_of(url);
    let is_loopback = host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_plain && !is_loopback
}

/// Returns the host of a URL without its port.
fn host_of(url: &str) -> &str {
    let rest = url.trim().split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Reads the user's own certificate authorities in PEM format.
pub(super) fn certificates(said: &FileProvider) -> Result<Vec<u8>> {
    let Some(file) = &said.certificates else { return Ok(Vec::new()) };
    read_file(file).map_err(|error| Failure::usage(format!("could not read `{}`", file.display())).because(error))
}

fn seconds(said: Option<u64>, default: Duration) -> Duration {
    said.map_or(default, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_this_machine_are_not_in_transit() {
        for url in ["https://h", "http://localhost:8080/v1", "http://127.0.0.1", "http://[::1]:1/", "http://127.8.8.8"]
        {
            assert!(!is_in_the_clear(url), "{url}");
        }
        for url in
            ["http://h", "HTTP://10.0.0.1/v1", "http://localhost@h", "http://127.0.0.1.example:1", "http://[::2]"]
        {
            assert!(is_in_the_clear(url), "{url}");
        }
    }
}
