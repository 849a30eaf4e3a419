//! Logins without a user: the configured client proves itself, or exchanges an identity provider's assertion about its
//! user.

use std::time::SystemTime;

use oauth2::{ClientSecret, TokenResponse as _};
use rmcp::transport::auth::enterprise::{EmaAuthorizationServer, EmaClientAuthentication, EmaExchangeRequest};
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, OAuthTokenResponse, StoredCredentials,
    WWWAuthenticateParams,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::http::OAuthHttp;
use super::store::Registration;
use super::{OAuth, OAuthError, assertion, union};
use crate::config::IdpConfig;
use crate::error::{causes, quoted};

/// The way for the configured client to get a token.
enum Way<'a> {
    Secret(&'a SecretString),
    Key(&'a SecretString),
    Idp(&'a IdpConfig),
}

impl OAuth {
    /// Returns whether a login without a user is configured, if the authorization server supports it.
    pub(crate) fn may_log_in_alone(&self) -> bool {
        self.login_method().is_some()
    }

    fn login_method(&self) -> Option<(&str, Way<'_>)> {
        let config = &self.config;
        let id = config.client_id.as_deref()?;
        let way = match (&config.idp, &config.private_key, &config.client_secret) {
            (Some(idp), ..) => Way::Idp(idp),
            (None, Some(key), _) => Way::Key(key),
            (None, None, Some(secret)) => Way::Secret(secret),
            (None, None, None) => return None,
        };
        Some((id, way))
    }

    /// Logs in without a user. Returns false if the authorization server wants one.
    pub(crate) async fn log_in_alone(&self, challenge: Option<&str>) -> Result<bool, OAuthError> {
        let Some((client_id, way)) = self.login_method() else { return Ok(false) };
        let mut manager = self.manager().await?;
        let metadata = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        // An identity provider is configured for one purpose.
        if !matches!(way, Way::Idp(_)) && !wants_no_user(&metadata) {
            return Ok(false);
        }
        manager.set_metadata(metadata.clone());
        let params = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, &self.url));
        let challenged = params.and_then(|params| params.scope).unwrap_or_default();
        let scopes = match self.config.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => union(&self.config.scopes, challenged.split_whitespace().map(str::to_owned)),
        };
        self.store.register(Registration::default());
        let _guard = self.store.guard().await?;
        match way {
            Way::Secret(secret) => self.with_secret(&mut manager, client_id, secret, scopes).await?,
            Way::Key(key) => {
                let token = self.with_key(&metadata, client_id, key, &scopes).await?;
                self.keep(client_id, token, scopes, metadata.issuer).await?;
            }
            Way::Idp(idp) => {
                let token = self.with_idp(&metadata, client_id, idp, &scopes).await?;
                self.keep(client_id, token, scopes, metadata.issuer).await?;
            }
        }
        Ok(true)
    }

    async fn with_secret(
        &self,
        manager: &mut AuthorizationManager,
        client_id: &str,
        secret: &SecretString,
        scopes: Vec<String>,
    ) -> Result<(), OAuthError> {
        let client = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.to_owned(),
            client_secret: secret.expose_secret().to_owned(),
            scopes,
            resource: Some(self.url.to_string()),
        };
        manager.validate_client_credentials_metadata(&client)?;
        manager.configure_client_credentials(&client)?;
        manager.exchange_client_credentials(&client).await?;
        Ok(())
    }

    /// Exchanges a signed assertion for a token. rmcp has this only with a second library for cryptography.
    async fn with_key(
        &self,
        metadata: &AuthorizationMetadata,
        client_id: &str,
        key: &SecretString,
        scopes: &[String],
    ) -> Result<OAuthTokenResponse, OAuthError> {
        let audience = metadata.issuer.as_deref().unwrap_or(&metadata.token_endpoint);
        let algorithm = self.config.signing_algorithm.as_deref();
        let assertion = assertion::signed(key, algorithm, client_id, audience).map_err(OAuthError::Failed)?;
        let scope = scopes.join(" ");
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
            ("resource", self.url.as_str()),
            ("scope", &scope),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish().into_bytes();
        let request = ::http::Request::post(&metadata.token_endpoint)
            .header(::http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(::http::header::ACCEPT, "application/json");
        let failed = |text: String| OAuthError::Failed(format!("cannot get a token: {text}"));
        let request = request.body(body).map_err(|error| failed(causes(&error)))?;
        let http = OAuthHttp::new(&self.url, &self.http).await.map_err(OAuthError::Failed)?;
        let response = http.send(request).await.map_err(|error| failed(causes(&*error)))?;
        if !response.status().is_success() {
            let said = quoted(&String::from_utf8_lossy(response.body()));
            return Err(failed(format!("HTTP {}: {said}", response.status())));
        }
        serde_json::from_slice(response.body()).map_err(|error| failed(causes(&error)))
    }

    /// Exchanges the user's ID token for a grant of the identity provider, and that for a token of the server.
    async fn with_idp(
        &self,
        metadata: &AuthorizationMetadata,
        client_id: &str,
        idp: &IdpConfig,
        scopes: &[String],
    ) -> Result<OAuthTokenResponse, OAuthError> {
        let basic = |secret: Option<&SecretString>| match secret {
            Some(secret) => {
                EmaClientAuthentication::ClientSecretBasic(ClientSecret::new(secret.expose_secret().to_owned()))
            }
            None => EmaClientAuthentication::None,
        };
        let failed =
            |text: String| OAuthError::Failed(format!("the identity provider's grant is not accepted: {text}"));
        let issuer = metadata.issuer.as_deref().ok_or_else(|| failed("the server's issuer is unknown".to_owned()))?;
        let provider = EmaAuthorizationServer::new(&idp.issuer, idp.token_endpoint.as_str(), &idp.client_id)
            .with_client_authentication(basic(idp.client_secret.as_ref()));
        let server = EmaAuthorizationServer::new(issuer, &metadata.token_endpoint, client_id)
            .with_client_authentication(basic(self.config.client_secret.as_ref()));
        let id_token = idp.id_token.expose_secret();
        let exchange = EmaExchangeRequest::new_with_id_token(provider, server, self.url.as_str(), id_token)
            .with_scopes(scopes.iter().map(String::as_str));
        // The user named the provider, so that its network is its own.
        let of_provider = OAuthHttp::new(&idp.token_endpoint, &self.http).await.map_err(OAuthError::Failed)?;
        let of_server = OAuthHttp::new(&self.url, &self.http).await.map_err(OAuthError::Failed)?;
        let token = exchange.exchange(&of_provider, &of_server).await.map_err(|error| failed(causes(&error)))?;
        let response = json!({
            "access_token": token.access_token.secret(), "token_type": "bearer",
            "expires_in": token.expires_in.map(|time| time.as_secs()),
        });
        serde_json::from_value(response).map_err(|error| failed(causes(&error)))
    }

    /// Stores a token, for as long as it is good.
    pub(super) async fn keep(
        &self,
        client_id: &str,
        token: OAuthTokenResponse,
        scopes: Vec<String>,
        issuer: Option<String>,
    ) -> Result<(), OAuthError> {
        let granted = token.scopes().map_or(scopes, |scopes| scopes.iter().map(|scope| scope.to_string()).collect());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let stored = StoredCredentials::new(client_id.to_owned(), Some(token), granted, Some(now)).with_issuer(issuer);
        Ok(self.store.write(stored).await?)
    }
}

/// Returns whether an authorization server gives tokens to clients without a user. With a choice, a user's login says more
/// about whom the server serves.
fn wants_no_user(metadata: &AuthorizationMetadata) -> bool {
    let grants = metadata.additional_fields.get("grant_types_supported").and_then(Value::as_array);
    let offers = |grant: &str| grants.is_some_and(|grants| grants.iter().any(|offered| offered == grant));
    offers("client_credentials") && !offers("authorization_code")
}
