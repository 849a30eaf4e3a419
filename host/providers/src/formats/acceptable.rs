//! Makes a stored conversation acceptable to every vendor, before a format renders it.
//!
//! Vendors reject a whole request because of one message, and a stored message is part of every later request. So anything
//! that a model, a server or an older version left in a history is repaired here, in one place and for all formats: names of
//! tools that do not exist, repeated call IDs, calls without results, results without calls, empty messages, replies in a
//! row, NUL characters, and images with the wrong type. The repair is deterministic, and depends only on the messages before
//! a message and on the offered tools, so that prompt caches stay valid.

use super::conversation::{CallIds, IdRule, OPENING, fnv1a, has_text, is_own, short_hash};
use super::schemas::acceptable_tool;
use crate::models::ModelSpec;
use pinion_protocol::{
    AssistantMessage, Content, Image, Message, Request, ToolCall, ToolDefinition, ToolResultMessage, UserMessage,
};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Asks for another reply where the conversation ends with one, or two follow each other.
pub(crate) const CONTINUE: &str = "[continue]";

/// Replaces the missing result of a call.
pub(crate) const NO_RESULT: &str = "[no result: it was lost, or the call never ran]";

/// Introduces a result whose call is not in the conversation.
const LOST_CALL: &str = "[result of a call that is no longer in the conversation]";

/// Replaces an image of no bytes.
const EMPTY_IMAGE: &str = "[image left out: it is empty]";

/// The limit on the length of a tool's name, in characters: the smallest of all vendors.
const MAX_NAME: usize = 64;

/// Returns the request with a conversation that starts and ends with the user or results. Each call in it has an
/// acceptable and unique ID and exactly one result, directly after its message.
pub(crate) fn acceptable(request: &Request, model: &ModelSpec, provider: &str, rule: IdRule) -> Request {
    let mut repair = HistoryRepair {
        ids: CallIds::new(rule),
        names: ToolNames::from_tools(&request.tools),
        out: Vec::with_capacity(request.messages.len() + 1),
    };
    let messages: Vec<&Arc<Message>> =
        request.messages.iter().filter(|message| !matches!(***message, Message::Extension(_))).collect();
    let is_reply = |message: &&Arc<Message>| matches!(***message, Message::Assistant(_));
    let mut rest = &messages[..];
    while let Some((first, after)) = rest.split_first() {
        let end = after.iter().position(is_reply).unwrap_or(after.len());
        match &***first {
            Message::Assistant(reply) => {
                repair.reply(first, reply, &after[..end], is_own(reply, provider, model));
                rest = &after[end..];
            }
            _ => {
                repair.push_user_message(first);
                rest = after;
            }
        }
    }
    if !matches!(repair.out.last().map(|last| &**last), Some(Message::User(_) | Message::ToolResult(_))) {
        let text = if repair.out.is_empty() { OPENING } else { CONTINUE };
        repair.out.push(Arc::new(Message::user(text)));
    }
    let system = match clean(&request.system) {
        Cow::Borrowed(_) => request.system.clone(),
        Cow::Owned(clean) => clean.into(),
    };
    let tools = request.tools.iter().map(acceptable_tool).collect();
    Request { system, messages: repair.out, tools, ..request.clone() }
}

struct HistoryRepair<'a> {
    ids: CallIds,
    names: ToolNames<'a>,
    out: Vec<Arc<Message>>,
}

impl HistoryRepair<'_> {
    /// Adds a reply and the messages up to the next one, the results of its calls first.
    fn reply(&mut self, message: &Arc<Message>, reply: &AssistantMessage, after: &[&Arc<Message>], is_own: bool) {
        let is_said = reply.content.iter().any(|part| match part {
            Content::Text { text } => has_text(text),
            Content::ToolCall(_) => true,
            Content::Image(_) | Content::Thinking(_) => false,
        });
        if !is_said {
            return after.iter().for_each(|message| self.push_user_message(message));
        }
        match self.out.last().map(|last| &**last) {
            None => self.out.push(Arc::new(Message::user(OPENING))),
            Some(Message::Assistant(_)) => self.out.push(Arc::new(Message::user(CONTINUE))),
            Some(_) => {}
        }
        let mut calls: Vec<OpenCall<'_>> = Vec::new();
        for call in reply.tool_calls() {
            let id = self.ids.next(&call.id, is_own);
            calls.push(OpenCall { call, id, name: self.names.get(&call.name).into_owned(), is_answered: false });
        }
        self.out.push(self.repaired_reply(message, reply, &calls));
        let mut others: Vec<&Arc<Message>> = Vec::new();
        for message in after {
            let open = match &***message {
                Message::ToolResult(result) => {
                    let is_its = |open: &&mut OpenCall<'_>| !open.is_answered && open.call.id == result.call_id;
                    calls.iter_mut().find(is_its).map(|open| (open, result))
                }
                _ => None,
            };
            match open {
                Some((open, result)) => {
                    open.is_answered = true;
                    self.out.push(repaired_result(message, result, open));
                }
                None => others.push(message),
            }
        }
        for open in calls.iter().filter(|open| !open.is_answered) {
            let result = ToolResultMessage {
                call_id: open.id.clone(),
                tool_name: open.name.clone(),
                timestamp: reply.timestamp,
                ..ToolResultMessage::error(open.call, NO_RESULT)
            };
            self.out.push(Arc::new(Message::ToolResult(result)));
        }
        others.into_iter().for_each(|message| self.push_user_message(message));
    }

    /// Adds a message of the user, or a result that belongs to no call as one.
    fn push_user_message(&mut self, message: &Arc<Message>) {
        let changed = match &**message {
            Message::User(user) => {
                let is_said = |part: &Content| match part {
                    Content::Text { text } => has_text(text),
                    Content::Image(_) => true,
                    Content::Thinking(_) | Content::ToolCall(_) => false,
                };
                if !user.content.iter().any(is_said) {
                    return;
                }
                content(&user.content).map(|content| UserMessage { content, ..user.clone() })
            }
            Message::ToolResult(result) => {
                let found = content(&result.content).unwrap_or_else(|| result.content.clone());
                let content = std::iter::once(Content::text(LOST_CALL)).chain(found).collect();
                Some(UserMessage { content, label: None, timestamp: result.timestamp })
            }
            Message::Assistant(_) | Message::Extension(_) => return,
        };
        self.out.push(changed.map_or_else(|| message.clone(), |user| Arc::new(Message::User(user))));
    }

    fn repaired_reply(&self, message: &Arc<Message>, reply: &AssistantMessage, calls: &[OpenCall<'_>]) -> Arc<Message> {
        let has_odd_call =
            calls.iter().any(|open| open.id != open.call.id || open.name != open.call.name || is_odd(open.call));
        if !has_odd_call && content(&reply.content).is_none() {
            return message.clone();
        }
        let mut calls = calls.iter();
        let repaired = |part: &Content| match part {
            Content::ToolCall(call) => {
                let (id, name) = calls.next().map(|open| (open.id.clone(), open.name.clone())).unwrap_or_default();
                let arguments = clean_json(&call.arguments);
                let partial = call.partial.as_deref().map(|text| clean(text).into_owned());
                Content::ToolCall(ToolCall { id, name, arguments, partial, signature: call.signature.clone() })
            }
            part => repaired_part(part).unwrap_or_else(|| part.clone()),
        };
        let content = reply.content.iter().map(repaired).collect();
        Arc::new(Message::Assistant(AssistantMessage { content, ..reply.clone() }))
    }
}

/// A call as it goes out.
struct OpenCall<'a> {
    call: &'a ToolCall,
    id: String,
    name: String,
    is_answered: bool,
}

fn repaired_result(message: &Arc<Message>, result: &ToolResultMessage, open: &OpenCall<'_>) -> Arc<Message> {
    let changed = content(&result.content);
    if changed.is_none() && result.call_id == open.id && result.tool_name == open.name {
        return message.clone();
    }
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: open.id.clone(),
        tool_name: open.name.clone(),
        content: changed.unwrap_or_else(|| result.content.clone()),
        ..result.clone()
    }))
}

/// Returns the repaired content; `None` when nothing needs a repair.
fn content(parts: &[Content]) -> Option<Vec<Content>> {
    let changed: Vec<Option<Content>> = parts.iter().map(repaired_part).collect();
    changed.iter().any(Option::is_some).then(|| {
        let both = changed.into_iter().zip(parts);
        both.map(|(changed, part)| changed.unwrap_or_else(|| part.clone())).collect()
    })
}

/// Returns the repaired text or image; `None` when it needs no repair.
fn repaired_part(part: &Content) -> Option<Content> {
    match part {
        Content::Text { text } => match clean(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Content::Text { text }),
        },
        Content::Image(image) if image.data.is_empty() => Some(Content::text(EMPTY_IMAGE)),
        Content::Image(image) => {
            let actual = media_type(&image.data).filter(|actual| *actual != image.media_type)?;
            Some(Content::Image(Image { media_type: actual.to_owned(), data: image.data.clone() }))
        }
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Returns the type of an image by its first bytes: vendors reject one that is declared as another type.
fn media_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Replaces NUL characters, which some vendors reject and no text needs.
fn clean(text: &str) -> Cow<'_, str> {
    match memchr::memchr(0, text.as_bytes()) {
        Some(_) => Cow::Owned(text.replace('\0', "\u{fffd}")),
        None => Cow::Borrowed(text),
    }
}

fn is_odd(call: &ToolCall) -> bool {
    call.partial.as_deref().is_some_and(|text| text.contains('\0')) || has_nul(&call.arguments)
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

fn clean_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text).into_owned()),
        Value::Array(items) => Value::Array(items.iter().map(clean_json).collect()),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (clean(name).into_owned(), clean_json(value))).collect()
        }
        other => other.clone(),
    }
}

/// The names of the tools in the calls of a conversation. Models invent names, with characters that vendors accept from
/// the model and reject when they come back.
struct ToolNames<'a> {
    offered: HashSet<&'a str>,
}

impl<'a> ToolNames<'a> {
    fn from_tools(tools: &'a [Arc<ToolDefinition>]) -> Self {
        Self { offered: tools.iter().map(|tool| &*tool.name).collect() }
    }

    /// Returns a name that every vendor accepts, and that is not an offered tool's unless the call was for that tool.
    fn get<'b>(&self, name: &'b str) -> Cow<'b, str> {
        if self.offered.contains(name) || is_name(name) {
            return Cow::Borrowed(name);
        }
        let mut plain = String::with_capacity(MAX_NAME);
        for c in name.chars().take(4 * MAX_NAME) {
            match c {
                c if c.is_ascii_alphanumeric() || c == '-' => plain.push(c),
                _ if plain.ends_with('_') => {}
                _ => plain.push('_'),
            }
        }
        let starts_well = plain.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let mut plain = match plain.trim_matches('_') {
            "" => "unnamed".to_owned(),
            _ if starts_well => plain,
            _ => format!("_{plain}"),
        };
        if plain.len() > MAX_NAME || self.offered.contains(&*plain) {
            let hash = short_hash(fnv1a(name.as_bytes()), 6);
            plain.truncate(MAX_NAME - 7);
            plain = format!("{plain}_{hash}");
        }
        Cow::Owned(plain)
    }
}

/// Returns whether every vendor accepts the name: Gemini requires a letter or `_` in front.
fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.len() <= MAX_NAME && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
