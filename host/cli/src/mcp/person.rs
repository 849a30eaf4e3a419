//! Questions of MCP servers to the user, as dialogs of the conversation.

use crate::approve::Person;
use crate::mcp::sampling::RunningCalls;
use crate::output::{note, terminal, text};
use crate::process::browser::open_browser;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogKind};
use pinion_mcp::{Elicited, LoginCode, LoginPage};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Properties of a form; one dialog each.
const MAX_PROPERTIES: usize = 20;
/// Bytes of a server's question.
const MAX_QUESTION: usize = 4_000;
/// Options of a choice.
const MAX_OPTIONS: usize = 100;

/// The user of the conversation, once there is one, and the model that answers on the user's behalf.
#[derive(Default)]
pub(crate) struct ServersUser {
    person: Mutex<Option<Arc<dyn Person>>>,
    pub(super) calls: RunningCalls,
}

impl ServersUser {
    /// Passes questions to this user from now on.
    pub(crate) fn set(&self, person: Arc<dyn Person>) {
        *self.person.lock().unwrap_or_else(PoisonError::into_inner) = Some(person);
    }

    fn get(&self) -> Option<Arc<dyn Person>> {
        self.person.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self, server: &str, question: &str, kind: DialogKind) -> Result<DialogAnswer, DialogError> {
        let person = self.get().ok_or(DialogError::Headless)?;
        let question = pinion_agent::text::bounded(question, 60, MAX_QUESTION);
        let dialog = Dialog { plugin: format!("MCP server {server}"), question, kind };
        person.ask(&dialog, &CancellationToken::new()).await
    }

    async fn form(&self, server: &str, message: &str, schema: &str) -> Option<Result<Value, DialogError>> {
        let schema: Value = serde_json::from_str(schema).ok()?;
        let properties = schema.get("properties")?.as_object()?;
        if properties.len() > MAX_PROPERTIES {
            return None;
        }
        let required = |name: &str| {
            let mut required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            required.any(|other| other.as_str() == Some(name))
        };
        let mut values = Map::new();
        for (name, property) in properties {
            match self.property(server, message, name, property, required(name)).await? {
                Ok(Some(value)) => drop(values.insert(name.clone(), value)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(Value::Object(values)))
    }

    /// Asks for one property, again as long as the answer does not fit. Returns none for a kind that cannot be asked.
    async fn property(
        &self,
        server: &str,
        message: &str,
        name: &str,
        property: &Value,
        is_required: bool,
    ) -> Option<Result<Option<Value>, DialogError>> {
        let text = |member: &str| property.get(member).and_then(Value::as_str);
        let about =
            text("title").or_else(|| text("description")).map(|about| format!(" ({about})")).unwrap_or_default();
        let optional = if is_required { "" } else { ", optional" };
        let question = format!("{message}\n{name}{about}{optional}");
        let options = options(property);
        let kind = match text("type") {
            Some("boolean") => DialogKind::Confirm,
            Some("string") if !options.is_empty() => {
                DialogKind::Select(options.iter().map(|(_, title)| title.clone()).collect())
            }
            Some("string" | "number" | "integer") => {
                let default = property.get("default");
                let default = default.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                DialogKind::Input(default.unwrap_or_default())
            }
            _ => return None,
        };
        loop {
            let entered = match self.ask(server, &question, kind.clone()).await {
                Ok(DialogAnswer::Confirmed(is_yes)) => return Some(Ok(Some(json!(is_yes)))),
                Ok(DialogAnswer::Selected(at)) => return Some(Ok(options.get(at).map(|(value, _)| json!(value)))),
                Ok(DialogAnswer::Entered(entered)) => entered,
                Err(error) => return Some(Err(error)),
            };
            if entered.is_empty() && !is_required {
                return Some(Ok(None));
            }
            let value = match text("type") {
                Some("integer") => entered.trim().parse::<i64>().ok().map(|number| json!(number)),
                Some("number") => entered.trim().parse::<f64>().ok().map(|number| json!(number)),
                _ => Some(json!(entered)),
            };
            if value.is_some() {
                return Some(Ok(value));
            }
        }
    }

    async fn confirm(&self, server: &str, question: &str) -> Elicited {
        match self.ask(server, question, DialogKind::Confirm).await {
            Ok(DialogAnswer::Confirmed(true)) => Elicited::Accept(None),
            Ok(_) => Elicited::Decline,
            Err(_) => Elicited::Cancel,
        }
    }
}

/// Returns the values of a choice with their titles.
fn options(property: &Value) -> Vec<(String, String)> {
    let list = |member: &str| property.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let titled = list("oneOf").into_iter().filter_map(|option| {
        let value = option.get("const")?.as_str()?.to_owned();
        let title = option.get("title").and_then(Value::as_str).unwrap_or(&value).to_owned();
        Some((value, title))
    });
    let names = list("enumNames");
    let plain = list("enum").into_iter().enumerate().filter_map(|(at, value)| {
        let value = value.as_str()?.to_owned();
        let title = names.get(at).and_then(Value::as_str).unwrap_or(&value).to_owned();
        Some((value, title))
    });
    titled.chain(plain).take(MAX_OPTIONS).collect()
}

impl pinion_mcp::Person for ServersUser {
    fn can_answer(&self) -> bool {
        self.get().is_some() && terminal::is_interactive()
    }

    /// Each request needs consent.
    fn can_sample(&self) -> bool {
        self.can_answer()
    }

    fn elicit_form<'a>(&'a self, server: &'a str, message: &'a str, schema: &'a str) -> BoxFuture<'a, Elicited> {
        async move {
            match self.form(server, message, schema).await {
                Some(Ok(values)) => Elicited::Accept(Some(values.to_string())),
                Some(Err(DialogError::Dismissed | DialogError::Cancelled)) => Elicited::Cancel,
                Some(Err(_)) | None => Elicited::Decline,
            }
        }
        .boxed()
    }

    fn elicit_url<'a>(&'a self, server: &'a str, message: &'a str, url: &'a Url) -> BoxFuture<'a, Elicited> {
        async move {
            let question = format!("{message}\nOpen this address and continue when you are done there:\n{url}");
            self.confirm(server, &question).await
        }
        .boxed()
    }

    fn consent_to_sampling<'a>(&'a self, server: &'a str, summary: &'a str) -> BoxFuture<'a, bool> {
        async move {
            let question =
                format!("Send this request to the model, at your expense, and its answer to the server?\n{summary}");
            matches!(self.confirm(server, &question).await, Elicited::Accept(_))
        }
        .boxed()
    }

    fn sample<'a>(&'a self, server: &'a str, request: String) -> BoxFuture<'a, Result<String, String>> {
        async move { self.calls.sample(server, &request).await }.boxed()
    }

    fn open_login<'a>(&'a self, server: &'a str, page: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async move {
            note(&text!("log in to MCP server `{}` at this address:\n{}", server, page.url.to_string()));
            if !open_browser(&page.url) && page.has_device_flow {
                note(&text!(
                    "hint: without a browser here, `pinion mcp login {} --device` logs in with a code",
                    server
                ));
            }
            if !terminal::is_interactive() || self.get().is_some() {
                return None;
            }
            note(&text!("if the browser is on another machine, paste the address to which it was redirected:"));
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|_| line)
            });
            let line = line.await.ok()?.ok()?;
            Some(line.trim().to_owned()).filter(|line| !line.is_empty())
        }
        .boxed()
    }

    fn show_code<'a>(&'a self, server: &'a str, code: &'a LoginCode) -> BoxFuture<'a, ()> {
        let LoginCode { url, code, complete, lifetime } = code;
        let minutes = lifetime.as_secs().div_ceil(60).to_string();
        note(&text!("to log in to MCP server `{}`, open this address on any device:\n{}", server, url.to_string()));
        note(&text!("and enter the code {} within {} min", code, minutes));
        if let Some(complete) = complete {
            note(&text!("or open this address, which contains the code:\n{}", complete.to_string()));
        }
        std::future::ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_values_and_titles() {
        let titled = json!({ "type": "string", "oneOf": [{ "const": "a", "title": "A" }, { "const": "b" }] });
        assert_eq!(options(&titled), [("a".to_owned(), "A".to_owned()), ("b".to_owned(), "b".to_owned())]);
        let named = json!({ "enum": ["x", "y", 1], "enumNames": ["X"] });
        assert_eq!(options(&named), [("x".to_owned(), "X".to_owned()), ("y".to_owned(), "y".to_owned())]);
    }
}
