//! Dialogs of plugins as elicitation, and their requests to models as sampling.

use futures_util::future::BoxFuture;
use pinion_protocol::services::{CallServices, CompletionAnswer, CompletionError, CompletionTask};
use pinion_protocol::store::NoStore;
use pinion_protocol::{
    Block, Content, Dialog, DialogAnswer, DialogError, DialogKind, DrawnPart, Form, SessionStore, Severity, Usage,
};
use rmcp::model::{InputRequest, InputRequests, InputRequiredResult};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Member of a form's answer.
const VALUE: &str = "value";
/// Name of a question that has none of its own.
const ANSWER: &str = "answer";
/// Name of a question for several values.
const FORM: &str = "form";
/// Bytes of a text that a client enters.
const MAX_ENTERED: usize = 64 << 10;

/// A question of a call to its client, and the way back for the answer.
pub(super) struct Question {
    pub(super) kind: QuestionKind,
    answer: oneshot::Sender<Answer>,
}

pub(super) enum QuestionKind {
    Dialog(Dialog),
    Form(Form),
    Completion(CompletionTask),
}

pub(super) enum Answer {
    Form(Result<Value, DialogError>),
    Dialog(Result<DialogAnswer, DialogError>),
    Completion(Result<CompletionAnswer, CompletionError>),
}

impl Question {
    /// Returns the name of the question: that of the form's field, which the second line of its text begins with.
    pub(super) fn name(&self) -> String {
        let dialog = match &self.kind {
            QuestionKind::Dialog(dialog) => dialog,
            QuestionKind::Form(_) => return FORM.to_owned(),
            QuestionKind::Completion(_) => return "completion".to_owned(),
        };
        let field = dialog.question.lines().nth(1).unwrap_or_default();
        let end = field.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(field.len());
        if end == 0 { ANSWER.to_owned() } else { field[..end].to_owned() }
    }

    /// Returns the request to the client as JSON: its method and its parameters.
    pub(super) fn request(&self) -> Value {
        match &self.kind {
            QuestionKind::Dialog(dialog) => elicitation(dialog),
            QuestionKind::Form(form) => elicited(&form.plugin, &form.question, form.schema.clone()),
            QuestionKind::Completion(task) => sampling(task),
        }
    }

    /// Returns the result that asks the client, which has to repeat the request with `state`.
    pub(super) fn required(&self, state: &str) -> Option<InputRequiredResult> {
        let request: InputRequest = serde_json::from_value(self.request()).ok()?;
        let requests = InputRequests::from([(self.name(), request)]);
        Some(InputRequiredResult::new(Some(requests), Some(state.to_owned())))
    }

    /// Reads the answer of a client; none if it does not fit the question.
    pub(super) fn read(&self, value: &Value) -> Option<Answer> {
        match &self.kind {
            QuestionKind::Dialog(dialog) => dialog_answer(&dialog.kind, value).map(Answer::Dialog),
            QuestionKind::Form(_) => form_answer(value).map(Answer::Form),
            QuestionKind::Completion(_) => completion_answer(value).map(|answer| Answer::Completion(Ok(answer))),
        }
    }

    /// Answers the call.
    pub(super) fn answer(self, answer: Answer) {
        // The call may be over.
        let _ = self.answer.send(answer);
    }

    /// Tells the call that nobody can answer.
    pub(super) fn refuse(self) {
        let answer = match &self.kind {
            QuestionKind::Dialog(_) => Answer::Dialog(Err(DialogError::Headless)),
            QuestionKind::Form(_) => Answer::Form(Err(DialogError::Headless)),
            QuestionKind::Completion(_) => {
                Answer::Completion(Err(CompletionError::Invalid { message: "the client offers no model".to_owned() }))
            }
        };
        self.answer(answer);
    }
}

fn elicitation(dialog: &Dialog) -> Value {
    let property = match &dialog.kind {
        DialogKind::Confirm => json!({ "type": "boolean" }),
        DialogKind::Select(options) => json!({ "type": "string", "enum": options }),
        DialogKind::Input(initial) if initial.is_empty() => json!({ "type": "string" }),
        DialogKind::Input(initial) => json!({ "type": "string", "default": initial }),
    };
    let schema = json!({ "type": "object", "properties": { VALUE: property }, "required": [VALUE] });
    elicited(&dialog.plugin, &dialog.question, schema)
}

fn elicited(plugin: &str, question: &str, schema: Value) -> Value {
    let message = format!("The plugin {plugin} asks: {question}");
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
    // Clients that show a form of their own name its only field as they like.
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

/// The services of a call that a client made.
pub(super) struct ClientServices {
    questions: mpsc::Sender<Question>,
}

impl ClientServices {
    /// Creates both ends.
    pub(super) fn channel() -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(1);
        (Self { questions }, receiver)
    }

    async fn question(&self, kind: QuestionKind) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question { kind, answer }).await.ok()?;
        answered.await.ok()
    }
}

impl CallServices for ClientServices {
    fn ask(&self, dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
        Box::pin(async move {
            match self.question(QuestionKind::Dialog(dialog)).await {
                Some(Answer::Dialog(answer)) => answer,
                Some(_) | None => Err(DialogError::Headless),
            }
        })
    }

    fn fill(&self, form: Form) -> BoxFuture<'_, Option<Result<Value, DialogError>>> {
        Box::pin(async move {
            Some(match self.question(QuestionKind::Form(form)).await {
                Some(Answer::Form(answer)) => answer,
                Some(_) | None => Err(DialogError::Headless),
            })
        })
    }

    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        Box::pin(async move {
            match self.question(QuestionKind::Completion(task)).await {
                Some(Answer::Completion(answer)) => answer,
                Some(_) | None => Err(CompletionError::Cancelled),
            }
        })
    }

    fn notify(&self, plugin: &str, severity: Severity, text: &str) {
        tracing::info!(plugin, ?severity, text, "notice of a plugin");
    }

    fn status(&self, _plugin: &str, _text: Option<&str>) {}

    fn draw(&self, _plugin: &str, _part: DrawnPart, _blocks: Vec<Block>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn session(&self) -> Arc<dyn SessionStore> {
        Arc::new(NoStore)
    }

    /// The application redacts secrets in results itself.
    fn clean(&self, text: &str) -> String {
        text.to_owned()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: DialogKind, text: &str) -> Question {
        let dialog = Dialog { plugin: "p".to_owned(), question: text.to_owned(), kind };
        Question { kind: QuestionKind::Dialog(dialog), answer: oneshot::channel().0 }
    }

    #[test]
    fn question_has_the_name_of_its_field() {
        let name = |text| question(DialogKind::Confirm, text).name();
        assert_eq!(
            (name("Sure?"), name("Who?\nuser_name (yours), optional")),
            ("answer".to_owned(), "user_name".to_owned())
        );
        assert_eq!(name("Who?\n\u{1b}[31m"), "answer");
    }

    #[test]
    fn only_answers_of_the_right_form_count() {
        let read = |kind: DialogKind, value: Value| match question(kind, "?").read(&value) {
            Some(Answer::Dialog(answer)) => Some(answer),
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
    fn every_question_is_a_valid_request() {
        for kind in [DialogKind::Confirm, DialogKind::Input("x".to_owned()), DialogKind::Select(vec!["a".to_owned()])] {
            assert!(question(kind, "?").required("state").is_some());
        }
        let task = CompletionTask {
            system: "s".to_owned(),
            turns: vec![vec![Content::text("hi")]],
            model: None,
            max_tokens: 10,
            schema: None,
        };
        let question = Question { kind: QuestionKind::Completion(task), answer: oneshot::channel().0 };
        assert!(question.required("state").is_some());
        let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hello" } });
        let Some(Answer::Completion(Ok(answer))) = question.read(&answer) else { panic!("no answer") };
        assert_eq!((answer.text.as_str(), answer.model.as_str()), ("hello", "m"));
    }
}
