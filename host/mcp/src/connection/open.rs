//! Opening a connection: the transport, the version of the protocol, the login.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::ClientServiceExt as _;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;
use url::Url;

use super::fault::{Fault, LAST_WORDS};
use super::handler::Handler;
use super::pipe::Pipe;
use super::sse;
use super::web::{self, Web};
use crate::config::{ServerConfig, ServerTransport};
use crate::error::causes;
use crate::http::{ChosenProxy, Http};
use crate::limits::{DISCOVERY_WAIT, MAX_IN_FLIGHT, MAX_MESSAGE};
use crate::oauth::{OAuth, OAuthError};
use crate::ports::{Launcher, ServerProcess};

/// An open connection.
pub(crate) struct OpenedConnection {
    pub(crate) running: RunningService<RoleClient, Handler>,
    pub(crate) process: Option<Box<dyn ServerProcess>>,
    pub(crate) fault: Fault,
}

/// Reason that a connection could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The server wants a login. The challenge is the header that said so.
    Login(Option<String>),
    /// Text that continues ``MCP server `x` ``.
    Failed(String),
}

/// Everything needed to open a connection.
pub(crate) struct Opener<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) launcher: &'a dyn Launcher,
    pub(crate) http: &'a Arc<Http>,
    /// The login; `None` for stdio.
    pub(crate) oauth: Option<&'a OAuth>,
    pub(crate) handler: Handler,
    /// The server is known not to survive or answer `server/discover`.
    pub(crate) is_deaf: bool,
}

/// Asks with the current protocol first, and with `initialize` if the server does not understand.
fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

impl Opener<'_> {
    pub(crate) async fn open(&self) -> Result<OpenedConnection, OpenError> {
        match &self.config.transport {
            ServerTransport::Stdio { .. } => self.open_stdio().await,
            ServerTransport::Http { url, headers, sse } => self.open_http(url, headers, *sse).await,
        }
    }

    async fn open_stdio(&self) -> Result<OpenedConnection, OpenError> {
        if !self.is_deaf {
            match self.launch(discover()).await {
                // Some servers end, or answer nonsense, when the first request is not `initialize`.
                Err((_, Some(error))) if is_end(&error) || is_nonsense(&error) => {}
                result => return result.map_err(|(failed, _)| failed),
            }
        }
        let opened = self.launch(ClientLifecycleMode::Initialize).await.map_err(|(failed, _)| failed)?;
        opened.fault.set_deaf();
        Ok(opened)
    }

    async fn launch(
        &self,
        lifecycle: ClientLifecycleMode,
    ) -> Result<OpenedConnection, (OpenError, Option<ClientInitializeError>)> {
        let launched = self.launcher.launch(self.config);
        let launched =
            launched.map_err(|error| (OpenError::Failed(format!("cannot start: {}", causes(&error))), None))?;
        let mut process = launched.process;
        let fault = Fault::default();
        if let Some(stderr) = launched.stderr {
            fault.keep_stderr(stderr);
        }
        let discovery_wait = DISCOVERY_WAIT.min(self.config.startup_timeout / 2);
        let pipe = Pipe::new(launched.stdin, launched.stdout, fault.clone(), discovery_wait);
        match self.handler.clone().serve_with_lifecycle(pipe, lifecycle).await {
            Ok(running) => Ok(OpenedConnection { running, process: Some(process), fault }),
            Err(error) => {
                let otherwise = match timeout(LAST_WORDS, process.wait()).await {
                    Ok(end) => {
                        fault.last_words().await;
                        format!("ended with {end} before it was ready")
                    }
                    Err(_) => format!("is not usable: {}", describe(&error)),
                };
                Err((OpenError::Failed(fault.describe(&otherwise, "")), Some(error)))
            }
        }
    }

    async fn open_http(
        &self,
        url: &Url,
        headers: &std::collections::BTreeMap<String, SecretString>,
        sse: bool,
    ) -> Result<OpenedConnection, OpenError> {
        let unusable = |error| OpenError::Failed(format!("is not reachable: {error}"));
        let proxy = self.http.proxy(url).map_err(unusable)?;
        let client = self.http.client(url).map_err(unusable)?;
        let headers = header_map(headers).map_err(OpenError::Failed)?;
        if sse {
            return self.open_sse(client, url, headers).await;
        }
        let config = || {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(headers.clone())
                .max_sse_event_size(MAX_MESSAGE)
                .max_json_response_size(MAX_MESSAGE)
                .max_concurrent_requests(MAX_IN_FLIGHT);
            let mut backoff = ExponentialBackoff::default();
            backoff.max_times = Some(5);
            backoff.max_delay = Some(Duration::from_secs(30));
            config.retry_config = Arc::new(backoff);
            // A server that lost its session also lost its subscriptions, and may offer something else: it gets a new
            // connection.
            config.reinit_on_expired_session = false;
            config
        };
        // A header of the user replaces the login.
        let oauth = self.oauth.filter(|_| !headers.contains_key(&http::header::AUTHORIZATION));
        let serve = async |lifecycle| -> Result<_, OpenError> {
            let handler = self.handler.clone();
            let Some(oauth) = oauth else {
                let transport = StreamableHttpClientTransport::with_client(Web::new(client.clone()), config());
                return Ok(handler.serve_with_lifecycle(transport, lifecycle).await);
            };
            let authorized = oauth.authorized(Web::new(client.clone())).await.map_err(login_failure)?;
            let transport = StreamableHttpClientTransport::with_client(authorized, config());
            Ok(handler.serve_with_lifecycle(transport, lifecycle).await)
        };
        let result = match serve(discover()).await? {
            Err(error) if is_nonsense(&error) => serve(ClientLifecycleMode::Initialize).await?,
            result => result,
        };
        match result {
            Ok(running) => Ok(OpenedConnection { running, process: None, fault: Fault::default() }),
            Err(error) if refuses_messages(&error) => match self.open_sse(client, url, headers).await {
                Err(OpenError::Failed(_)) => Err(http_failure(&error, proxy)),
                result => result,
            },
            Err(error) => Err(http_failure(&error, proxy)),
        }
    }

    async fn open_sse(
        &self,
        client: reqwest::Client,
        url: &Url,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<OpenedConnection, OpenError> {
        let fault = Fault::default();
        if let Some(oauth) = self.oauth
            && !headers.contains_key(&http::header::AUTHORIZATION)
            && oauth.has_tokens().await
        {
            let token = oauth.token(client.clone()).await.map_err(login_failure)?;
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| OpenError::Failed("got a token that no header can hold".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        let transport = sse::Sse::open(client, url, headers, fault.clone()).await?;
        match self.handler.clone().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await {
            Ok(running) => Ok(OpenedConnection { running, process: None, fault }),
            Err(error) => Err(OpenError::Failed(fault.describe(&format!("is not usable: {}", describe(&error)), ""))),
        }
    }
}

fn login_failure(error: OAuthError) -> OpenError {
    match error {
        OAuthError::Required => OpenError::Login(None),
        error => OpenError::Failed(format!("cannot use the stored login: {error}")),
    }
}

/// Returns the failure of a connection over HTTP, which may be that a login is required.
fn http_failure(error: &ClientInitializeError, proxy: Option<ChosenProxy>) -> OpenError {
    let challenge = error.auth_challenge();
    if error.is_authorization_required() || challenge.is_some() || status(error) == Some(401) {
        return OpenError::Login(challenge.map(str::to_owned));
    }
    let through = proxy.map(|proxy| format!(" through the proxy {}", proxy.shown)).unwrap_or_default();
    OpenError::Failed(format!("is not reachable{through}: {}", describe(error)))
}

/// Describes the failure in words that need no knowledge of the protocol's types.
fn describe(error: &ClientInitializeError) -> String {
    use ClientInitializeError as E;
    match error {
        E::LegacyFallbackFailed { fallback, .. } => describe(fallback),
        E::TransportError { error, .. } => web::describe(error),
        E::ConnectionClosed(_) | E::ExpectedInitResponse(None) | E::ExpectedInitResult(None) => {
            "it closed the connection".to_owned()
        }
        E::ExpectedInitResponse(Some(_)) => "it answered the first request with no response".to_owned(),
        E::ExpectedInitResult(Some(_)) => "it answered the first request with the result of another one".to_owned(),
        E::ConflictInitResponseId(..) | E::UncorrelatedErrorResponse { .. } => {
            "it answered a request that it was not sent".to_owned()
        }
        E::JsonRpcError(error) => {
            format!("it answered with error {}: {}", error.code.0, crate::error::quoted(&error.message))
        }
        E::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            format!("it speaks other versions of the protocol: {}", crate::error::quoted(&versions.join(", ")))
        }
        error => causes(error),
    }
}

/// Returns the status of a server's response over HTTP that refused the connection.
fn status(error: &ClientInitializeError) -> Option<u16> {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => status(fallback),
        ClientInitializeError::TransportError { error, .. } => web::status(web::failure(error)?),
        _ => None,
    }
}

/// Returns whether the server ended the connection.
fn is_end(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. }
            | ClientInitializeError::LegacyFallbackFailed { .. }
    )
}

/// Returns whether the server answered `server/discover` with something else, as if it were any request.
fn is_nonsense(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::ExpectedInitResult(_))
}

/// Returns whether a server over HTTP refuses messages at its address, as those with the transport of 2024-11-05 do,
/// with any status that their framework has for it. Refusals of the client, and of too many requests, are no such sign.
fn refuses_messages(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refuses_messages(fallback),
        ClientInitializeError::JsonRpcError(_) => true,
        error => {
            status(error).is_some_and(|status| (400..500).contains(&status) && !matches!(status, 401 | 403 | 407 | 429))
        }
    }
}

fn header_map(
    headers: &std::collections::BTreeMap<String, SecretString>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (&String, &SecretString)| {
        let invalid = |_| format!("has an invalid header `{}` in its configuration", crate::error::quoted(name));
        let parsed = HeaderName::try_from(name.as_str()).map_err(|error| invalid(http::Error::from(error)))?;
        let mut value =
            HeaderValue::try_from(value.expose_secret()).map_err(|error| invalid(http::Error::from(error)))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    headers.iter().map(header).collect()
}
