//! Questions of servers to the user: forms, addresses, the model, directories.

#![allow(deprecated, reason = "older servers still use roots and sampling, which the protocol has deprecated")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pinion_protocol::FormSchema;
use pinion_protocol::text::{bounded, count};
use rmcp::model::{
    ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, InputRequest,
    ListRootsResult, Root, RootsCapabilities, SKILLS_EXTENSION_ID, SamplingCapability, TASKS_EXTENSION_ID,
    UrlElicitationCapability,
};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use url::Url;

use crate::error::quoted;
use crate::limits::MAX_QUESTIONS;
use crate::ports::{Elicited, Person};

/// Maximum bytes of a message to the user.
const MAX_MESSAGE: usize = 16 << 10;
/// Maximum bytes of an address that the user may open: all of it is shown.
const MAX_ADDRESS: usize = 2 << 10;
/// Maximum lines and characters of a server's text for the model.
const MAX_SAMPLE: (usize, usize) = (40, 3_000);

/// Answers the questions of one server.
#[derive(Clone)]
pub(crate) struct Questions {
    server: Arc<str>,
    person: Arc<dyn Person>,
    roots: Arc<[PathBuf]>,
    /// Limits questions at a time; more are refused at once.
    places: Arc<Semaphore>,
}

impl Questions {
    pub(crate) fn new(server: &str, person: Arc<dyn Person>, roots: &[PathBuf]) -> Self {
        Self { server: server.into(), person, roots: roots.into(), places: Arc::new(Semaphore::new(MAX_QUESTIONS)) }
    }

    /// Returns the capabilities of the client, which servers learn when they connect.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        // Results that are fetched later, see `connection/task.rs`.
        // Files of skills are verified, see `connection/skills.rs`.
        let extensions = [TASKS_EXTENSION_ID, SKILLS_EXTENSION_ID].map(|id| (id.to_owned(), Map::new()));
        capabilities.extensions = Some(BTreeMap::from(extensions));
        if !self.roots.is_empty() {
            capabilities.roots = Some(RootsCapabilities::default());
        }
        if self.person.can_answer() {
            let forms = FormElicitationCapability::new().with_schema_validation(true);
            capabilities.elicitation =
                Some(ElicitationCapability::new().with_form(forms).with_url(UrlElicitationCapability::new()));
        }
        if self.person.can_sample() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        capabilities
    }

    /// Answers one of the questions that a server of protocol 2026-07-28 uses to interrupt a request.
    pub(crate) async fn answer(&self, request: InputRequest) -> Result<Value, ErrorData> {
        let value = match request {
            InputRequest::CreateMessage(request) => serde_json::to_value(self.sample(request.params).await?),
            InputRequest::Elicitation(request) => serde_json::to_value(self.elicit(request.params).await?),
            InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "unknown question", None)),
        };
        value.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    pub(crate) async fn elicit(&self, params: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        let _place = self.acquire_permit()?;
        match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                check_message(&message)?;
                let schema = serde_json::to_value(&requested_schema).map_err(internal)?;
                let form = FormSchema::parse(&schema.to_string());
                // Neither an answer nor a refusal of the user, who was not asked.
                let form = form.map_err(|problem| ErrorData::invalid_params(unusable(&problem), None))?;
                Ok(match self.person.elicit_form(&self.server, &message, &form).await {
                    Elicited::Accept(content) => {
                        let content = content.as_deref().map(serde_json::from_str).transpose().map_err(internal)?;
                        ElicitResult::new(ElicitationAction::Accept).with_content(with_defaults(content, &schema))
                    }
                    Elicited::Decline => ElicitResult::new(ElicitationAction::Decline),
                    Elicited::Cancel => ElicitResult::new(ElicitationAction::Cancel),
                })
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                let action = match self.visit(&message, &address(&url)?).await? {
                    Elicited::Accept(_) => ElicitationAction::Accept,
                    Elicited::Decline => ElicitationAction::Decline,
                    Elicited::Cancel => ElicitationAction::Cancel,
                };
                Ok(ElicitResult::new(action))
            }
            _ => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    /// Asks the user to visit an address.
    async fn visit(&self, message: &str, url: &Url) -> Result<Elicited, ErrorData> {
        check_message(message)?;
        Ok(self.person.elicit_url(&self.server, message, url).await)
    }

    /// Asks the user to visit the addresses that a server requires before it accepts a request, and waits until that is
    /// done. Returns false if the user declines.
    pub(crate) async fn visit_all(&self, wanted: Vec<ElicitRequestParams>) -> Result<bool, ErrorData> {
        let _place = self.acquire_permit()?;
        for question in wanted {
            let ElicitRequestParams::UrlElicitationParams { message, url, .. } = question else { return Ok(false) };
            let url = address(&url)?;
            let has_visited = matches!(self.visit(&message, &url).await?, Elicited::Accept(_));
            if !has_visited || !self.person.is_done(&self.server, url.as_str()).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) async fn sample(&self, params: CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let _place = self.acquire_permit()?;
        if !self.person.can_sample() {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "sampling is not available", None));
        }
        let request = serde_json::to_string(&params).map_err(internal)?;
        let summary = summary(&params);
        if !self.person.consent_to_sampling(&self.server, &summary).await {
            return Err(ErrorData::new(ErrorCode(-1), "the user rejected the sampling request", None));
        }
        let result = self.person.sample(&self.server, request).await;
        let result = result.map_err(|problem| ErrorData::internal_error(problem, None))?;
        serde_json::from_str(&result).map_err(internal)
    }

    pub(crate) fn roots(&self) -> ListRootsResult {
        let root = |path: &PathBuf| {
            let url = Url::from_directory_path(path).ok()?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(url.as_str().trim_end_matches('/'));
            Some(match name {
                Some(name) => root.with_name(name),
                None => root,
            })
        };
        ListRootsResult::new(self.roots.iter().filter_map(root).collect())
    }

    fn acquire_permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, ErrorData> {
        let busy = |_| ErrorData::internal_error(format!("more than {MAX_QUESTIONS} questions at a time"), None);
        self.places.try_acquire().map_err(busy)
    }
}

/// Describes a request to the model: its size and its text.
fn summary(params: &CreateMessageRequestParams) -> String {
    let mut text =
        format!("{}, up to {} tokens of answer", count(params.messages.len() as u64, "message"), params.max_tokens);
    if let Some(system) = &params.system_prompt {
        text.push_str(&format!("\n[system] {system}"));
    }
    for message in &params.messages {
        // Content that is not text is shown by its kind.
        let message = serde_json::to_value(message).unwrap_or_default();
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = message.get("content").cloned().unwrap_or_default();
        let parts = if let Value::Array(parts) = content { parts } else { vec![content] };
        for part in parts {
            match (part.get("text").and_then(Value::as_str), part.get("type").and_then(Value::as_str)) {
                (Some(said), _) => text.push_str(&format!("\n[{role}] {said}")),
                (None, kind) => text.push_str(&format!("\n[{role}] ({})", kind.unwrap_or("unknown content"))),
            }
        }
    }
    bounded(&text, MAX_SAMPLE.0, MAX_SAMPLE.1)
}

/// Reads an address that the user is asked to visit, which is one of the web.
fn address(text: &str) -> Result<Url, ErrorData> {
    if text.len() > MAX_ADDRESS {
        return Err(ErrorData::invalid_params(format!("the address has more than {MAX_ADDRESS} bytes"), None));
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
    url.ok_or_else(|| ErrorData::invalid_params("the address is not one of the web", None))
}

fn unusable(problem: &str) -> String {
    format!("the form cannot be shown: {}", quoted(problem))
}

fn internal(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn check_message(message: &str) -> Result<(), ErrorData> {
    match message.len() {
        ..=MAX_MESSAGE => Ok(()),
        _ => Err(ErrorData::invalid_params(format!("the message has more than {MAX_MESSAGE} bytes"), None)),
    }
}

/// Adds the schema's defaults for properties that the answer leaves out.
fn with_defaults(content: Option<Value>, schema: &Value) -> Value {
    let mut content = match content {
        Some(Value::Object(content)) => content,
        _ => Map::new(),
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        if let Some(default) = property.get("default")
            && !content.contains_key(name)
        {
            content.insert(name.clone(), default.clone());
        }
    }
    Value::Object(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{LoginCode, LoginPage, NoPerson};
    use futures_util::future::{BoxFuture, FutureExt as _};
    use serde_json::json;

    #[test]
    fn defaults_fill_what_the_answer_leaves_out() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": "x"}, "c": {"type": "string"}}});
        assert_eq!(with_defaults(Some(json!({"a": 2})), &schema), json!({"a": 2, "b": "x"}));
        assert_eq!(with_defaults(None, &schema), json!({"a": 1, "b": "x"}));
    }

    #[test]
    fn without_a_user_no_questions_are_offered() {
        let questions = Questions::new("x", Arc::new(NoPerson), &[]);
        let capabilities = questions.capabilities();
        assert_eq!((capabilities.elicitation, capabilities.sampling, capabilities.roots), (None, None, None));
    }

    /// Never answers.
    struct Absent;

    impl Person for Absent {
        fn elicit_form<'a>(&'a self, _: &'a str, _: &'a str, _: &'a FormSchema) -> BoxFuture<'a, Elicited> {
            std::future::pending().boxed()
        }
        fn elicit_url<'a>(&'a self, _: &'a str, _: &'a str, _: &'a Url) -> BoxFuture<'a, Elicited> {
            std::future::pending().boxed()
        }
        fn is_done<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
            std::future::pending().boxed()
        }
        fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
            std::future::pending().boxed()
        }
        fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
            std::future::pending().boxed()
        }
        fn open_login<'a>(&'a self, _: &'a str, _: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
            std::future::pending().boxed()
        }
        fn show_code<'a>(&'a self, _: &'a str, _: &'a LoginCode) -> BoxFuture<'a, ()> {
            std::future::pending().boxed()
        }
    }

    fn form(message: &str) -> ElicitRequestParams {
        serde_json::from_value(json!({
            "mode": "form", "message": message,
            "requestedSchema": {"type": "object", "properties": {"a": {"type": "boolean"}}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn flood_of_questions_is_refused() {
        let questions = Questions::new("x", Arc::new(Absent), &[]);
        let mut waiting = Vec::new();
        for _ in 0..MAX_QUESTIONS {
            let mut question = Box::pin(questions.elicit(form("?")));
            assert!(futures_util::poll!(&mut question).is_pending());
            waiting.push(question);
        }
        assert!(questions.elicit(form("?")).await.is_err());
    }

    #[tokio::test]
    async fn giant_messages_and_addresses_outside_the_web_are_refused() {
        let questions = Questions::new("x", Arc::new(Absent), &[]);
        assert!(questions.elicit(form(&"x".repeat(MAX_MESSAGE + 1))).await.is_err());
        let long = format!("https://host/{}", "x".repeat(MAX_ADDRESS));
        for url in ["javascript:alert(1)", "file:///etc/passwd", "no address", &long] {
            let question = json!({"mode": "url", "message": "m", "url": url, "elicitationId": "1"});
            assert!(questions.elicit(serde_json::from_value(question).unwrap()).await.is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn form_that_cannot_be_shown_is_refused_with_the_reason() {
        let questions = Questions::new("x", Arc::new(Absent), &[]);
        let property = json!({"type": "string", "format": "email", "maxLength": 3});
        let schema = json!({"type": "object", "properties": {"a": property}, "required": ["b"]});
        let question = json!({"mode": "form", "message": "m", "requestedSchema": schema});
        let error = questions.elicit(serde_json::from_value(question).unwrap()).await.unwrap_err();
        assert_eq!(error.message, "the form cannot be shown: the required property `b` is not described");
    }

    #[test]
    fn consent_to_a_request_of_the_model_shows_what_it_says() {
        let request = json!({
            "systemPrompt": "Be brief.", "maxTokens": 50,
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Say hi"}},
                {"role": "assistant", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
            ],
        });
        let shown = summary(&serde_json::from_value(request).unwrap());
        let expected = "2 messages, up to 50 tokens of answer\n[system] Be brief.\n[user] Say hi\n[assistant] (image)";
        assert_eq!(shown, expected);
    }

    #[test]
    fn roots_are_file_addresses() {
        let questions = Questions::new("x", Arc::new(NoPerson), &[PathBuf::from("/work/a b")]);
        let roots = serde_json::to_value(questions.roots()).unwrap();
        assert_eq!(roots, json!({"roots": [{"uri": "file:///work/a%20b", "name": "a b"}]}));
    }
}
