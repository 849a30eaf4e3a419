//! Logging in: the user agrees on a web page, which redirects to this machine with a code.

use std::time::Duration;

use rmcp::transport::auth::{
    AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig, WWWAuthenticateParams,
};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::redirect::Redirect;
use super::store::{LoginRecord, Registration};
use super::{OAuth, OAuthError, device, union};
use crate::error::{causes, quoted};
use crate::ports::{LoginMethod, LoginPage, Person};

/// Limit on the user.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Name that is shown on login pages.
pub(super) const CLIENT_NAME: &str = "Pinion";

/// A login in progress.
pub(crate) struct OAuthLogin<'a> {
    pub(crate) oauth: &'a OAuth,
    pub(crate) server: &'a str,
    pub(crate) person: &'a dyn Person,
    /// The header that the server used to ask for the login.
    pub(crate) challenge: Option<&'a str>,
    pub(crate) cancel: &'a CancellationToken,
}

impl OAuthLogin<'_> {
    /// Logs in and stores the tokens.
    pub(crate) async fn run(self, method: LoginMethod) -> Result<(), OAuthError> {
        let authorize = async {
            match method {
                LoginMethod::Browser => self.authorize().await,
                LoginMethod::Device => self.authorize_device().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(OAuthError::Cancelled),
            result = timeout(PATIENCE, authorize) => result.unwrap_or(Err(OAuthError::Late)),
        }
    }

    async fn authorize(&self) -> Result<(), OAuthError> {
        let OAuth { config, store, url, .. } = self.oauth;
        let redirect = match &config.redirect {
            Some(address) => Redirect::at(address, config.redirect_port).await,
            None => Redirect::bind(config.redirect_port, "/callback").await,
        };
        let redirect = redirect.map_err(|error| {
            let port = config.redirect.as_ref().and_then(Url::port).or(config.redirect_port).unwrap_or(0);
            OAuthError::Failed(format!("cannot listen on port {port} for the login: {}", causes(&error)))
        })?;
        let mut manager = self.oauth.manager().await?;
        let metadata = self.metadata(&mut manager).await?;
        let scopes = self.scopes(&manager, &metadata, url).await?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registration = self.register(&mut manager, &metadata, redirect.address.as_str(), &scopes).await?;
        store.register(registration);
        let page = manager.get_authorization_url(&scopes).await?;
        let page = Url::parse(&page).map_err(|error| OAuthError::Failed(causes(&error)))?;
        web(&page)?;
        let state = page.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned());
        let state = state.ok_or_else(|| OAuthError::Failed("the login has no state".to_owned()))?;
        let page = LoginPage { url: page, has_device_flow: device::endpoint(&metadata).is_some() };
        let answer = self.answer(redirect, &page, &state).await?;
        if let Some((_, error)) = answer.query_pairs().find(|(name, _)| name == "error") {
            return Err(OAuthError::Failed(format!("the login was refused: {}", quoted(&error))));
        }
        let callback = AuthorizationCallback::from_redirect_url(answer.as_str())?;
        let AuthorizationCallback { code, csrf_token, issuer, .. } = callback;
        let _guard = store.guard().await?;
        manager.exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref()).await?;
        Ok(())
    }

    /// Resolves the metadata of the authorization server and sets them.
    pub(super) async fn metadata(
        &self,
        manager: &mut AuthorizationManager,
    ) -> Result<AuthorizationMetadata, OAuthError> {
        let resolution = match self.challenge {
            Some(challenge) => manager.resolve_metadata_from_challenge(Some(challenge)).await?,
            None => manager.resolve_metadata().await?,
        };
        manager.set_metadata(resolution.metadata.clone());
        Ok(resolution.metadata)
    }

    /// Waits for the redirect, or for the user to enter its address.
    async fn answer(&self, redirect: Redirect, page: &LoginPage, state: &str) -> Result<Url, OAuthError> {
        let waiting = redirect.wait(Some(state));
        tokio::pin!(waiting);
        let entered = self.person.open_login(self.server, page);
        let received = tokio::select! {
            received = &mut waiting => received,
            entered = entered => match entered {
                Some(text) => {
                    let url = redirect.entered(&text, Some(state));
                    return url.ok_or_else(|| OAuthError::Failed("the address is not that of this login".to_owned()));
                }
                None => waiting.await,
            },
        };
        received.map_err(|error| OAuthError::Failed(format!("cannot receive the login: {}", causes(&error))))
    }

    /// Returns the scopes to ask for: the user's scopes, or those that the server names. A server that wants more than
    /// was granted gets both, so that the login keeps its earlier scopes.
    pub(super) async fn scopes(
        &self,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        url: &Url,
    ) -> Result<Vec<String>, OAuthError> {
        let params = self.challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, url));
        let challenged = params.as_ref().and_then(|params| params.scope.as_deref()).unwrap_or_default();
        let challenged = challenged.split_whitespace().map(str::to_owned);
        let is_step_up = params.as_ref().is_some_and(WWWAuthenticateParams::is_insufficient_scope);
        let granted =
            self.oauth.store.read_if_possible().await?.map(|record| record.scopes().to_vec()).unwrap_or_default();
        let configured = &self.oauth.config.scopes;
        let mut scopes = match (is_step_up, configured.is_empty()) {
            (true, _) => union(&union(configured, granted), challenged),
            (false, false) => configured.clone(),
            (false, true) => return Ok(manager.select_initial_scopes(&[]).await),
        };
        let supported = metadata.scopes_supported.as_deref().unwrap_or_default();
        let offline = "offline_access".to_owned();
        if !scopes.is_empty() && supported.contains(&offline) {
            scopes = union(&scopes, [offline]);
        }
        Ok(scopes)
    }

    /// Sets the client: the configured one, the one that a document on the web describes, the one of the last login, or
    /// a new one.
    async fn register(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        redirect: &str,
        scopes: &[&str],
    ) -> Result<Registration, OAuthError> {
        let redirects = Some(redirect.to_owned());
        let config = &self.oauth.config;
        if let Some(client_id) = &config.client_id {
            let mut client = OAuthClientConfig::new(client_id, redirect);
            if let Some(secret) = &config.client_secret {
                client = client.with_client_secret(secret.expose_secret());
            }
            manager.configure_client(client)?;
            return Ok(Registration { client_secret: None, redirect: redirects });
        }
        if let Some(document) = self.document(metadata) {
            manager.configure_client(OAuthClientConfig::new(document.as_str(), redirect))?;
            return Ok(Registration { client_secret: None, redirect: redirects });
        }
        if let Some(record) = self.registered(metadata, redirect).await? {
            let mut client = OAuthClientConfig::new(record.client_id(), redirect);
            client.client_secret = record.client_secret.clone();
            manager.configure_client(client)?;
            return Ok(Registration { client_secret: record.client_secret.clone(), redirect: redirects });
        }
        let client = manager.register_client(CLIENT_NAME, redirect, scopes).await?;
        Ok(Registration { client_secret: client.client_secret, redirect: redirects })
    }

    /// Returns the document that describes this client, if the authorization server reads it.
    pub(super) fn document(&self, metadata: &AuthorizationMetadata) -> Option<&Url> {
        let takes_document = metadata.additional_fields.get("client_id_metadata_document_supported");
        self.oauth.client_metadata.as_ref().filter(|_| takes_document.and_then(Value::as_bool) == Some(true))
    }

    /// Returns the stored login, if its client was registered for this redirect address at this issuer; a registration
    /// belongs to one issuer.
    pub(super) async fn registered(
        &self,
        metadata: &AuthorizationMetadata,
        redirect: &str,
    ) -> Result<Option<LoginRecord>, OAuthError> {
        let is_same = |record: &LoginRecord| {
            let is_known = record.issuer().is_some() && record.issuer() == metadata.issuer.as_deref();
            is_known && record.redirect.as_deref() == Some(redirect)
        };
        Ok(self.oauth.store.read_if_possible().await?.filter(is_same))
    }
}

/// Fails for an address that a browser would not load from the web.
pub(super) fn web(page: &Url) -> Result<(), OAuthError> {
    match page.scheme() {
        "https" | "http" => Ok(()),
        _ => Err(OAuthError::Failed(format!("the login page is not one of the web: {}", quoted(page.as_str())))),
    }
}
