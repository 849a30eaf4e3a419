//! Logging in with a code that the user enters on any device (RFC 8628).

use std::io;
use std::time::Duration;

use oauth2::basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse};
use oauth2::{
    AuthType, Client, ClientId, ClientSecret, DeviceAuthorizationUrl, DeviceCodeErrorResponseType, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, RequestTokenError, Scope, StandardDeviceAuthorizationResponse,
    StandardRevocableToken, TokenUrl,
};
use pinion_protocol::text::one_line;
use rmcp::transport::auth::{AuthorizationMetadata, ClientRegistrationResponse, OAuthTokenResponse};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use url::Url;

use super::http::OAuthHttp;
use super::login::{CLIENT_NAME, OAuthLogin, PATIENCE, web};
use super::store::Registration;
use super::{OAuth, OAuthError};
use crate::error::{causes, quoted};
use crate::ports::LoginCode;

/// The grant. In place of a redirect address, it marks a client that was registered for codes.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Bounds of the time between two questions whether the code was entered.
const POLL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Maximum characters of a code.
const MAX_CODE: usize = 64;

type NewClient = Client<
    BasicErrorResponse,
    OAuthTokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
>;
type DeviceClient = Client<
    BasicErrorResponse,
    OAuthTokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// Returns the endpoint that gives out codes, if the authorization server has one.
pub(super) fn endpoint(metadata: &AuthorizationMetadata) -> Option<&str> {
    metadata.additional_fields.get("device_authorization_endpoint").and_then(Value::as_str)
}

/// A client of the authorization server.
struct Registered {
    id: String,
    secret: Option<String>,
    registration: Registration,
}

impl OAuthLogin<'_> {
    /// Shows a code, waits until the user has entered it, and stores the tokens.
    pub(super) async fn authorize_device(&self) -> Result<(), OAuthError> {
        let OAuth { store, url, .. } = self.oauth;
        let mut manager = self.oauth.manager().await?;
        let metadata = self.metadata(&mut manager).await?;
        let Some(endpoint) = endpoint(&metadata) else {
            return Err(OAuthError::Failed("the authorization server has no login with a code".to_owned()));
        };
        let http = &OAuthHttp::new(url, &self.oauth.http).await.map_err(OAuthError::Failed)?;
        let scopes = self.scopes(&manager, &metadata, url).await?;
        let Registered { id, secret, registration } = self.device_client(http, &metadata, &scopes).await?;
        let mut client = new_client(&id, endpoint, &metadata.token_endpoint)?;
        if let Some(secret) = secret {
            client = client.set_client_secret(ClientSecret::new(secret));
        }
        if takes_secret_in_body(&metadata) {
            client = client.set_auth_type(AuthType::RequestBody);
        }
        let send = |request| async move { http.send(request).await.map_err(io::Error::other) };
        let (given, code) = request_code(&client, url, &scopes, &send).await?;
        self.person.show_code(self.server, &code).await;
        let token = wait(&client, url, &given, code.lifetime, &send).await?;
        let _guard = store.guard().await?;
        store.register(registration);
        self.oauth.keep(&id, token, scopes, metadata.issuer.clone()).await
    }

    /// Returns the client: the configured one, the one that a document on the web describes, the one of the last login
    /// with a code, or a new one.
    async fn device_client(
        &self,
        http: &OAuthHttp,
        metadata: &AuthorizationMetadata,
        scopes: &[String],
    ) -> Result<Registered, OAuthError> {
        let config = &self.oauth.config;
        let registration =
            |secret: &Option<String>| Registration { client_secret: secret.clone(), redirect: Some(GRANT.to_owned()) };
        if let Some(id) = &config.client_id {
            let secret = config.client_secret.as_ref().map(|secret| secret.expose_secret().to_owned());
            return Ok(Registered { id: id.clone(), secret, registration: registration(&None) });
        }
        if let Some(document) = self.document(metadata) {
            return Ok(Registered { id: document.to_string(), secret: None, registration: registration(&None) });
        }
        if let Some(record) = self.registered(metadata, GRANT).await? {
            let secret = record.client_secret.clone();
            let registration = registration(&secret);
            return Ok(Registered { id: record.client_id().to_owned(), secret, registration });
        }
        let client = register(http, metadata, scopes).await?;
        let secret = client.client_secret.filter(|secret| !secret.is_empty());
        let registration = registration(&secret);
        Ok(Registered { id: client.client_id, secret, registration })
    }
}

fn new_client(id: &str, endpoint: &str, token: &str) -> Result<DeviceClient, OAuthError> {
    let failed = |error: url::ParseError| OAuthError::Failed(causes(&error));
    let client = NewClient::new(ClientId::new(id.to_owned()));
    Ok(client
        .set_device_authorization_url(DeviceAuthorizationUrl::new(endpoint.to_owned()).map_err(failed)?)
        .set_token_uri(TokenUrl::new(token.to_owned()).map_err(failed)?))
}

/// Asks for a code.
async fn request_code<S, F>(
    client: &DeviceClient,
    resource: &Url,
    scopes: &[String],
    send: &S,
) -> Result<(StandardDeviceAuthorizationResponse, LoginCode), OAuthError>
where
    S: Fn(HttpRequest) -> F,
    F: Future<Output = io::Result<HttpResponse>>,
{
    let asking = client.exchange_device_code().add_extra_param("resource", resource.as_str());
    let asking = asking.add_scopes(scopes.iter().cloned().map(Scope::new));
    let given: StandardDeviceAuthorizationResponse =
        asking.request_async(send).await.map_err(|error| match &error {
            RequestTokenError::ServerResponse(said) => {
                OAuthError::Failed(format!("the authorization server gives no code: {}", quoted(&said.to_string())))
            }
            _ => OAuthError::Failed(causes(&error)),
        })?;
    let page = |text: &str| {
        let page = Url::parse(text).map_err(|error| OAuthError::Failed(causes(&error)))?;
        web(&page).map(|()| page)
    };
    let code = LoginCode {
        url: page(given.verification_uri())?,
        code: one_line(given.user_code().secret(), MAX_CODE),
        complete: given.verification_uri_complete().map(|url| page(url.secret())).transpose()?,
        lifetime: given.expires_in().min(PATIENCE),
    };
    Ok((given, code))
}

/// Waits until the user has entered the code.
async fn wait<S, F>(
    client: &DeviceClient,
    resource: &Url,
    given: &StandardDeviceAuthorizationResponse,
    lifetime: Duration,
    send: &S,
) -> Result<OAuthTokenResponse, OAuthError>
where
    S: Fn(HttpRequest) -> F,
    F: Future<Output = io::Result<HttpResponse>>,
{
    let polling = client.exchange_device_access_token(given).add_extra_param("resource", resource.as_str());
    // The server's wishes are bounded, and so is the wait after failed requests.
    let polling = polling.set_max_backoff_interval(POLL.1);
    let pause = |wanted: Duration| sleep(wanted.clamp(POLL.0, POLL.1));
    let token = timeout(lifetime, polling.request_async(send, pause, Some(PATIENCE))).await;
    token.map_err(|_| OAuthError::Expired)?.map_err(|error| match &error {
        RequestTokenError::ServerResponse(said) => match said.error() {
            DeviceCodeErrorResponseType::ExpiredToken => OAuthError::Expired,
            other => OAuthError::Failed(format!("the login was refused: {}", quoted(other.as_ref()))),
        },
        _ => OAuthError::Failed(causes(&error)),
    })
}

/// Registers a client for codes; rmcp registers only those with a redirect address.
async fn register(
    http: &OAuthHttp,
    metadata: &AuthorizationMetadata,
    scopes: &[String],
) -> Result<ClientRegistrationResponse, OAuthError> {
    let failed = |text: String| OAuthError::Failed(format!("cannot register: {text}"));
    let Some(endpoint) = &metadata.registration_endpoint else {
        return Err(failed("the authorization server takes only clients that are configured".to_owned()));
    };
    let mut client = json!({
        "client_name": CLIENT_NAME, "application_type": "native", "grant_types": [GRANT, "refresh_token"],
        "response_types": [], "redirect_uris": [], "token_endpoint_auth_method": "none",
    });
    if !scopes.is_empty() {
        client["scope"] = json!(scopes.join(" "));
    }
    let request = ::http::Request::post(endpoint).header(::http::header::CONTENT_TYPE, "application/json");
    let request = request.body(client.to_string().into_bytes()).map_err(|error| failed(causes(&error)))?;
    let response = http.send(request).await.map_err(|error| failed(causes(&*error)))?;
    if !response.status().is_success() {
        let said = quoted(&String::from_utf8_lossy(response.body()));
        return Err(failed(format!("HTTP {}: {said}", response.status())));
    }
    serde_json::from_slice(response.body()).map_err(|error| failed(causes(&error)))
}

/// Returns whether a secret goes into the body, as rmcp decides it for other requests.
fn takes_secret_in_body(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |method: &str| methods.is_some_and(|methods| methods.iter().any(|offered| offered == method));
    has("client_secret_post") && !has("client_secret_basic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use oauth2::TokenResponse as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::Instant;

    /// Logs in at an authorization server that gives this code and then these answers, the last one again and again.
    /// Returns the result, the number of questions, and the time that it took.
    async fn log_in(given: Value, answers: &[Value]) -> (Result<String, OAuthError>, usize, Duration) {
        let asked = &AtomicUsize::new(0);
        let given = &given;
        let send = |request: HttpRequest| async move {
            let body = match request.uri().path() {
                "/code" => given,
                _ => &answers[asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)],
            };
            let status = if body.get("error").is_some() { 400 } else { 200 };
            let response = ::http::Response::builder().status(status).header("content-type", "application/json");
            response.body(body.to_string().into_bytes()).map_err(io::Error::other)
        };
        let began = Instant::now();
        let client = new_client("id", "https://as.example/code", "https://as.example/token").unwrap();
        let resource = Url::parse("https://mcp.example/mcp").unwrap();
        let result = async {
            let (given, code) = request_code(&client, &resource, &[], &send).await?;
            let token = wait(&client, &resource, &given, code.lifetime, &send).await?;
            Ok(token.access_token().secret().clone())
        };
        let result = result.await;
        (result, asked.load(Ordering::SeqCst), began.elapsed())
    }

    fn given(interval: u64) -> Value {
        json!({
            "device_code": "d", "user_code": "AB-CD", "verification_uri": "https://as.example/device",
            "expires_in": 300, "interval": interval,
        })
    }

    fn error(code: &str) -> Value {
        json!({ "error": code })
    }

    #[tokio::test(start_paused = true)]
    async fn server_is_asked_at_its_pace_until_the_code_was_entered() {
        let token = json!({ "access_token": "t", "token_type": "Bearer" });
        let answers = [error("authorization_pending"), error("slow_down"), error("authorization_pending"), token];
        let (result, asked, took) = log_in(given(5), &answers).await;
        assert_eq!((result.unwrap().as_str(), asked, took.as_secs()), ("t", 4, 5 + 10 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_wants_to_be_asked_without_pause_is_asked_every_second() {
        let (result, asked, took) = log_in(given(0), &[error("authorization_pending")]).await;
        assert!(matches!(result, Err(OAuthError::Expired)) && took.as_secs() == 300, "{result:?} after {took:?}");
        assert!((295..=301).contains(&asked), "{asked} questions");
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_and_expiry_end_the_login() {
        let (refused, ..) = log_in(given(5), &[error("access_denied")]).await;
        assert_eq!(refused.unwrap_err().to_string(), "the login was refused: access_denied");
        let (expired, ..) = log_in(given(5), &[error("expired_token")]).await;
        assert!(matches!(expired, Err(OAuthError::Expired)));
    }

    #[tokio::test(start_paused = true)]
    async fn page_outside_the_web_is_not_shown() {
        for member in ["verification_uri", "verification_uri_complete"] {
            let mut given = given(5);
            given[member] = json!("javascript:alert(1)");
            let (result, asked, _) = log_in(given, &[]).await;
            assert!(result.unwrap_err().to_string().contains("not one of the web") && asked == 0);
        }
    }
}
