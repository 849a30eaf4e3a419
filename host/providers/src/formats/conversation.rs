//! Steps that all request bodies share, before the conversation takes a vendor's form.

use crate::models::{ModelSpec, same_model};
use pinion_protocol::{AssistantMessage, Message, Request, ToolCall, ToolResultMessage, UserMessage};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::HashSet;

/// Replaces an image for a model that accepts no images.
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

/// One step of a conversation, for formats where images of tool results follow in a message of the user.
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

/// Splits the content of a tool result for vendors that may take no images in results. Returns the parts that the result
/// carries, at least a text, and appends the others to `later`, a message of the user that follows.
pub(crate) fn split_result<'a, P>(
    parts: impl Iterator<Item = P>,
    stays: impl FnMut(&P) -> bool,
    text: impl FnOnce(&'a str) -> P,
    later: &mut Vec<P>,
) -> Vec<P> {
    let (mut here, mut moved): (Vec<P>, Vec<P>) = parts.partition(stays);
    if here.is_empty() {
        here.push(text(if moved.is_empty() { NO_OUTPUT } else { IMAGE_FOLLOWS }));
    }
    later.append(&mut moved);
    here
}

/// A turn of a conversation between two alternating roles. `B` is the vendor's type of content block.
#[derive(Debug, Serialize)]
pub(crate) struct RoleTurn<B> {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<B>,
}

/// Merges consecutive messages of the same role into turns and drops empty messages.
pub(crate) fn alternate<B>(messages: impl IntoIterator<Item = (&'static str, Vec<B>)>) -> Vec<RoleTurn<B>> {
    let messages = messages.into_iter();
    let mut turns: Vec<RoleTurn<B>> = Vec::with_capacity(messages.size_hint().1.unwrap_or_default() + 1);
    for (role, content) in messages.filter(|(_, content)| !content.is_empty()) {
        match turns.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => turns.push(RoleTurn { role, content }),
        }
    }
    turns
}

/// Moves tool results to the front of each user turn, preserving the order otherwise.
pub(crate) fn results_first<B>(turns: &mut [RoleTurn<B>], is_result: impl Fn(&B) -> bool) {
    for turn in turns.iter_mut().filter(|turn| turn.role == "user") {
        turn.content.sort_by_key(|block| !is_result(block));
    }
}

/// Returns whether the message came from this model of this provider; only then may its thinking go back. Vendors answer
/// aliases and deployments under another name, so the name in the request counts too.
pub(crate) fn is_own(message: &AssistantMessage, provider: &str, model: &ModelSpec) -> bool {
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

/// The tool call IDs of one request. All IDs of a conversation differ, because several vendors reject a repeated one.
pub(crate) struct CallIds {
    rule: IdRule,
    used: HashSet<String>,
}

impl CallIds {
    pub(crate) fn new(rule: IdRule) -> Self {
        Self { rule, used: HashSet::new() }
    }

    /// Returns the ID of the conversation's next call: its own, or one that the vendor accepts and that was not used
    /// before. `is_own` means that the model of the request chose the ID.
    pub(crate) fn next(&mut self, id: &str, is_own: bool) -> String {
        let base = match is_own && self.rule.fits_own(id) {
            true => Cow::Borrowed(id),
            false => call_id(id, self.rule),
        };
        let mut unique = base.clone().into_owned();
        for number in 2_u64.. {
            if self.used.insert(unique.clone()) {
                break;
            }
            let numbered = format!("{base}_{number}");
            unique = match self.rule.fits(&numbered) || (is_own && self.rule.fits_own(&numbered)) {
                true => numbered,
                // Hashed, as numbered IDs of calls that were cut to the same length may be equal.
                false => call_id(&format!("{id} {number}"), self.rule).into_owned(),
            };
        }
        unique
    }
}

/// Converts an ID to one that fits the rule. The mapping is deterministic, so that calls and results still pair.
fn call_id(id: &str, rule: IdRule) -> Cow<'_, str> {
    if rule.fits(id) {
        return Cow::Borrowed(id);
    }
    let hash = fnv1a(id.as_bytes());
    Cow::Owned(match rule {
        IdRule::Any | IdRule::AtMost(_) | IdRule::OwnOrAtMost(_) => format!("call_{}", short_hash(hash, 13)),
        IdRule::NineLetters => short_hash(hash, 9),
    })
}

/// A hash that is stable across releases and machines, unlike the standard library's: a changed ID would invalidate the
/// prompt cache of a session.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Encodes the lowest digits of a number as `0-9 a-z`, the least significant first; 13 of them encode all of it.
pub(crate) fn short_hash(mut number: u64, digits: usize) -> String {
    let digit = |n: u64| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize]);
    let next = |_| {
        let c = digit(number);
        number /= 36;
        c
    };
    (0..digits).map(next).collect()
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
    fn repeated_ids_become_unique_under_every_rule() {
        for rule in [IdRule::Any, IdRule::AtMost(40), IdRule::OwnOrAtMost(40), IdRule::NineLetters] {
            let mut ids = CallIds::new(rule);
            let given = ["c0", "c0", "c0_2", "", "", "abc123XYZ", "abc123XYZ"];
            let made: Vec<String> = given.iter().map(|id| ids.next(id, true)).collect();
            let distinct: HashSet<&String> = made.iter().collect();
            assert_eq!(distinct.len(), given.len(), "{made:?}");
            assert!(made.iter().all(|id| rule.fits(id)), "{made:?}");
            let mut again = CallIds::new(rule);
            assert!(given.iter().zip(&made).all(|(id, made)| again.next(id, true) == *made));
        }
        let mut long = CallIds::new(IdRule::AtMost(40));
        let id = "x".repeat(40);
        assert_eq!(long.next(&id, false), id);
        assert!(IdRule::AtMost(40).fits(&long.next(&id, false)));
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
