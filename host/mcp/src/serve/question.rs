//! Questions of calls as requests to their client: dialogs and approvals as elicitation, requests to models as sampling, and
//! the directories of the user as roots.

use pinion_protocol::services::{CompletionAnswer, CompletionError, CompletionTask};
use pinion_protocol::{Content, Dialog, DialogAnswer, DialogError, DialogForm, DialogKind, Directory, Usage};
use rmcp::model::{ClientCapabilities, InputRequest};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Member of a form's answer.
const VALUE: &str = "value";
/// The same of an approval.
const ALLOW: &str = "allow";
/// Name of a question without a separate name.
const ANSWER: &str = "answer";
/// Bytes of a text that a client enters.
const MAX_ENTERED: usize = 64 << 10;

/// A question of a call to its client, and the way back for the answer.
pub(super) struct ClientQuestion {
    /// The name, which matches an answer to its question.
    pub(super) name: String,
    pub(super) kind: QuestionKind,
    answer: oneshot::Sender<ClientAnswer>,
}

pub(super) enum QuestionKind {
    Dialog(Dialog),
    Form(DialogForm),
    Completion(CompletionTask),
    Directories,
    /// A question of the host whether a call may run, in its words.
    Approval(String),
}

pub(super) enum ClientAnswer {
    Form(Result<Value, DialogError>),
    Dialog(Result<DialogAnswer, DialogError>),
    Completion(Result<CompletionAnswer, CompletionError>),
    Directories(Result<Vec<Directory>, DialogError>),
    Approval(Result<bool, DialogError>),
}

impl QuestionKind {
    /// Returns the default name of a question: the name of the form's field, which begins the second line of its text,
    /// or the name of its kind.
    pub(super) fn name(&self) -> String {
        let dialog = match self {
            Self::Dialog(dialog) => dialog,
            Self::Form(_) => return "form".to_owned(),
            Self::Completion(_) => return "completion".to_owned(),
            Self::Directories => return "directories".to_owned(),
            Self::Approval(_) => return "approval".to_owned(),
        };
        let field = dialog.question.lines().nth(1).unwrap_or_default();
        let end = field.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(field.len());
        if end == 0 { ANSWER.to_owned() } else { field[..end].to_owned() }
    }

    /// Returns the capability that a client needs in order to be asked.
    #[expect(deprecated, reason = "clients still offer sampling and roots")]
    pub(super) fn needs(&self) -> ClientCapabilities {
        let builder = ClientCapabilities::builder();
        match self {
            Self::Dialog(_) | Self::Form(_) | Self::Approval(_) => builder.enable_elicitation().build(),
            Self::Completion(_) => builder.enable_sampling().build(),
            Self::Directories => builder.enable_roots().build(),
        }
    }

    /// Returns whether a client can be asked.
    pub(super) fn is_supported_by(&self, client: &ClientCapabilities) -> bool {
        match self {
            Self::Dialog(_) | Self::Form(_) | Self::Approval(_) => shows_forms(client),
            Self::Completion(_) => client.sampling.is_some(),
            Self::Directories => client.roots.is_some(),
        }
    }
}

/// Returns whether a client shows forms to its user. One that declares neither forms nor pages is from before there were pages.
pub(super) fn shows_forms(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

impl ClientQuestion {
    pub(super) fn new(name: String, kind: QuestionKind) -> (Self, oneshot::Receiver<ClientAnswer>) {
        let (answer, answered) = oneshot::channel();
        (Self { name, kind, answer }, answered)
    }

    /// Returns whether an answer counts only if the question was asked before.
    pub(super) fn is_approval(&self) -> bool {
        matches!(self.kind, QuestionKind::Approval(_))
    }

    /// Returns the request to the client as JSON: its method and its parameters.
    pub(super) fn request(&self) -> Value {
        match &self.kind {
            QuestionKind::Dialog(dialog) => elicitation(dialog),
            QuestionKind::Form(form) => elicited(&asked_by(&form.plugin, &form.question), form.schema.clone()),
            QuestionKind::Completion(task) => sampling(task),
            QuestionKind::Directories => json!({ "method": "roots/list", "params": {} }),
            QuestionKind::Approval(text) => approval(text),
        }
    }

    /// Returns the request as a part of a result.
    pub(super) fn input_request(&self) -> Option<InputRequest> {
        serde_json::from_value(self.request()).ok()
    }

    /// Takes the answer of a client. Gives the question back if the answer does not fit it.
    pub(super) fn accept_answer(self, value: &Value) -> Result<(), Self> {
        let answer = match &self.kind {
            QuestionKind::Dialog(dialog) => dialog_answer(&dialog.kind, value).map(ClientAnswer::Dialog),
            QuestionKind::Form(_) => form_answer(value).map(ClientAnswer::Form),
            QuestionKind::Completion(_) => completion_answer(value).map(|answer| ClientAnswer::Completion(Ok(answer))),
            QuestionKind::Directories => directories(value).map(|found| ClientAnswer::Directories(Ok(found))),
            QuestionKind::Approval(_) => approved(value).map(ClientAnswer::Approval),
        };
        match answer {
            Some(answer) => {
                self.answer(answer);
                Ok(())
            }
            None => Err(self),
        }
    }

    /// Tells the call that no user can answer.
    pub(super) fn refuse(self) {
        let answer = match &self.kind {
            QuestionKind::Dialog(_) => ClientAnswer::Dialog(Err(DialogError::Headless)),
            QuestionKind::Form(_) => ClientAnswer::Form(Err(DialogError::Headless)),
            QuestionKind::Completion(_) => ClientAnswer::Completion(Err(CompletionError::Invalid {
                message: "the client offers no model".to_owned(),
            })),
            QuestionKind::Directories => ClientAnswer::Directories(Err(DialogError::Headless)),
            QuestionKind::Approval(_) => ClientAnswer::Approval(Err(DialogError::Headless)),
        };
        self.answer(answer);
    }

    fn answer(self, answer: ClientAnswer) {
        // The call may be over.
        let _ = self.answer.send(answer);
    }
}

/// Returns the question about a call. No default: an answer has to be chosen.
fn approval(text: &str) -> Value {
    let allow = json!({ "type": "boolean", "title": "Allow this call" });
    let schema = json!({ "type": "object", "properties": { ALLOW: allow }, "required": [ALLOW] });
    elicited(text, schema)
}

/// Reads the answer to a question about a call. Only a plain yes allows it.
fn approved(value: &Value) -> Option<Result<bool, DialogError>> {
    match value.get("action")?.as_str()? {
        "accept" => Some(Ok(value.get("content")?.get(ALLOW)?.as_bool()?)),
        "decline" => Some(Ok(false)),
        "cancel" => Some(Err(DialogError::Dismissed)),
        _ => None,
    }
}

fn directories(value: &Value) -> Option<Vec<Directory>> {
    let roots = value.get("roots")?.as_array()?;
    let text = |root: &Value, name: &str| root.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(
        roots.iter().filter_map(|root| Some(Directory { uri: text(root, "uri")?, name: text(root, "name") })).collect(),
    )
}

fn elicitation(dialog: &Dialog) -> Value {
    let property = match &dialog.kind {
        DialogKind::Confirm => json!({ "type": "boolean" }),
        DialogKind::Select(options) => json!({ "type": "string", "enum": options }),
        DialogKind::Input(initial) if initial.is_empty() => json!({ "type": "string" }),
        DialogKind::Input(initial) => json!({ "type": "string", "default": initial }),
    };
    let schema = json!({ "type": "object", "properties": { VALUE: property }, "required": [VALUE] });
    elicited(&asked_by(&dialog.plugin, &dialog.question), schema)
}

/// Words a question of a plugin, so that it is not taken for one of the host.
fn asked_by(plugin: &str, question: &str) -> String {
    format!("The plugin {plugin} asks: {question}")
}

fn elicited(message: &str, schema: Value) -> Value {
    json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": message, "requestedSchema": schema },
    })
}

/// Reads the values of a form, which the runtime checks.
fn form_answer(value: &Value) -> Option<Result<Value, DialogError>> {
    match value.get("action")?.as_str()? {
        "accept" => Some(Ok(value.get("content").filter(|content| content.is_object())?.clone())),
        "decline" | "cancel" => Some(Err(DialogError::Dismissed)),
        _ => None,
    }
}

fn sampling(task: &CompletionTask) -> Value {
    let text = |content: &[Content]| content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n");
    let messages: Vec<Value> = task
        .turns
        .iter()
        .enumerate()
        .map(|(number, content)| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            json!({ "role": role, "content": { "type": "text", "text": text(content) } })
        })
        .collect();
    let schema = task.schema.as_ref().map(|schema| format!("\nAnswer with JSON that matches this schema: {schema}"));
    let system = task.system.clone() + schema.as_deref().unwrap_or_default();
    let mut params = json!({ "messages": messages, "maxTokens": task.max_tokens });
    if !system.trim().is_empty() {
        params["systemPrompt"] = json!(system);
    }
    json!({ "method": "sampling/createMessage", "params": params })
}

fn dialog_answer(kind: &DialogKind, value: &Value) -> Option<Result<DialogAnswer, DialogError>> {
    match value.get("action")?.as_str()? {
        "accept" => {}
        "decline" if *kind == DialogKind::Confirm => return Some(Ok(DialogAnswer::Confirmed(false))),
        "decline" | "cancel" => return Some(Err(DialogError::Dismissed)),
        _ => return None,
    }
    let content = value.get("content")?.as_object()?;
    // Clients that show their own form name its only field as they like.
    let entered = content.get(VALUE).or_else(|| content.values().next().filter(|_| content.len() == 1))?;
    let answer = match kind {
        DialogKind::Confirm => DialogAnswer::Confirmed(entered.as_bool()?),
        DialogKind::Select(options) => {
            let chosen = entered.as_str()?;
            DialogAnswer::Selected(options.iter().position(|option| option == chosen)?)
        }
        DialogKind::Input(_) => match entered {
            Value::String(text) if text.len() <= MAX_ENTERED => DialogAnswer::Entered(text.clone()),
            Value::Number(number) => DialogAnswer::Entered(number.to_string()),
            _ => return None,
        },
    };
    Some(Ok(answer))
}

fn completion_answer(value: &Value) -> Option<CompletionAnswer> {
    let content = value.get("content")?;
    let parts = content.as_array().map_or_else(|| vec![content], |parts| parts.iter().collect());
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    if texts.is_empty() {
        return None;
    }
    let model = value.get("model").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    Some(CompletionAnswer { text: texts.join("\n"), model, usage: Usage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ElicitationCapability, UrlElicitationCapability};

    fn dialog(kind: DialogKind, text: &str) -> QuestionKind {
        QuestionKind::Dialog(Dialog { plugin: "p".to_owned(), question: text.to_owned(), kind })
    }

    fn completion() -> QuestionKind {
        QuestionKind::Completion(CompletionTask {
            system: "s".to_owned(),
            turns: vec![vec![Content::text("hi")]],
            model: None,
            max_tokens: 10,
            schema: None,
            meters: Vec::new(),
        })
    }

    /// Answers a question; `None` if the answer does not fit.
    fn answered(kind: QuestionKind, value: &Value) -> Option<ClientAnswer> {
        let (question, mut answered) = ClientQuestion::new("q".to_owned(), kind);
        question.accept_answer(value).ok()?;
        answered.try_recv().ok()
    }

    #[test]
    fn question_has_the_name_of_its_field() {
        let name = |text| dialog(DialogKind::Confirm, text).name();
        assert_eq!(
            (name("Sure?"), name("Who?\nuser_name (yours), optional")),
            ("answer".to_owned(), "user_name".to_owned())
        );
        assert_eq!(name("Who?\n\u{1b}[31m"), "answer");
    }

    #[test]
    fn only_answers_of_the_right_form_count() {
        let read = |kind: DialogKind, value: Value| match answered(dialog(kind, "?"), &value) {
            Some(ClientAnswer::Dialog(answer)) => Some(answer),
            _ => None,
        };
        let accept = |value: Value| json!({ "action": "accept", "content": { "value": value } });
        let options = || DialogKind::Select(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(read(DialogKind::Confirm, accept(json!(true))), Some(Ok(DialogAnswer::Confirmed(true))));
        assert_eq!(read(options(), accept(json!("b"))), Some(Ok(DialogAnswer::Selected(1))));
        assert_eq!(read(options(), accept(json!("c"))), None);
        assert_eq!(read(DialogKind::Confirm, accept(json!("yes"))), None);
        assert_eq!(read(DialogKind::Input(String::new()), json!(12345)), None);
        assert_eq!(read(DialogKind::Confirm, json!({ "action": "decline" })), Some(Ok(DialogAnswer::Confirmed(false))));
        assert_eq!(read(options(), json!({ "action": "cancel" })), Some(Err(DialogError::Dismissed)));
        let named = json!({ "action": "accept", "content": { "name": "Ada" } });
        assert_eq!(read(DialogKind::Input(String::new()), named), Some(Ok(DialogAnswer::Entered("Ada".to_owned()))));
    }

    #[test]
    fn only_a_plain_yes_approves_a_call() {
        let read = |value: Value| match answered(QuestionKind::Approval("?".to_owned()), &value) {
            Some(ClientAnswer::Approval(answer)) => Some(answer),
            _ => None,
        };
        let accept = |content: Value| json!({ "action": "accept", "content": content });
        assert_eq!(read(accept(json!({ "allow": true }))), Some(Ok(true)));
        assert_eq!(read(accept(json!({ "allow": false }))), Some(Ok(false)));
        assert_eq!(read(json!({ "action": "decline" })), Some(Ok(false)));
        assert_eq!(read(json!({ "action": "cancel" })), Some(Err(DialogError::Dismissed)));
        for unclear in [json!({ "value": true }), json!({ "allow": "true" }), json!({ "allow": 1 }), json!(null)] {
            assert_eq!(read(accept(unclear)), None);
        }
    }

    #[test]
    fn every_question_is_a_valid_request() {
        let form = DialogForm {
            plugin: "p".to_owned(),
            question: "?".to_owned(),
            schema: json!({ "type": "object", "properties": {} }),
        };
        for kind in [
            dialog(DialogKind::Confirm, "?"),
            dialog(DialogKind::Input("x".to_owned()), "?"),
            dialog(DialogKind::Select(vec!["a".to_owned()]), "?"),
            QuestionKind::Form(form),
            QuestionKind::Directories,
            QuestionKind::Approval("?".to_owned()),
            completion(),
        ] {
            let (question, _answered) = ClientQuestion::new("q".to_owned(), kind);
            let request = serde_json::to_value(question.input_request().unwrap()).unwrap();
            assert_eq!(request["method"], question.request()["method"]);
        }
        let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hello" } });
        let Some(ClientAnswer::Completion(Ok(answer))) = answered(completion(), &answer) else { panic!("no answer") };
        assert_eq!((answer.text.as_str(), answer.model.as_str()), ("hello", "m"));
        let roots = json!({ "roots": [{ "uri": "file:///a", "name": "A" }, { "name": "B" }] });
        let Some(ClientAnswer::Directories(Ok(found))) = answered(QuestionKind::Directories, &roots) else {
            panic!("no roots")
        };
        assert_eq!(found, [Directory { uri: "file:///a".to_owned(), name: Some("A".to_owned()) }]);
    }

    #[test]
    fn client_that_only_opens_pages_gets_no_forms() {
        let client = |elicitation| {
            let mut client = ClientCapabilities::default();
            client.elicitation = elicitation;
            client
        };
        let pages = ElicitationCapability::new().with_url(UrlElicitationCapability::default());
        assert!(!shows_forms(&client(Some(pages.clone()))) && !shows_forms(&client(None)));
        assert!(shows_forms(&client(Some(ElicitationCapability::new()))));
        assert!(shows_forms(&client(Some(pages.with_form(Default::default())))));
    }
}
