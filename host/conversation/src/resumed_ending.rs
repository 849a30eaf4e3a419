//! The end of a resumed conversation, so that the person at the terminal knows where it was left.

use pinion_agent::Message;
use pinion_agent::compaction::is_summary;
use pinion_agent::content::text_of;
use pinion_agent::text::bounded;
use pinion_console::output::terminal::Style;
use pinion_console::output::{Text, count, page, text};
use std::sync::Arc;

/// Maximum lines and characters of the last request.
const REQUEST: (usize, usize) = (6, 600);
/// Maximum lines and characters of the last reply.
const REPLY: (usize, usize) = (20, 3_000);

/// Returns the last request of the user and the last text of the model after it, and how many messages precede them.
/// Empty for a conversation without a request.
pub(crate) fn recall(messages: &[Arc<Message>], style: Style) -> Vec<Text> {
    let request = |message: &Arc<Message>| match &**message {
        Message::User(said) if !is_summary(message) => Some(text_of(&said.content)),
        _ => None,
    };
    let last = messages.iter().enumerate().rev().find_map(|(at, message)| Some((at, request(message)?)));
    let Some((at, request)) = last else { return Vec::new() };
    let reply = messages[at..].iter().rev().find_map(|message| match &**message {
        Message::Assistant(reply) => Some(reply.text()).filter(|text| !text.trim().is_empty()),
        _ => None,
    });
    let earlier = (at > 0).then(|| style.dim(text!("  {}", count(at as u64, "earlier message"))));
    let request = bounded(request.trim(), REQUEST.0, REQUEST.1);
    let reply = reply.map(|reply| page(&bounded(reply.trim(), REPLY.0, REPLY.1), style));
    earlier.into_iter().chain([style.bold(text!("> {}", Text::block(request)))]).chain(reply).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::jiff::Timestamp;
    use pinion_agent::message::{AssistantMessage, StopReason};
    use pinion_agent::{Content, Usage};

    fn reply(text: &str) -> Arc<Message> {
        Arc::new(Message::Assistant(AssistantMessage {
            content: vec![Content::text(text)],
            stop_reason: StopReason::Stop,
            provider: String::new(),
            model: String::new(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp: Timestamp::UNIX_EPOCH,
        }))
    }

    fn recalled(messages: &[Arc<Message>]) -> Vec<String> {
        recall(messages, Style::Plain).iter().map(|text| text.as_str().to_owned()).collect()
    }

    #[test]
    fn last_request_and_reply_are_shown_bounded_and_neutralized() {
        let user = |text: &str| Arc::new(Message::user(text));
        assert!(recalled(&[]).is_empty());
        assert_eq!(recalled(&[user("fix it\u{1b}[2J")]), ["> fix it␛[2J"]);
        let messages = [user("one"), reply("first"), user("two"), reply("looking"), reply(&"- line\n".repeat(50))];
        let shown = recalled(&messages);
        assert_eq!(shown[..2], ["  2 earlier messages", "> two"]);
        assert!(shown[2].starts_with("  • line\n") && shown[2].contains("30 more lines"), "{shown:?}");
        // A summary is not the user's last message.
        let summary = user(&format!("{}so far", pinion_agent::compaction::SUMMARY_FRAME));
        assert_eq!(recalled(&[user("the task"), summary, reply("done")]), ["> the task", "  done"]);
    }
}
