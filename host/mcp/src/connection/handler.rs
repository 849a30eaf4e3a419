//! Requests and notifications that a server sends.

#![allow(deprecated, reason = "older servers still use roots and sampling, which the protocol has deprecated")]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pinion_protocol::text::one_line;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorData,
    Implementation, ListRootsResult, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;

use super::traffic::Traffic;
use super::watched_resources::Watched;
use crate::questions::Questions;

/// Progress of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestProgress {
    /// Part that is done, from 0 to 1, if the server knows the total.
    pub fraction: Option<f32>,
    /// Text of the server, as one line.
    pub message: Option<String>,
}

impl RequestProgress {
    /// Returns the progress as a line: the server's words, or the part that is done.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let percent = || self.fraction.map(|part| format!("{:.0} %", part * 100.0));
        self.message.clone().or_else(percent)
    }
}

/// Receives the progress of a request. It must not block.
pub type OnProgress = Arc<dyn Fn(RequestProgress) + Send + Sync>;

/// Receivers of progress by token.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<HashMap<ProgressToken, OnProgress>>>);

impl Routes {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, OnProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Routes progress with a token to a receiver until the guard is dropped.
    pub(crate) fn add(&self, token: ProgressToken, receiver: OnProgress) -> Route {
        self.lock().insert(token.clone(), receiver);
        Route { routes: self.clone(), token }
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("len", &self.lock().len()).finish()
    }
}

/// Removes a route when dropped.
pub(crate) struct Route {
    routes: Routes,
    token: ProgressToken,
}

impl Drop for Route {
    fn drop(&mut self) {
        self.routes.lock().remove(&self.token);
    }
}

/// Handles messages that a server sends by itself. All of it returns at once, except questions to the user.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) questions: Questions,
    pub(crate) routes: Routes,
    pub(crate) traffic: Traffic,
    /// Fires when a list changed; many notices count as one.
    pub(crate) changes: Arc<Notify>,
    pub(crate) watched: Watched,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let software = Implementation::new("pinion", env!("CARGO_PKG_VERSION")).with_title("Pinion");
        ClientConfig::new(self.questions.capabilities(), software)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            answer = self.traffic.during_request(self.questions.elicit(request)) => answer.unwrap_or_else(out_of_place),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the question was cancelled", None)),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        tokio::select! {
            answer = self.traffic.during_request(self.questions.sample(params)) => answer.unwrap_or_else(out_of_place),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
        }
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.questions.roots())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let receiver = self.routes.lock().get(&params.progress_token).cloned();
        if let Some(receiver) = receiver {
            let fraction = params.total.filter(|total| *total > 0.0).map(|total| params.progress / total);
            let fraction = fraction.filter(|part| part.is_finite()).map(|part| part.clamp(0.0, 1.0) as f32);
            receiver(RequestProgress { fraction, message: params.message.map(|text| one_line(&text, 200)) });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.notify_one();
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.watched.changed(&params.uri);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.notify_one();
    }
}

/// The answer to a question outside of requests, or about one that has ended.
fn out_of_place<T>() -> Result<T, ErrorData> {
    Err(ErrorData::invalid_request("questions are answered only while a request is open", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_without_words_is_shown_in_percent() {
        let line =
            |fraction, message: Option<&str>| RequestProgress { fraction, message: message.map(str::to_owned) }.line();
        assert_eq!(line(Some(0.25), None).as_deref(), Some("25 %"));
        assert_eq!(line(Some(0.5), Some("halfway")).as_deref(), Some("halfway"));
        assert_eq!(line(None, None), None);
    }
}
