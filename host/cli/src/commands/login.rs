//! `pinion login` and `pinion logout`: the keys that Pinion stores.

use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::model::browser_login::WaitingLogin;
use pinion_app::model::{KeyVerdict, MAX_KEY, key_in};
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, note, open_browser, print, text};
use pinion_providers::{KeyOrigin, ProviderInfo};
use secrecy::SecretString;
use std::io::{self, IsTerminal as _, Read as _, stdin};

/// The arguments of `pinion login`.
#[derive(Debug, Args)]
#[command(
    after_help = "The key is read from the terminal, which does not show it, or from stdin if that is piped. One \
                        from the terminal is tested by a request for the provider's list of models. It is \
                        stored in the keyring if `secret-tool` finds one, and else in `auth.toml` (mode 0600). A key in \
                        the environment comes first. OpenRouter gives a key to those who log in with a browser."
)]
pub(crate) struct LoginArgs {
    /// Provider of the key [default: ask]
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
    /// Log in with a browser instead of entering a key, if the provider has such a login, as OpenRouter does
    #[arg(long)]
    browser: bool,
}

/// The arguments of `pinion logout`.
#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Provider of the key [default: the only one with a stored key]
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
}

impl LoginArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let info = match &self.provider {
            Some(name) => named(&base, name)?,
            None => asked(&base)?,
        };
        let key = match self.browser {
            true => None,
            false => read_key(info)?,
        };
        let key = match key {
            // A script that stores a key waits for no server.
            Some(key) if stdin().is_terminal() => tested(&base, info, key).await?,
            Some(key) => key,
            None => log_in(&base, info).await?,
        };
        let place = base.store_key(info.name, &key).await?;
        print(&text!("stored the key of {} in {}\n", info.name, place.to_string()))?;
        remark_on_variable(&base, info, "comes before the stored key").await;
        Ok(())
    }
}

impl Logout {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let info = match &self.provider {
            Some(name) => named(&base, name)?,
            None => find_only_provider(&base).await?,
        };
        let places = base.remove_key(info.name).await?;
        if places.is_empty() {
            return Err(Failure::failed(format!("no stored key of `{}`", info.name))
                .hint("`pinion doctor` says where each key comes from"));
        }
        for place in places {
            print(&text!("removed the key of {} from {}\n", info.name, place.to_string()))?;
        }
        remark_on_variable(&base, info, "is still used").await;
        Ok(())
    }
}

/// Finds a provider that takes a key.
fn named(base: &Base, name: &str) -> Result<&'static ProviderInfo> {
    let info = base.config.registry.provider(name).map_err(Failure::from)?;
    match takes_key(info) {
        true => Ok(info),
        false => Err(Failure::usage(format!("the provider `{}` takes no key", info.name))),
    }
}

/// Returns whether a key of the provider may be of use. A server that needs no key may be behind one that does.
fn takes_key(info: &ProviderInfo) -> bool {
    !info.is_scripted()
}

/// Returns whether to name the provider to those who have not decided on one: it needs a key, or is in the config.
fn is_offered(base: &Base, info: &ProviderInfo) -> bool {
    takes_key(info) && (info.key_variables().next().is_some() || base.config.providers.contains_key(info.name))
}

/// Asks for the provider on the terminal.
fn asked(base: &Base) -> Result<&'static ProviderInfo> {
    let names: Vec<&str> =
        base.config.registry.iter().filter(|info| is_offered(base, info)).map(|info| info.name).collect();
    let names = names.join(", ");
    if !stdin().is_terminal() {
        return Err(Failure::usage("the provider is missing").hint(format!("`pinion login PROVIDER`: {names}")));
    }
    note(&text!("The providers are {}.", Text::block(names)));
    note(&text!("Which one is the key of?"));
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|error| Failure::failed("could not read the provider").because(error))?;
    match line.trim() {
        "" => Err(Failure::usage("the provider is missing")),
        name => named(base, name),
    }
}

/// Returns the only provider with a stored key.
async fn find_only_provider(base: &Base) -> Result<&'static ProviderInfo> {
    match base.stored_keys().await?[..] {
        [] => Err(Failure::failed("no stored keys").hint("`pinion doctor` says where each key comes from")),
        [name] => named(base, name),
        ref names => Err(Failure::usage("the provider is missing")
            .hint(format!("name one of those with a stored key: {}", names.join(", ")))),
    }
}

/// Logs in with the user's browser, or with one on another machine.
async fn log_in(base: &Base, info: &'static ProviderInfo) -> Result<SecretString> {
    let login = WaitingLogin::begin(base, info).await?;
    note(&text!("log in to {} at this address:\n{}", info.name, login.page.to_string()));
    open_browser(&login.page);
    let entered = async {
        if !stdin().is_terminal() {
            return None;
        }
        note(&text!("if the browser is on another machine, paste the address to which it was redirected:"));
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            stdin().read_line(&mut line).map(|_| line)
        });
        let line = line.await.ok()?.ok()?;
        Some(line).filter(|line| !line.trim().is_empty())
    };
    login.key(entered).await
}

/// Reads a key from the terminal, without showing it, or from stdin if that is piped. Returns `None` if the user
/// chooses to log in with a browser instead.
fn read_key(info: &ProviderInfo) -> Result<Option<SecretString>> {
    let mut text = String::new();
    let read = if stdin().is_terminal() {
        let hidden = Hidden::begin()?;
        note(&text!("Paste the key of {} and press Enter. The terminal does not show it.", info.name));
        if info.login_page.is_some() {
            note(&text!("Or press Enter alone to log in with your browser."));
        }
        let read = stdin().read_line(&mut text);
        drop(hidden);
        read
    } else {
        stdin().take(MAX_KEY as u64 + 1).read_to_string(&mut text)
    };
    read.map_err(|error| Failure::failed("could not read the key").because(error))?;
    if text.trim().is_empty() && info.login_page.is_some() && stdin().is_terminal() {
        return Ok(None);
    }
    let key = key_in(&text).map_err(|problem| Failure::usage(format!("invalid key of `{}`: {problem}", info.name)));
    key.map(Some)
}

/// Asks the provider whether it accepts an entered key, and the user what to do with a refused one.
///
/// # Errors
/// The provider refuses the key, and the user does not want to store it.
async fn tested(base: &Base, info: &ProviderInfo, key: SecretString) -> Result<SecretString> {
    note(&text!("Asking {} whether it accepts the key …", info.name));
    match base.check_key(info.name, &key).await {
        KeyVerdict::Accepted => note(&text!("{} accepts the key.", info.name)),
        KeyVerdict::Unknown(reason) => note(&text!("! the key was not tested: {}", reason)),
        KeyVerdict::Refused(reason) => {
            note(&text!("! {} refuses the key: {}", info.name, reason.clone()));
            note(&text!("Store it nevertheless? [y/N]"));
            let mut line = String::new();
            stdin()
                .read_line(&mut line)
                .map_err(|error| Failure::failed("could not read the answer").because(error))?;
            if !matches!(line.trim(), "y" | "Y" | "yes") {
                return Err(Failure::failed(format!("stored nothing: {} refuses the key", info.name))
                    .because(reason)
                    .hint(format!("`pinion login {}` asks for another one", info.name)));
            }
        }
    }
    Ok(key)
}

/// Names the environment variable that has a key of the provider, if one does.
async fn remark_on_variable(base: &Base, info: &'static ProviderInfo, effect: &str) {
    if let Ok(Some(KeyOrigin::Environment(name))) = base.key_origin(info).await {
        note(&text!("! the environment variable {} {}", name, effect.to_owned()));
    }
}

/// A terminal that does not show typed text until this is dropped. Signals restore it, too.
#[cfg(unix)]
struct Hidden(rustix::termios::Termios);

#[cfg(unix)]
impl Hidden {
    /// Discards text that was typed before.
    fn begin() -> Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let failed = |error| Failure::failed("could not use the terminal").because(io::Error::from(error));
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Flush, &modes).map_err(failed)?;
        Ok(Self(before))
    }
}

#[cfg(unix)]
impl Drop for Hidden {
    fn drop(&mut self) {
        // A lost terminal needs nothing.
        let _ = rustix::termios::tcsetattr(stdin(), rustix::termios::OptionalActions::Now, &self.0);
    }
}

#[cfg(not(unix))]
struct Hidden;

#[cfg(not(unix))]
impl Hidden {
    fn begin() -> Result<Self> {
        Err(Failure::failed("could not hide the key on this terminal").hint("pipe it to stdin"))
    }
}
