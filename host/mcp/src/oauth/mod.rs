//! Logins to servers over HTTP with OAuth 2.1: discovery, registration, tokens, scopes.
//!
//! The flow is rmcp's. This module keeps its tokens, limits its requests, and talks to the user.

mod answer;
mod assertion;
mod device;
mod http;
mod login;
mod redirect;
mod store;
mod unattended_login;

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::Client;
use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationManager, OAuthClientConfig};
use secrecy::ExposeSecret as _;
use url::Url;

use self::http::OAuthHttp;
use crate::config::OAuthConfig;
use crate::error::causes;
use crate::http::Http;
use crate::ports::TokenStore;
pub(crate) use login::OAuthLogin;
pub use redirect::Redirect;
use store::LoginStore;

/// Reason that a login failed or is needed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OAuthError {
    #[error("a login is required")]
    Required,
    #[error("the login was cancelled")]
    Cancelled,
    #[error("no login within {} s", login::PATIENCE.as_secs())]
    Late,
    #[error("the code expired before it was entered")]
    Expired,
    #[error("{0}")]
    Failed(String),
}

impl From<AuthError> for OAuthError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => Self::Required,
            error => Self::Failed(causes(&error)),
        }
    }
}

/// The login of one server.
#[derive(Clone)]
pub(crate) struct OAuth {
    url: Url,
    config: OAuthConfig,
    /// Address of a document that describes this client, which servers accept in place of a registration.
    client_metadata: Option<Url>,
    store: LoginStore,
    http: Arc<Http>,
}

impl OAuth {
    pub(crate) fn new(
        url: Url,
        config: OAuthConfig,
        client_metadata: Option<Url>,
        key: &str,
        tokens: Arc<dyn TokenStore>,
        http: Arc<Http>,
    ) -> Self {
        Self { url, config, client_metadata, store: LoginStore::new(key, tokens), http }
    }

    /// Returns a client that sends the stored token, refreshes it before it expires, and sends no token without one.
    pub(crate) async fn authorized<C>(&self, client: C) -> Result<AuthClient<C>, OAuthError> {
        let mut manager = self.manager().await?;
        let record = match self.may_log_in_alone() {
            true => self.store.read_if_possible().await?,
            false => self.store.read().await?,
        };
        if let Some(record) = record {
            if manager.initialize_from_store().await? {
                self.configure(&mut manager, &record)?;
            } else if self.store.read().await?.is_none_or(|record| !record.has_tokens()) {
                // The authorization server changed; its tokens are void.
                return Err(OAuthError::Required);
            }
        }
        Ok(AuthClient::new(client, manager))
    }

    /// Returns a token that is good now, for transports that cannot refresh it.
    pub(crate) async fn token(&self, client: Client) -> Result<String, OAuthError> {
        Ok(self.authorized(client).await?.get_access_token().await?)
    }

    /// Forgets the login. Returns whether there was one.
    pub(crate) async fn logout(&self) -> Result<bool, OAuthError> {
        self.store.remove().await
    }

    /// Returns whether tokens are stored, also if they cannot be read now.
    pub(crate) async fn has_tokens(&self) -> bool {
        self.store.read().await.map_or(true, |record| record.is_some_and(|record| record.has_tokens()))
    }

    async fn manager(&self) -> Result<AuthorizationManager, OAuthError> {
        let http = OAuthHttp::new(&self.url, &self.http).await.map_err(OAuthError::Failed)?;
        let mut manager = AuthorizationManager::new_with_oauth_http_client(self.url.clone(), Arc::new(http)).await?;
        manager.set_credential_store(self.store.clone());
        Ok(manager)
    }

    /// Sets the secret of the client, without which rmcp could not refresh the tokens.
    fn configure(&self, manager: &mut AuthorizationManager, record: &store::LoginRecord) -> Result<(), OAuthError> {
        let secret = match &self.config.client_secret {
            Some(secret) if self.config.client_id.as_deref() == Some(record.client_id()) => {
                Some(secret.expose_secret().to_owned())
            }
            _ => record.client_secret.clone(),
        };
        if let Some(secret) = secret {
            let redirect = record.redirect.clone().unwrap_or_else(|| self.url.to_string());
            manager
                .configure_client(OAuthClientConfig::new(record.client_id(), redirect).with_client_secret(secret))?;
        }
        Ok(())
    }
}

/// Returns the scopes of both lists, each once.
fn union(first: &[String], second: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    first.iter().cloned().chain(second).filter(|scope| seen.insert(scope.clone())).collect()
}
