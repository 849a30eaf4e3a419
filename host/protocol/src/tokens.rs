//! Estimates how much of a model's context window a conversation fills.
//!
//! Only the vendor counts exactly, and only afterwards. The count is therefore the vendor's last report plus an
//! estimate of the messages since then, corrected by the error of earlier estimates.

use crate::content::Content;
use crate::message::Message;
use crate::usage::Usage;
use std::io;
use std::sync::Arc;

/// Tokens around a user's or a model's message.
const MESSAGE_TOKENS: u64 = 4;
/// Tokens around a tool's result, which carries the id of its call.
const RESULT_TOKENS: u64 = 8;
/// Bytes of an encoded image for one token, and the least and the most that an image counts.
const IMAGE_BYTES_PER_TOKEN: u64 = 750;
const IMAGE_TOKENS: std::ops::RangeInclusive<u64> = 85..=16_000;
/// Weight of the latest report in the moving average.
const WEIGHT: f64 = 0.3;
/// Plausible ratio of reported to estimated tokens. A report outside this range counts something else, such as an
/// undisclosed cache, and is ignored.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.25..=4.0;
/// Lowest correction factor of an estimate: an estimate that is too high costs an early compaction, one that is too low
/// a rejected request.
pub const LEAST_RATIO: f64 = 0.75;

/// Estimates tokens. A longer text never counts less than a part of it.
pub trait TokenCounter: Send + Sync {
    /// Returns the tokens of a text; 0 for an empty one.
    fn count(&self, text: &str) -> u64;
}

/// Counts one token for every so many bytes of UTF-8, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCounter {
    bytes_per_token: u8,
}

impl ByteCounter {
    /// Four bytes for a token, as a rule of thumb for English and code.
    pub const DEFAULT: Self = Self { bytes_per_token: 4 };

    /// Creates a counter that takes 1 to 32 bytes for a token; `None` for any other number.
    pub fn new(bytes_per_token: u8) -> Option<Self> {
        (1..=32).contains(&bytes_per_token).then_some(Self { bytes_per_token })
    }
}

impl Default for ByteCounter {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TokenCounter for ByteCounter {
    fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(self.bytes_per_token.into())
    }
}

/// Estimates the tokens of a message with its overhead. Extension messages count as 0, because no model sees them.
pub fn message_tokens(message: &Message, counter: &dyn TokenCounter) -> u64 {
    let (content, around) = match message {
        Message::User(message) => (&message.content, MESSAGE_TOKENS),
        Message::Assistant(message) => (&message.content, MESSAGE_TOKENS),
        Message::ToolResult(message) => (&message.content, RESULT_TOKENS),
        Message::Extension(_) => return 0,
    };
    content.iter().map(|part| part_tokens(part, counter)).fold(around, u64::saturating_add)
}

/// Returns the sum of [`message_tokens`].
pub fn messages_tokens(messages: &[Arc<Message>], counter: &dyn TokenCounter) -> u64 {
    messages.iter().map(|message| message_tokens(message, counter)).fold(0, u64::saturating_add)
}

fn part_tokens(part: &Content, counter: &dyn TokenCounter) -> u64 {
    match part {
        Content::Text { text } => counter.count(text),
        Content::Thinking(thinking) => counter.count(&thinking.text),
        Content::Image(image) => {
            let tokens = image.data.len() as u64 / IMAGE_BYTES_PER_TOKEN;
            tokens.clamp(*IMAGE_TOKENS.start(), *IMAGE_TOKENS.end())
        }
        Content::ToolCall(call) => {
            let arguments = match &call.partial {
                Some(partial) => counter.count(partial),
                None => counter.count(&call.arguments.to_string()),
            };
            counter.count(&call.id) + counter.count(&call.name) + arguments
        }
    }
}

/// Tracks the size of the context, message by message.
#[derive(Clone)]
pub struct ContextTracker {
    counter: Arc<dyn TokenCounter>,
    /// Ratio of reported to estimated tokens.
    ratio: f64,
    /// Last report of the vendor.
    reported: u64,
    /// Estimate of the messages after that report.
    since: u64,
    /// Estimate of the entire context.
    estimated: u64,
    /// Part of `estimated` that every request contains: the system prompt and the tools.
    fixed: u64,
}

impl ContextTracker {
    /// Creates a tracker of an empty context.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter, ratio: 1.0, reported: 0, since: 0, estimated: 0, fixed: 0 }
    }

    /// Returns the expected tokens of the next request.
    pub fn tokens(&self) -> u64 {
        self.reported.saturating_add(self.calibrated(self.since))
    }

    /// Returns the moving average of the ratio of reported to estimated tokens; 1 before the first report.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Returns the counter that estimates texts.
    pub fn counter(&self) -> &dyn TokenCounter {
        &*self.counter
    }

    /// Restarts with another history. `fixed` is the estimate of the system prompt and the tools. Uses the last report
    /// in the history that no newer message precedes: otherwise the history was compacted after the report, which no
    /// longer applies.
    pub fn restart(&mut self, fixed: u64, messages: &[Arc<Message>]) {
        let ratio = self.ratio;
        self.learn(fixed, messages);
        self.ratio = ratio;
    }

    /// Like [`Self::restart`], with a ratio that [`Self::ratio`] returned earlier in the same session.
    pub fn restart_with(&mut self, ratio: f64, fixed: u64, messages: &[Arc<Message>]) {
        self.ratio = ratio.clamp(*PLAUSIBLE.start(), *PLAUSIBLE.end());
        self.restart(fixed, messages);
    }

    /// Like [`Self::restart`], and also derives the ratio from the reports in the history.
    pub fn learn(&mut self, fixed: u64, messages: &[Arc<Message>]) {
        (self.fixed, self.estimated, self.reported, self.since) = (fixed, fixed, 0, fixed);
        let mut newest = None;
        for message in messages {
            let written = Some(message.timestamp());
            self.count_message(message, written >= newest);
            newest = newest.max(written);
        }
    }

    /// Restarts with a history that was just compacted; earlier reports no longer apply to it.
    pub fn compacted(&mut self, fixed: u64, messages: &[Arc<Message>]) {
        (self.fixed, self.estimated, self.reported) = (fixed, fixed, 0);
        messages.iter().for_each(|message| self.count_message(message, false));
        self.since = self.estimated;
    }

    /// Adds a message of the history.
    pub fn add(&mut self, message: &Message) {
        self.count_message(message, true);
    }

    fn count_message(&mut self, message: &Message, has_report: bool) {
        let tokens = message_tokens(message, self.counter());
        let sent = self.estimated;
        self.estimated = sent.saturating_add(tokens);
        match report(message, sent).filter(|_| has_report) {
            Some(usage) => {
                let ratio = usage.context() as f64 / sent.max(1) as f64;
                self.ratio = self.ratio * (1.0 - WEIGHT) + ratio * WEIGHT;
                self.reported = usage.context().saturating_add(usage.output);
                self.since = 0;
            }
            None => self.since = self.since.saturating_add(tokens),
        }
    }

    /// Returns the corrected estimate of the part that every request contains.
    pub fn fixed(&self) -> u64 {
        self.calibrated(self.fixed)
    }

    /// Returns the corrected estimate, but never less than three quarters of the estimate itself: compacting early is cheaper
    /// than a rejected request.
    pub fn calibrated(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.ratio.max(LEAST_RATIO)).ceil() as u64
    }
}

impl std::fmt::Debug for ContextTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ContextTracker({} tokens, ratio {:.2})", self.tokens(), self.ratio)
    }
}

/// Returns the vendor's report of a complete reply, if it is plausible for the request.
fn report(message: &Message, sent: u64) -> Option<&Usage> {
    let Message::Assistant(reply) = message else { return None };
    let ratio = reply.usage.context() as f64 / sent.max(1) as f64;
    (!reply.has_failed() && PLAUSIBLE.contains(&ratio)).then_some(&reply.usage)
}

/// Returns the length of `value` as compact JSON in bytes, without building the text.
pub fn json_bytes(value: &impl serde::Serialize) -> u64 {
    struct Counted(u64);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // The writer never fails, and a value that has no JSON form is never sent.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Image, ToolCall};
    use crate::message::{AssistantMessage, StopReason, ToolResultMessage};
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    fn reply(text: &str, usage: Usage, second: i64) -> Message {
        Message::Assistant(AssistantMessage {
            content: vec![Content::text(text)],
            stop_reason: StopReason::Stop,
            provider: "p".into(),
            model: "m".into(),
            requested_model: None,
            usage,
            cost: None,
            error: None,
            timestamp: Timestamp::from_second(second).unwrap(),
        })
    }

    fn user(text: &str, second: i64) -> Message {
        let timestamp = Timestamp::from_second(second).unwrap();
        Message::User(crate::UserMessage { content: vec![Content::text(text)], label: None, timestamp })
    }

    #[test]
    fn four_bytes_are_a_token_and_every_message_has_a_frame() {
        assert_eq!([0, 1, 4, 5].map(|n| ByteCounter::DEFAULT.count(&"x".repeat(n))), [0, 1, 1, 2]);
        assert_eq!(message_tokens(&Message::user("12345678"), &ByteCounter::DEFAULT), 4 + 2);
        let result = ToolResultMessage {
            call_id: "c".into(),
            tool_name: "t".into(),
            content: vec![Content::text("12345678")],
            details: Some(json!("details are not for the model")),
            is_error: false,
            child_run_id: None,
            timestamp: Timestamp::now(),
        };
        assert_eq!(message_tokens(&Message::ToolResult(result), &ByteCounter::DEFAULT), 8 + 2);
    }

    #[test]
    fn bytes_of_a_token_are_configurable_from_1_to_32() {
        let tokens = |bytes| ByteCounter::new(bytes).map(|counter| counter.count(&"x".repeat(33)));
        assert_eq!([0, 1, 4, 32, 33].map(tokens), [None, Some(33), Some(9), Some(2), None]);
        assert_eq!(ByteCounter::new(4), Some(ByteCounter::default()));
    }

    #[test]
    fn an_image_counts_by_its_bytes_within_bounds() {
        let tokens = |bytes: usize| {
            let image = Image { media_type: "image/png".into(), data: vec![0; bytes] };
            part_tokens(&Content::Image(image), &ByteCounter::DEFAULT)
        };
        assert_eq!([0, 75_000, 75_000_000].map(tokens), [85, 100, 16_000]);
    }

    #[test]
    fn a_call_counts_its_name_and_arguments() {
        let call = Content::ToolCall(ToolCall::new("1234", "read", json!({ "p": 1 })));
        assert_eq!(part_tokens(&call, &ByteCounter::DEFAULT), 1 + 1 + 2);
    }

    #[test]
    fn count_is_the_report_plus_an_estimate_of_later_messages() {
        let mut tracker = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
        tracker.restart(100, &[]);
        tracker.add(&user(&"x".repeat(384), 1));
        assert_eq!(tracker.tokens(), 200);
        tracker.add(&reply("ok", Usage { input: 150, cache_read: 50, output: 7, ..Usage::default() }, 2));
        assert_eq!((tracker.tokens(), tracker.ratio()), (207, 1.0));
        tracker.add(&user("12345678", 3));
        assert_eq!(tracker.tokens(), 213);
    }

    #[test]
    fn estimates_that_were_too_low_are_raised() {
        let mut tracker = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
        tracker.restart(0, &[]);
        tracker.add(&user(&"x".repeat(384), 1));
        tracker.add(&reply("", Usage { input: 200, ..Usage::default() }, 2));
        assert!((tracker.ratio() - 1.3).abs() < 1e-9);
        tracker.add(&user(&"x".repeat(384), 3));
        assert_eq!(tracker.tokens(), 200 + 130);
    }

    #[test]
    fn estimates_that_were_too_high_are_lowered_to_three_quarters_at_most() {
        let mut tracker = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
        tracker.restart(0, &[]);
        tracker.add(&user(&"x".repeat(384), 1));
        tracker.add(&reply("", Usage { input: 50, ..Usage::default() }, 2));
        assert!((tracker.ratio() - 0.85).abs() < 1e-9);
        assert_eq!(tracker.calibrated(100), 85);
        for second in 3..20 {
            let sent = tracker.estimated;
            tracker.add(&reply("", Usage { input: sent.div_ceil(2), ..Usage::default() }, second));
        }
        assert!(tracker.ratio() < 0.6);
        assert_eq!(tracker.calibrated(100), 75);
    }

    #[test]
    fn a_report_that_cannot_be_true_is_not_believed() {
        let mut tracker = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
        tracker.restart(10_000, &[]);
        tracker.add(&reply("", Usage { input: 3, ..Usage::default() }, 2));
        assert!((tracker.ratio() - 1.0).abs() < 1e-9);
        assert_eq!(tracker.tokens(), 10_004);
    }

    #[test]
    fn a_report_from_before_a_compaction_does_not_count() {
        let usage = Usage { input: 40, ..Usage::default() };
        let history = |summary_at| [user("summary!", summary_at), reply("abcd", usage, 5)].map(Arc::new);
        let mut tracker = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
        tracker.restart(10, &history(9));
        assert_eq!(tracker.tokens(), 10 + 4 + 2 + 4 + 1);
        tracker.restart(10, &history(1));
        assert_eq!(tracker.tokens(), 40);
    }

    proptest! {
        #[test]
        fn tracking_and_restarting_give_the_same_count(
            texts in prop::collection::vec(("[a-z]{0,60}", prop::option::of(0_u64..5_000)), 0..20),
        ) {
            let messages: Vec<Arc<Message>> = texts
                .iter()
                .zip(1..)
                .map(|((text, reported), second)| Arc::new(match reported {
                    Some(input) => reply(text, Usage { input: *input, output: 3, ..Usage::default() }, second),
                    None => user(text, second),
                }))
                .collect();
            let mut followed = ContextTracker::new(Arc::new(ByteCounter::DEFAULT));
            followed.restart(7, &[]);
            messages.iter().for_each(|message| followed.add(message));
            let mut begun = followed.clone();
            begun.restart(7, &messages);
            prop_assert_eq!(followed.tokens(), begun.tokens());
            prop_assert_eq!(followed.estimated, begun.estimated);
        }

        #[test]
        fn json_is_counted_as_it_would_be_written(text in ".{0,50}", number in any::<i64>()) {
            let value = json!({ "text": text, "number": number });
            prop_assert_eq!(json_bytes(&value), value.to_string().len() as u64);
        }
    }
}
