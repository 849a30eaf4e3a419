//! Requests that only an open connection may answer.

use std::sync::Arc;

use super::{ConfiguredServer, ConnectionSlot};
use crate::connection::{Connection, RequestFailure};
use crate::error::McpError;
use crate::request::{CallContext, Request};

impl ConfiguredServer {
    /// Sends a request over the open connection. Connects to nothing, repeats nothing, and leaves it to other requests to
    /// find out that the server wants a login.
    pub(super) async fn request_connected(&self, request: &Request, call: &CallContext) -> Result<String, McpError> {
        let connection = self.open_connection()?;
        let result = connection.perform(request, call, self.config.call_timeout, &self.questions).await;
        result.map_err(|failure| match failure {
            RequestFailure::Error(error) | RequestFailure::Lost(error) | RequestFailure::Task(_, error) => error,
            RequestFailure::Login(_) => McpError::LoginRequired { server: self.config.name.clone() },
        })
    }

    /// Returns the open connection. A server that is switched off or shut down has no connection.
    fn open_connection(&self) -> Result<Arc<Connection>, McpError> {
        match &self.lock().slot {
            ConnectionSlot::Open(connection) if !connection.is_closed() => Ok(connection.clone()),
            _ => Err(McpError::unsent(&self.config.name, "is not connected")),
        }
    }
}
