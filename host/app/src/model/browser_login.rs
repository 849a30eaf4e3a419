//! Logging in to a provider with a browser, which gives Pinion a key.

use crate::failure::{Failure, Result};
use crate::files::private::{random_name, random_token};
use crate::model::key_in;
use crate::workspace_base::Base;
use pinion_mcp::Redirect;
use pinion_providers::{BrowserLogin, ProviderInfo};
use secrecy::{ExposeSecret as _, SecretString};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Limit on the user.
const PATIENCE: Duration = Duration::from_secs(600);

/// A login that waits for the user, whose browser is redirected to this machine.
pub struct WaitingLogin {
    login: BrowserLogin,
    redirect: Redirect,
    provider: &'static str,
    /// The page where the user logs in.
    pub page: Url,
}

impl WaitingLogin {
    /// Begins a login and listens on a port that the system chooses.
    ///
    /// # Errors
    /// The provider has no login for programs, its configuration is invalid, or there is no port.
    pub async fn begin(base: &Base, info: &'static ProviderInfo) -> Result<Self> {
        let failed = |error| Failure::failed("could not begin a login").because(error);
        let verifier = SecretString::from(random_token().map_err(failed)?);
        let login = base.begin_login(info, verifier)?.ok_or_else(|| {
            Failure::usage(format!("`{}` has no login for programs", info.name))
                .hint(format!("create a key on its website, and store it with `pinion login {}`", info.name))
        })?;
        // The path is the secret that identifies the redirect, because the vendor returns no state.
        let path = format!("/callback/{}", random_name().map_err(failed)?);
        let redirect = Redirect::bind(None, &path).await;
        let redirect = redirect.map_err(|error| Failure::failed("cannot listen for the login").because(error))?;
        let mut address = redirect.address.clone();
        // The vendor accepts any port of `localhost`.
        let _ = address.set_host(Some("localhost"));
        let page = login.page(&address);
        Ok(Self { login, redirect, provider: info.name, page })
    }

    /// Waits for the redirect, or for its address as the user entered it, and returns the key. Dropping the future ends the
    /// login.
    ///
    /// # Errors
    /// The login was refused, took more than 10 minutes, or the vendor sent no key.
    pub async fn key(self, entered: impl Future<Output = Option<String>>) -> Result<SecretString> {
        let url = timeout(PATIENCE, self.redirected(entered)).await;
        let url = url.unwrap_or_else(|_| Err(Failure::failed("no login within 10 minutes")))?;
        let parameter =
            |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
        let Some(code) = parameter("code").filter(|code| !code.is_empty()) else {
            let reason = parameter("error_description").or_else(|| parameter("error"));
            let reason = reason.unwrap_or_else(|| "the redirect has no code".to_owned());
            return Err(Failure::failed(format!("the login to {} was refused: {reason}", self.provider)));
        };
        let failed = |error| Failure::failed(format!("{} gave no key for the login", self.provider)).because(error);
        let key = self.login.key(&code).await.map_err(failed)?;
        key_in(key.expose_secret())
            .map_err(|problem| Failure::failed(format!("invalid key of `{}`: {problem}", self.provider)))
    }

    async fn redirected(&self, entered: impl Future<Output = Option<String>>) -> Result<Url> {
        let waiting = self.redirect.wait(None);
        tokio::pin!(waiting);
        let received = tokio::select! {
            received = &mut waiting => received,
            entered = entered => match entered {
                Some(text) => {
                    let url = self.redirect.entered(&text, None);
                    return url.ok_or_else(|| Failure::usage("the address is not that of this login"));
                }
                None => waiting.await,
            },
        };
        received.map_err(|error| Failure::failed("cannot receive the login").because(error))
    }
}
