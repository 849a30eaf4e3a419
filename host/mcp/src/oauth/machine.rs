//! Logins without a user: the configured client exchanges its own secret for a token.

use rmcp::transport::auth::{ClientCredentialsConfig, WWWAuthenticateParams};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::store::Registration;
use super::{OAuth, OAuthError, union};

impl OAuth {
    /// Returns whether a login without a user is configured, if the authorization server supports it.
    pub(crate) fn may_log_in_alone(&self) -> bool {
        self.config.client_id.is_some() && self.config.client_secret.is_some()
    }

    /// Logs in without a user. Returns false if the authorization server wants one.
    pub(crate) async fn log_in_alone(&self, challenge: Option<&str>) -> Result<bool, OAuthError> {
        let (Some(client_id), Some(secret)) = (&self.config.client_id, &self.config.client_secret) else {
            return Ok(false);
        };
        let mut manager = self.manager().await?;
        let metadata = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        let grants = metadata.additional_fields.get("grant_types_supported").and_then(Value::as_array);
        let offers = |grant: &str| grants.is_some_and(|grants| grants.iter().any(|offered| offered == grant));
        // With a choice, a user's login says more about whom the server serves.
        if !offers("client_credentials") || offers("authorization_code") {
            return Ok(false);
        }
        manager.set_metadata(metadata);
        let params = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, &self.url));
        let challenged = params.and_then(|params| params.scope).unwrap_or_default();
        let scopes = match self.config.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => union(&self.config.scopes, challenged.split_whitespace().map(str::to_owned)),
        };
        let client = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.clone(),
            client_secret: secret.expose_secret().to_owned(),
            scopes,
            resource: Some(self.url.to_string()),
        };
        manager.validate_client_credentials_metadata(&client)?;
        manager.configure_client_credentials(&client)?;
        self.store.register(Registration::default());
        let _guard = self.store.guard().await?;
        manager.exchange_client_credentials(&client).await?;
        Ok(true)
    }
}
