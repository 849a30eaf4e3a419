//! Steps that all request bodies share, before the conversation takes a vendor's form.

use crate::models::{Model, same_model};
use pinion_protocol::{AssistantMessage, Message, Request, ToolCall, ToolResultMessage, UserMessage};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Replaces an image for a model that accepts none.
pub(crate) const NO_IMAGE: &str = "[image left out: this model takes no images]";

/// Opens a conversation whose beginning was dropped, for vendors that require the user to speak first.
pub(crate) const OPENING: &str = "[the conversation so far was left out]";

/// Replaces the output of a tool that returned nothing.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Replaces the output of a tool that failed without a message.
pub(crate) const NO_FAILURE_TEXT: &str = "failed, and said nothing";

/// Replaces images in a result when they follow in a user message.
pub(crate) const IMAGE_FOLLOWS: &str = "(an image, which follows)";

/// Introduces the user message with the images of preceding results.
pub(crate) const IMAGES_FOLLOW: &str = "The images that the tools gave back:";

/// One step of a conversation, for formats in which images of tool results follow in a message of the user.
pub(crate) enum ConversationStep<'a> {
    User(&'a UserMessage),
    Reply(&'a AssistantMessage),
    Result(&'a ToolResultMessage),
    /// No result follows directly: the images of those before can be added now. Also occurs without results before it.
    ResultsEnd,
}

/// Returns the messages that are for the model, with [`ConversationStep::ResultsEnd`] before every other message and at the end.
pub(crate) fn steps(request: &Request) -> impl Iterator<Item = ConversationStep<'_>> {
    let steps = request.messages.iter().flat_map(|message| match &**message {
        Message::User(user) => [Some(ConversationStep::ResultsEnd), Some(ConversationStep::User(user))],
        Message::Assistant(reply) => [Some(ConversationStep::ResultsEnd), Some(ConversationStep::Reply(reply))],
        Message::ToolResult(result) => [Some(ConversationStep::Result(result)), None],
        Message::Extension(_) => [None, None],
    });
    steps.flatten().chain(std::iter::once(ConversationStep::ResultsEnd))
}

/// A turn of a conversation in which two roles alternate. `B` is the vendor's type of content block.
#[derive(Debug, Serialize)]
pub(crate) struct Turn<B> {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<B>,
}

/// Merges consecutive messages of the same role into turns and drops empty messages.
pub(crate) fn alternate<B>(messages: impl IntoIterator<Item = (&'static str, Vec<B>)>) -> Vec<Turn<B>> {
    let messages = messages.into_iter();
    let mut turns: Vec<Turn<B>> = Vec::with_capacity(messages.size_hint().1.unwrap_or_default() + 1);
    for (role, content) in messages.filter(|(_, content)| !content.is_empty()) {
        match turns.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => turns.push(Turn { role, content }),
        }
    }
    turns
}

/// Inserts an opening turn of the user when the assistant would speak first.
pub(crate) fn open_with_user<B>(turns: &mut Vec<Turn<B>>, opening: impl FnOnce() -> B) {
    if turns.first().is_some_and(|turn| turn.role == "assistant") {
        turns.insert(0, Turn { role: "user", content: vec![opening()] });
    }
}

/// Moves tool results to the front of each user turn, preserving the order otherwise.
pub(crate) fn results_first<B>(turns: &mut [Turn<B>], is_result: impl Fn(&B) -> bool) {
    for turn in turns.iter_mut().filter(|turn| turn.role == "user") {
        turn.content.sort_by_key(|block| !is_result(block));
    }
}

/// Returns whether the message came from this model of this provider; only then may its thinking go back. Vendors answer
/// aliases and deployments under another name, so the name in the request counts too.
pub(crate) fn is_own(message: &AssistantMessage, provider: &str, model: &Model) -> bool {
    let names = message.requested_model.iter().chain([&message.model]);
    message.provider == provider && names.into_iter().any(|name| same_model(name, &model.id))
}

/// Returns whether the image has one of the four formats that vendors accept.
pub(crate) fn is_web_image(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Returns whether the text is not blank; vendors reject blank ones.
pub(crate) fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

/// Returns the fields that a server added to a call, stored as its signature.
pub(crate) fn fields_of_server(signature: Option<&str>) -> Map<String, Value> {
    let stored: Map<String, Value> = signature.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default();
    stored.into_iter().filter(|(name, _)| !matches!(&**name, "id" | "type" | "function")).collect()
}

/// Returns a call's arguments as an object, which every vendor requires. Anything else that the model produced is
/// preserved under `invalid`, so that the model sees its mistake.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, Value> {
    match (&call.arguments, &call.partial) {
        (Value::Object(_), _) => Cow::Borrowed(&call.arguments),
        (_, Some(partial)) => Cow::Owned(json!({ "invalid": partial })),
        (Value::Null, None) => Cow::Owned(json!({})),
        (other, None) => Cow::Owned(json!({ "invalid": other })),
    }
}

/// A vendor's constraint on tool call IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Any text without control characters.
    Any,
    /// At most this many characters of `a-z A-Z 0-9 _ -`. The model's own IDs may contain others.
    AtMost(usize),
    /// Like [`Self::AtMost`], for servers whose own IDs may be of any length. Gateways keep data in them, and routers find
    /// the signature of a call by its ID.
    OwnOrAtMost(usize),
    /// Exactly nine characters of `a-z A-Z 0-9`.
    NineLetters,
}

impl IdRule {
    fn fits(self, id: &str) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        match self {
            Self::Any => !id.is_empty() && !id.contains(char::is_control),
            Self::AtMost(max) | Self::OwnOrAtMost(max) => !id.is_empty() && id.len() <= max && id.bytes().all(plain),
            Self::NineLetters => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        }
    }

    /// Returns whether the model that chose an ID accepts it back. Kimi chooses `functions.read:0` and depends on it.
    fn fits_own(self, id: &str) -> bool {
        match self {
            Self::AtMost(max) => id.len() <= max && Self::Any.fits(id),
            Self::OwnOrAtMost(_) => Self::Any.fits(id),
            Self::Any | Self::NineLetters => self.fits(id),
        }
    }
}

/// The tool call IDs of one request.
pub(crate) struct CallIds<'a> {
    rule: IdRule,
    /// The model's own IDs that the rule would replace.
    own: BTreeSet<&'a str>,
}

impl<'a> CallIds<'a> {
    pub(crate) fn of(request: &'a Request, model: &Model, provider: &str, rule: IdRule) -> Self {
        let replies = request.messages.iter().filter_map(|message| match &**message {
            Message::Assistant(reply) => Some(reply),
            _ => None,
        });
        let unusual = |id: &&str| !rule.fits(id) && rule.fits_own(id);
        let ids = |reply: &'a AssistantMessage| reply.tool_calls().map(|call| &*call.id).filter(unusual);
        // The author of a reply matters only if an ID is unusual.
        let own = replies.flat_map(|reply| ids(reply).filter(|_| is_own(reply, provider, model)));
        Self { rule, own: own.collect() }
    }

    /// Converts an ID to one that the vendor accepts.
    pub(crate) fn get<'b>(&self, id: &'b str) -> Cow<'b, str> {
        if self.own.contains(id) { Cow::Borrowed(id) } else { call_id(id, self.rule) }
    }
}

/// Converts an ID to one that fits the rule. The mapping is deterministic, so that calls and results still pair.
fn call_id(id: &str, rule: IdRule) -> Cow<'_, str> {
    if rule.fits(id) {
        return Cow::Borrowed(id);
    }
    let letters = base36(fnv1a(id.as_bytes()));
    Cow::Owned(match rule {
        IdRule::Any | IdRule::AtMost(_) | IdRule::OwnOrAtMost(_) => format!("call_{letters}"),
        IdRule::NineLetters => letters.chars().take(9).collect(),
    })
}

/// A hash that is stable across releases and machines, unlike the standard library's: a changed ID would invalidate the
/// prompt cache of a session.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Encodes a number as thirteen characters of `0-9 a-z`, the least significant first.
fn base36(mut number: u64) -> String {
    let digit = |n: u64| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize]);
    let next = |_| {
        let c = digit(number);
        number /= 36;
        c
    };
    (0..13).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_are_kept_and_others_replaced_by_stable_ones() {
        assert_eq!(call_id("toolu_01-A", IdRule::AtMost(64)), "toolu_01-A");
        assert_eq!(call_id("abc123XYZ", IdRule::NineLetters), "abc123XYZ");
        let replaced = call_id("call|fc_ü", IdRule::AtMost(40));
        assert!(replaced.len() <= 40 && replaced.starts_with("call_"));
        assert_eq!(replaced, call_id("call|fc_ü", IdRule::AtMost(40)));
        let nine = call_id("toolu_01-A", IdRule::NineLetters);
        assert!(nine.len() == 9 && nine.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(nine, call_id("toolu_02-A", IdRule::NineLetters));
        assert_ne!(call_id("", IdRule::AtMost(40)), "");
    }

    #[test]
    fn arguments_are_always_an_object() {
        let call = |arguments: Value| ToolCall::new("1", "read", arguments);
        assert_eq!(*arguments(&call(json!({"a": 1}))), json!({"a": 1}));
        assert_eq!(*arguments(&call(Value::Null)), json!({}));
        assert_eq!(*arguments(&call(json!([1]))), json!({"invalid": [1]}));
        let partial = ToolCall::from_stream("1".to_owned(), "read".to_owned(), "{\"pa".to_owned());
        assert_eq!(*arguments(&partial), json!({"invalid": "{\"pa"}));
    }
}
