//! Attempts of a hook at the imports that belong to a conversation, and at one that does not.

use pinion_plugin_sdk::hooks::Content;
use pinion_plugin_sdk::model::{CompletionRequest, Message, Role};
use pinion_plugin_sdk::storage::{self, Scope};
use pinion_plugin_sdk::{invoke, model, session, ui};

/// Returns the answer of each.
pub(crate) fn attempts() -> String {
    let completion = model::complete(&CompletionRequest {
        system: None,
        messages: vec![Message { role: Role::User, content: vec![Content::Text("Who is it?".to_owned())] }],
        model: None,
        max_tokens: 10,
        schema: None,
        extra: None,
    });
    let invoked = invoke::call_tool("echo", r#"{"message": "hello"}"#).map_err(|error| error.message);
    [
        format!("session {:?}", session::title()),
        format!("ui {:?}", ui::confirm("Shall it run?")),
        format!("invoke {:?}", invoked.map(|_| ())),
        format!("model {:?}", completion.map(|_| ())),
        format!("storage {:?}", storage::set(Scope::Session, "met", b"yes").map(|_| ())),
    ]
    .join("; ")
}
