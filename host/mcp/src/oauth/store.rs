//! Stored logins.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Duration, Instant, sleep};

use super::OAuthError;
use crate::error::causes;
use crate::ports::{StoredToken, TokenStore};

/// Longest wait for another process that refreshes the same login, longer than its request and its store may take.
const LOCK_WAIT: Duration = Duration::from_secs(45);
/// Time between two attempts to get the lock.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Everything that is stored of a login.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct LoginRecord {
    credentials: StoredCredentials,
    /// Secret of a client that registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// Redirect address of the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redirect: Option<String>,
}

impl LoginRecord {
    pub(super) fn client_id(&self) -> &str {
        &self.credentials.client_id
    }

    pub(super) fn has_tokens(&self) -> bool {
        self.credentials.token_response.is_some()
    }

    pub(super) fn scopes(&self) -> &[String] {
        &self.credentials.granted_scopes
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.credentials.issuer.as_deref()
    }
}

/// The stored login of one server.
#[derive(Clone)]
pub(super) struct LoginStore {
    key: String,
    tokens: Arc<dyn TokenStore>,
    /// Registration to store with the next tokens.
    registration: Arc<std::sync::Mutex<Option<Registration>>>,
    refreshing: Arc<Mutex<()>>,
}

/// Keeps others from refreshing a login.
pub(super) struct RefreshGuard {
    _others: Box<dyn Send>,
    _process: OwnedMutexGuard<()>,
}

/// The client that gets tokens.
#[derive(Clone, Default)]
pub(super) struct Registration {
    pub(super) client_secret: Option<String>,
    pub(super) redirect: Option<String>,
}

impl LoginStore {
    pub(super) fn new(key: &str, tokens: Arc<dyn TokenStore>) -> Self {
        Self { key: key.to_owned(), tokens, registration: Arc::default(), refreshing: Arc::default() }
    }

    /// Sets the client that the next tokens belong to.
    pub(super) fn register(&self, registration: Registration) {
        *self.registration.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(registration);
    }

    /// Returns the stored login. One that cannot be understood is ignored; one that is withheld is an error.
    pub(super) async fn read(&self) -> Result<Option<LoginRecord>, OAuthError> {
        self.load().await?.map_err(|reason| OAuthError::Failed(format!("cannot read tokens: {reason}")))
    }

    /// Returns the stored login, to replace it. One that is withheld is ignored.
    pub(super) async fn read_if_possible(&self) -> Result<Option<LoginRecord>, OAuthError> {
        Ok(self.load().await?.unwrap_or_default())
    }

    /// Returns the stored login, or the reason that it is withheld.
    async fn load(&self) -> Result<Result<Option<LoginRecord>, String>, OAuthError> {
        let loaded = self.tokens.load(&self.key).await;
        match loaded.map_err(|error| OAuthError::Failed(format!("cannot read tokens: {}", causes(&error))))? {
            StoredToken::None => Ok(Ok(None)),
            StoredToken::Value(text) => Ok(Ok(serde_json::from_str(text.expose_secret()).ok())),
            StoredToken::Withheld(reason) => Ok(Err(reason)),
        }
    }

    /// Removes the stored login. Returns whether there was one.
    pub(super) async fn remove(&self) -> Result<bool, OAuthError> {
        let removed = self.tokens.remove(&self.key).await;
        removed.map_err(|error| OAuthError::Failed(format!("cannot remove tokens: {}", causes(&error))))
    }

    /// Locks the stored login against refreshes here and in other processes, until the result is dropped.
    pub(super) async fn guard(&self) -> Result<RefreshGuard, AuthError> {
        let process = self.refreshing.clone().lock_owned().await;
        let failed = |text: String| AuthError::CredentialStoreError(text);
        let until = Instant::now() + LOCK_WAIT;
        loop {
            let locked = self.tokens.try_lock(&self.key);
            match locked.map_err(|error| failed(format!("cannot lock tokens: {}", causes(&error))))? {
                Some(others) => return Ok(RefreshGuard { _others: others, _process: process }),
                None if Instant::now() >= until => {
                    let seconds = LOCK_WAIT.as_secs();
                    return Err(failed(format!("another process has been refreshing the login for {seconds} s")));
                }
                None => sleep(LOCK_POLL).await,
            }
        }
    }

    pub(super) async fn write(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let registration = self.registration.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let registration = match registration {
            Some(registration) => registration,
            // A refresh keeps the registration.
            None => {
                let kept = self.read_if_possible().await.ok().flatten();
                let kept = kept.filter(|record| record.client_id() == credentials.client_id);
                kept.map(|record| Registration { client_secret: record.client_secret, redirect: record.redirect })
                    .unwrap_or_default()
            }
        };
        let Registration { client_secret, redirect } = registration;
        let record = LoginRecord { credentials, client_secret, redirect };
        let text =
            serde_json::to_string(&record).map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        let saved = self.tokens.save(&self.key, &SecretString::from(text)).await;
        saved.map_err(|error| AuthError::CredentialStoreError(causes(&error)))
    }
}

// Written out as `async_trait` expands it, which is not worth a dependency.
impl CredentialStore for LoginStore {
    fn load<'a, 'f>(&'a self) -> BoxFuture<'f, Result<Option<StoredCredentials>, AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async {
            // A connection is not opened with a login that is withheld, except by a client that can get another one.
            let record = self.read_if_possible().await;
            let record = record.map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
            Ok(record.map(|record| record.credentials))
        })
    }

    fn save<'a, 'f>(&'a self, credentials: StoredCredentials) -> BoxFuture<'f, Result<(), AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.write(credentials))
    }

    fn clear<'a, 'f>(&'a self) -> BoxFuture<'f, Result<(), AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async {
            let removed = self.remove().await;
            removed.map(drop).map_err(|error| AuthError::CredentialStoreError(error.to_string()))
        })
    }

    fn acquire_refresh_guard<'a, 'f>(&'a self) -> BoxFuture<'f, Result<Option<CredentialRefreshGuard>, AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async { Ok(Some(CredentialRefreshGuard::new(self.guard().await?))) })
    }
}
