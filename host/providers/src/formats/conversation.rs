//! What every request body needs of a conversation before it is put into a vendor's words.

use crate::models::{Model, same_model};
use pinion_protocol::{AssistantMessage, ToolCall};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Stands where a picture was, for a model that takes none.
pub(crate) const NO_IMAGE: &str = "[image left out: this model takes no images]";

/// Opens a conversation whose beginning was dropped, for vendors that require the user to speak first.
pub(crate) const OPENING: &str = "[the conversation so far was left out]";

/// Stands for the output of a tool that returned none.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Stands for the output of a tool that failed without a message.
pub(crate) const NO_FAILURE_TEXT: &str = "failed, and said nothing";

/// Stands in a result for images that follow in a message of the user's.
pub(crate) const IMAGE_FOLLOWS: &str = "(an image, which follows)";

/// Introduces the message that holds the images of preceding results.
pub(crate) const IMAGES_FOLLOW: &str = "The images that the tools gave back:";

/// One turn of a conversation in which two roles alternate. `B` is the vendor's type for a part of a message.
#[derive(Debug, Serialize)]
pub(crate) struct Turn<B> {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<B>,
}

/// Joins consecutive messages of the same role to turns and drops empty messages.
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

/// Makes the user speak first.
pub(crate) fn open_with_user<B>(turns: &mut Vec<Turn<B>>, opening: impl FnOnce() -> B) {
    if turns.first().is_some_and(|turn| turn.role == "assistant") {
        turns.insert(0, Turn { role: "user", content: vec![opening()] });
    }
}

/// Moves tool results to the front of the user's turns and keeps the order otherwise.
pub(crate) fn results_first<B>(turns: &mut [Turn<B>], is_result: impl Fn(&B) -> bool) {
    for turn in turns.iter_mut().filter(|turn| turn.role == "user") {
        turn.content.sort_by_key(|block| !is_result(block));
    }
}

/// Was the message written by this provider's same model? Only then its thinking may go back.
pub(crate) fn is_own(message: &AssistantMessage, provider: &str, model: &Model) -> bool {
    message.provider == provider && same_model(&message.model, &model.id)
}

/// A picture in one of the four formats that vendors take.
pub(crate) fn is_web_image(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// A text that vendors accept; they refuse empty ones.
pub(crate) fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

/// A call's arguments as an object, which is what every vendor demands. What the model wrote instead of one is kept
/// under `invalid`, so that it sees what it did.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, Value> {
    match (&call.arguments, &call.partial) {
        (Value::Object(_), _) => Cow::Borrowed(&call.arguments),
        (_, Some(partial)) => Cow::Owned(json!({ "invalid": partial })),
        (Value::Null, None) => Cow::Owned(json!({})),
        (other, None) => Cow::Owned(json!({ "invalid": other })),
    }
}

/// What a vendor allows in the id of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// At most this many of `a-z A-Z 0-9 _ -`.
    AtMost(usize),
    /// Exactly nine of `a-z A-Z 0-9`.
    NineLetters,
}

/// `id` as the vendor accepts it. The same id always becomes the same, so that calls and results still pair.
pub(crate) fn call_id(id: &str, rule: IdRule) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let fits = match rule {
        IdRule::AtMost(max) => !id.is_empty() && id.len() <= max && id.bytes().all(plain),
        IdRule::NineLetters => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
    };
    if fits {
        return Cow::Borrowed(id);
    }
    let letters = base36(fnv1a(id.as_bytes()));
    Cow::Owned(match rule {
        IdRule::AtMost(_) => format!("call_{letters}"),
        IdRule::NineLetters => letters.chars().take(9).collect(),
    })
}

/// Stable over releases and machines, unlike the standard library's hasher: a changed id would cost a session its cache.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Thirteen of `0-9 a-z`, the fastest changing first.
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
    fn ids_that_fit_are_kept_and_others_become_stable_ones() {
        assert_eq!(call_id("toolu_01-A", IdRule::AtMost(64)), "toolu_01-A");
        assert_eq!(call_id("abc123XYZ", IdRule::NineLetters), "abc123XYZ");
        let strange = call_id("call|fc_ü", IdRule::AtMost(40));
        assert!(strange.len() <= 40 && strange.starts_with("call_"));
        assert_eq!(strange, call_id("call|fc_ü", IdRule::AtMost(40)));
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
