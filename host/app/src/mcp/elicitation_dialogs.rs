//! Questions of MCP servers to the user, as dialogs of the conversation whose call the server works on.

use crate::mcp::sampling::RunningCalls;
use crate::output::text;
use crate::screen::Screen;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogKind, MCP_SERVER};
use pinion_agent::form::FormSchema;
use pinion_agent::text::bounded;
use pinion_mcp::{Elicited, LoginCode, LoginPage};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use url::Url;

/// Lines and characters of a server's words in a question.
const MAX_WORDS: (usize, usize) = (40, 3_000);

/// The user of the conversation, once there is one, and the model that answers on the user's behalf.
pub(crate) struct ServersUser {
    screen: Arc<dyn Screen>,
    is_present: AtomicBool,
    pub(super) calls: RunningCalls,
}

impl ServersUser {
    pub(super) fn new(screen: Arc<dyn Screen>) -> Self {
        Self { screen, is_present: AtomicBool::new(false), calls: RunningCalls::default() }
    }

    /// Notes that there is a conversation, whose calls may ask its user.
    pub(crate) fn set_present(&self) {
        self.is_present.store(true, Ordering::Relaxed);
    }

    fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Relaxed)
    }

    /// Asks in the conversation of a call to the server, one question at a time, unless the user has muted the server.
    async fn ask(&self, server: &str, question: String, kind: DialogKind) -> Result<DialogAnswer, DialogError> {
        let services = self.calls.services(server).ok_or(DialogError::Headless)?;
        services.ask(Dialog { plugin: format!("{MCP_SERVER}{server}"), question, kind }).await
    }

    async fn confirm(&self, server: &str, question: String) -> Elicited {
        elicited(self.ask(server, question, DialogKind::Confirm).await, |answer| {
            matches!(answer, DialogAnswer::Confirmed(true)).then_some(None)
        })
    }

    async fn fill(&self, server: &str, message: &str, form: &FormSchema) -> Result<Value, DialogError> {
        let mut filling = form.fill(message);
        while let Some((question, kind)) = filling.next_question() {
            filling.answer(self.ask(server, question, kind).await?);
        }
        Ok(Value::Object(filling.values()))
    }
}

/// Converts an answer. One that `accepted` turns into nothing is a refusal.
fn elicited<T>(answer: Result<T, DialogError>, accepted: impl FnOnce(T) -> Option<Option<String>>) -> Elicited {
    match answer {
        Ok(answer) => accepted(answer).map_or(Elicited::Decline, Elicited::Accept),
        Err(DialogError::Dismissed | DialogError::Cancelled) => Elicited::Cancel,
        Err(DialogError::Muted | DialogError::Headless) => Elicited::Decline,
    }
}

fn bound_text(text: &str) -> String {
    bounded(text, MAX_WORDS.0, MAX_WORDS.1)
}

impl pinion_mcp::Person for ServersUser {
    fn can_answer(&self) -> bool {
        self.is_present() && self.screen.is_interactive()
    }

    /// Each request needs consent.
    fn can_sample(&self) -> bool {
        self.can_answer()
    }

    fn elicit_form<'a>(&'a self, server: &'a str, message: &'a str, form: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        async move {
            let message = bound_text(message);
            if form.fields() == 0 {
                return match self.confirm(server, message).await {
                    Elicited::Accept(_) => Elicited::Accept(Some("{}".to_owned())),
                    other => other,
                };
            }
            elicited(self.fill(server, &message, form).await, |values| Some(Some(values.to_string())))
        }
        .boxed()
    }

    /// The address comes first: however long the server's words are, they hide nothing of it.
    fn elicit_url<'a>(&'a self, server: &'a str, message: &'a str, url: &'a Url) -> BoxFuture<'a, Elicited> {
        async move {
            let host = url.host_str().unwrap_or_default();
            let question = format!("Open this page of {host} in the browser?\n{url}\n{}", bound_text(message));
            let answer = self.confirm(server, question).await;
            if matches!(answer, Elicited::Accept(_)) && !self.screen.open_page(url) {
                self.screen.note(&text!(
                    "MCP server `{}` wants you to open this address:\n{}",
                    server,
                    url.to_string()
                ));
            }
            answer
        }
        .boxed()
    }

    fn is_done<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, bool> {
        async move {
            let question = format!("Are you done there, so that the server can continue?\n{url}");
            matches!(self.confirm(server, question).await, Elicited::Accept(_))
        }
        .boxed()
    }

    fn consent_to_sampling<'a>(&'a self, server: &'a str, summary: &'a str) -> BoxFuture<'a, bool> {
        async move {
            let question = format!(
                "Send this request to the model, at your expense, and its answer to the server?\n{}",
                bound_text(summary)
            );
            matches!(self.confirm(server, question).await, Elicited::Accept(_))
        }
        .boxed()
    }

    fn sample<'a>(&'a self, server: &'a str, request: String) -> BoxFuture<'a, Result<String, String>> {
        async move { self.calls.sample(server, &request).await }.boxed()
    }

    fn open_login<'a>(&'a self, server: &'a str, page: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async move {
            self.screen.note(&text!("log in to MCP server `{}` at this address:\n{}", server, page.url.to_string()));
            if !self.screen.open_page(&page.url) && page.has_device_flow {
                self.screen.note(&text!(
                    "hint: without a browser here, `pinion mcp login {} --device` logs in with a code",
                    server
                ));
            }
            if !self.screen.is_interactive() || self.is_present() {
                return None;
            }
            self.screen
                .note(&text!("if the browser is on another machine, paste the address to which it was redirected:"));
            let screen = self.screen.clone();
            let line = tokio::task::spawn_blocking(move || screen.read_line());
            let line = line.await.ok()?.ok()?;
            Some(line.trim().to_owned()).filter(|line| !line.is_empty())
        }
        .boxed()
    }

    fn show_code<'a>(&'a self, server: &'a str, code: &'a LoginCode) -> BoxFuture<'a, ()> {
        let LoginCode { url, code, complete, lifetime } = code;
        let minutes = lifetime.as_secs().div_ceil(60).to_string();
        self.screen.note(&text!(
            "to log in to MCP server `{}`, open this address on any device:\n{}",
            server,
            url.to_string()
        ));
        self.screen.note(&text!("and enter the code {} within {} min", code, minutes));
        if let Some(complete) = complete {
            self.screen.note(&text!("or open this address, which contains the code:\n{}", complete.to_string()));
        }
        std::future::ready(()).boxed()
    }
}
