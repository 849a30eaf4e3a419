//! The conversation of a call, for servers that ask its user or its model while they work on it.
//!
//! A server gets an answer only during a call of the conversation to it. For the model (`sampling/createMessage`), the call's
//! run pays: its budgets count, and its end ends the request. The model gets the server's messages and nothing else, and no tools.

use pinion_agent::Content;
use pinion_agent::content::Image;
use pinion_agent::services::{CompletionAnswer, CompletionTask, Services};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a request.
const MAX_REQUEST: usize = 1 << 20;
/// Messages of a request.
const MAX_MESSAGES: usize = 200;
/// Output limit in tokens, even if a server asks for more.
const MAX_TOKENS: u64 = 16_384;

/// The calls to servers that are running.
#[derive(Clone, Default)]
pub(super) struct RunningCalls(Arc<Mutex<Vec<RunningSampling>>>);

struct RunningSampling {
    id: u64,
    server: String,
    services: Services,
}

/// Ends a running call when dropped.
pub(super) struct Guard {
    calls: RunningCalls,
    id: u64,
}

impl RunningCalls {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RunningSampling>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a server ask the model of a conversation until the guard is dropped.
    pub(super) fn begin(&self, server: &str, services: Services) -> Guard {
        let mut calls = self.lock();
        let id = calls.iter().map(|call| call.id).max().map_or(0, |id| id + 1);
        calls.push(RunningSampling { id, server: server.to_owned(), services });
        Guard { calls: self.clone(), id }
    }

    /// Returns the conversation of the call to a server that began last.
    pub(super) fn services(&self, server: &str) -> Option<Services> {
        self.lock().iter().rev().find(|call| call.server == server).map(|call| call.services.clone())
    }

    /// Sends a server's request to the model of the call that began last.
    ///
    /// # Errors
    /// No call to the server is running, the request is invalid, or the model does not answer.
    pub(super) async fn sample(&self, server: &str, request: &str) -> Result<String, String> {
        let task = task(request)?;
        let services = self.services(server).ok_or("no call is running that could use the model")?;
        services.complete(task).await.map(answer).map_err(|error| error.to_string())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.calls.lock().retain(|call| call.id != self.id);
    }
}

/// The parts of a request that count. Wishes for a model, a temperature or the context of the conversation have no effect.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SamplingRequest {
    messages: Vec<SamplingMessage>,
    max_tokens: u64,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    tools: Option<Value>,
}

#[derive(Deserialize)]
struct SamplingMessage {
    role: Role,
    content: OneOrMany,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<SamplingPart>),
    One(SamplingPart),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum SamplingPart {
    Text {
        text: String,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        media_type: String,
    },
}

/// Converts a request. Messages of one side in a row become one.
fn task(request: &str) -> Result<CompletionTask, String> {
    if request.len() > MAX_REQUEST {
        return Err(format!("the request has {} bytes, of at most {MAX_REQUEST}", request.len()));
    }
    let request: SamplingRequest =
        serde_json::from_str(request).map_err(|error| format!("unsupported request: {error}"))?;
    if request.tools.is_some_and(|tools| tools != json!([])) {
        return Err("tools are not supported".to_owned());
    }
    if request.messages.len() > MAX_MESSAGES {
        return Err(format!("{} messages, of at most {MAX_MESSAGES}", request.messages.len()));
    }
    let mut turns: Vec<(Role, Vec<Content>)> = Vec::new();
    for SamplingMessage { role, content } in request.messages {
        let parts = match content {
            OneOrMany::Many(parts) => parts,
            OneOrMany::One(part) => vec![part],
        };
        let parts = parts.into_iter().map(content_of).collect::<Result<Vec<_>, _>>()?;
        match turns.last_mut() {
            Some((last, content)) if *last == role => content.extend(parts),
            _ => turns.push((role, parts)),
        }
    }
    let ends = [turns.first(), turns.last()].map(|turn| turn.map(|(role, _)| *role));
    if ends != [Some(Role::User); 2] {
        return Err("the first and the last message must be the user's".to_owned());
    }
    Ok(CompletionTask {
        system: request.system_prompt.unwrap_or_default(),
        turns: turns.into_iter().map(|(_, content)| content).collect(),
        model: None,
        max_tokens: request.max_tokens.clamp(1, MAX_TOKENS),
        schema: None,
        meters: Vec::new(),
    })
}

fn content_of(part: SamplingPart) -> Result<Content, String> {
    match part {
        SamplingPart::Text { text } => Ok(Content::text(text)),
        SamplingPart::Image { data, media_type } => {
            let image = json!({ "media_type": media_type, "data": data });
            let image: Image = serde_json::from_value(image).map_err(|error| format!("an image: {error}"))?;
            image.check_format().map_err(|problem| format!("an image: {problem}"))?;
            Ok(Content::Image(image))
        }
    }
}

fn answer(answer: CompletionAnswer) -> String {
    let content = json!({ "type": "text", "text": answer.text });
    json!({ "role": "assistant", "content": content, "model": answer.model, "stopReason": "endTurn" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;
    use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, Severity};
    use pinion_agent::services::{CallServices, CompletionError};
    use std::time::Duration;

    /// Answers with the question.
    struct Repeating;

    impl CallServices for Repeating {
        fn ask(&self, _: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>> {
            Box::pin(async { Err(DialogError::Headless) })
        }
        fn notify(&self, _: &str, _: Severity, _: &str) {}
        fn status(&self, _: &str, _: Option<&str>) {}
        fn draw(
            &self,
            _: &str,
            _: pinion_agent::drawing::DrawnPart,
            _: Vec<pinion_agent::drawing::DrawingBlock>,
        ) -> BoxFuture<'_, bool> {
            Box::pin(async { false })
        }
        fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
            let text = format!("{} {:?} {}", task.system, task.turns, task.max_tokens);
            Box::pin(async { Ok(CompletionAnswer { text, model: "m".to_owned(), usage: Default::default() }) })
        }
        fn session(&self) -> Arc<dyn pinion_agent::store::SessionStore> {
            Arc::new(pinion_agent::store::NoStore)
        }
        fn clean(&self, text: &str) -> String {
            text.to_owned()
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn request(text: &str) -> String {
        let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
        json!({ "messages": [message], "maxTokens": 99_999_999_u64, "systemPrompt": "Be brief." }).to_string()
    }

    #[tokio::test]
    async fn server_gets_an_answer_only_during_a_call_to_it() {
        let calls = RunningCalls::default();
        assert!(calls.sample("docs", &request("hi")).await.unwrap_err().contains("no call is running"));
        let (first, second) =
            (calls.begin("docs", Services::new(Repeating)), calls.begin("docs", Services::new(Repeating)));
        drop(first);
        let answer: Value = serde_json::from_str(&calls.sample("docs", &request("hi")).await.unwrap()).unwrap();
        let text = answer["content"]["text"].as_str().unwrap();
        assert!(text.starts_with("Be brief. ") && text.contains("hi") && text.ends_with(" 16384"), "{text}");
        assert_eq!((&answer["role"], &answer["model"]), (&json!("assistant"), &json!("m")));
        assert!(calls.sample("other", &request("hi")).await.is_err());
        drop(second);
        assert!(calls.sample("docs", &request("hi")).await.is_err());
    }

    #[test]
    fn messages_of_one_side_are_joined_and_strange_ones_are_refused() {
        let text = |role: &str, text: &str| json!({ "role": role, "content": [{ "type": "text", "text": text }] });
        let asked = |messages: Value| task(&json!({ "messages": messages, "maxTokens": 5 }).to_string());
        let joined = asked(json!([text("user", "a"), text("user", "b"), text("assistant", "c"), text("user", "d")]));
        assert_eq!(joined.unwrap().turns.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
        for wrong in [
            json!([]),
            json!([text("assistant", "a")]),
            json!([text("user", "a"), text("assistant", "b")]),
            json!([{ "role": "user", "content": { "type": "audio", "data": "", "mimeType": "audio/wav" } }]),
            json!([{ "role": "user", "content": { "type": "image", "data": "AAAA", "mimeType": "image/png" } }]),
        ] {
            assert!(asked(wrong.clone()).is_err(), "{wrong}");
        }
        let tools = json!({ "messages": [text("user", "a")], "maxTokens": 5, "tools": [{ "name": "x" }] });
        assert!(task(&tools.to_string()).is_err() && task(&request(&"x".repeat(MAX_REQUEST))).is_err());
    }
}
