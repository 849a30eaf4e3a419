//! Logins of one server.

use tokio_util::sync::CancellationToken;

use super::{ConfiguredServer, ConnectionSlot, ServerState};
use crate::catalogue::contact::ContactOutcome;
use crate::connection::OpenError;
use crate::error::{McpError, without_query};
use crate::limits::MAX_STEP_UPS;
use crate::oauth::{OAuthError, OAuthLogin};
use crate::ports::LoginMethod;

impl ConfiguredServer {
    /// Notes that the server wants a login.
    pub(super) fn require_login(&self, challenge: Option<String>) -> McpError {
        let mut inner = self.lock();
        inner.state = ServerState::LoginRequired;
        inner.problem = Some("requires a login".to_owned());
        // A connection whose token was rejected serves no further request either.
        if let ConnectionSlot::Open(connection) = std::mem::replace(&mut inner.slot, ConnectionSlot::Empty) {
            connection.stop.cancel();
        }
        if challenge.is_some() {
            inner.challenge = challenge;
        }
        drop(inner);
        self.note(ContactOutcome::LoginRequired, None);
        self.notify();
        McpError::LoginRequired { server: self.config.name.clone() }
    }

    /// Logs in without a user, if that is configured; otherwise fails with the server's challenge.
    pub(super) async fn log_in_alone(&self, challenge: Option<String>) -> Result<(), OpenError> {
        let Some(oauth) = self.oauth.as_ref().filter(|oauth| oauth.may_log_in_alone()) else {
            return Err(OpenError::Login(challenge));
        };
        match oauth.log_in_alone(challenge.as_deref()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpenError::Login(challenge)),
            Err(error) => Err(OpenError::Failed(format!("rejected the configured client: {error}"))),
        }
    }

    /// Logs in; the next request uses the login.
    pub(crate) async fn login(&self, method: LoginMethod, cancel: &CancellationToken) -> Result<(), McpError> {
        let name = &self.config.name;
        let Some(oauth) = &self.oauth else {
            return Err(McpError::unsent(name, "runs as a process, which needs no login"));
        };
        let has_tokens = oauth.has_tokens().await;
        let challenge = {
            let mut inner = self.lock();
            let is_step_up = has_tokens && inner.challenge.as_deref().is_some_and(|c| c.contains("insufficient_scope"));
            if is_step_up {
                if inner.step_ups == MAX_STEP_UPS {
                    let text = format!("still asks for more scopes after {MAX_STEP_UPS} logins");
                    return Err(McpError::unsent(name, text));
                }
                inner.step_ups += 1;
            }
            inner.challenge.clone()
        };
        let login =
            OAuthLogin { oauth, server: name, person: &*self.ports.person, challenge: challenge.as_deref(), cancel };
        login.run(method).await.map_err(|error| match error {
            OAuthError::Cancelled => McpError::Cancelled { request_sent: false },
            error => McpError::unsent(name, without_query(format!("login failed: {error}"), self.config.url())),
        })?;
        self.reset();
        Ok(())
    }

    /// Forgets the login and closes the connection. Returns whether there was a login.
    pub(crate) async fn logout(&self) -> Result<bool, McpError> {
        let name = &self.config.name;
        let Some(oauth) = &self.oauth else {
            return Err(McpError::unsent(name, "runs as a process, which needs no login"));
        };
        let done = oauth.logout().await;
        if !done.map_err(|error| McpError::unsent(name, format!("logout failed: {error}")))? {
            return Ok(false);
        }
        self.lock().challenge = None;
        self.reset();
        Ok(true)
    }
}
