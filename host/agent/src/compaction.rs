//! Replacing a long conversation by a summary of it.
//!
//! What is replaced stays in the session: a compaction is an extension message that holds the summary and says how many
//! of the messages before it the model still sees. [`view`] is what the model sees of a history with compactions in it.

use crate::channel::Events;
use crate::config::{Context, LoopConfig};
use crate::content::Content;
use crate::message::{ExtensionMessage, Message, StopReason, UserMessage};
use crate::store::StoreError;
use crate::turn::Turn;
use crate::usage::{Cost, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The kind of the extension message that holds a compaction.
pub const COMPACTION_MESSAGE: &str = "pinion/compaction";

/// Goes before the summary, so that the model takes it for what it is.
const FRAME: &str = "[What follows is a summary of the conversation so far. It is background, not a request.]\n\n";

const INSTRUCTION: &str = "\
Write a summary of this conversation that lets you go on with it when all else is forgotten. Keep: the user's task and \
wishes, in their words where they matter; decisions and why they were made; what was done, with the files that were read \
or changed and what is in them; commands that matter and their results; what failed; what is still open and comes next. \
Leave out what no longer matters. Write only the summary.";

/// A round that is small enough stays as it is, so that the model does not lose its thread. Bytes of JSON.
const KEPT_ROUND_BYTES: usize = 32 * 1024;

/// A conversation was replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// Messages that the model no longer sees.
    pub dropped: usize,
    /// What it sees instead.
    pub summary: String,
    /// Tokens of the request for the summary.
    pub usage: Usage,
    /// What it cost; none when the model's prices are not known.
    pub cost: Option<Cost>,
}

/// A conversation was not replaced, and is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// There is nothing to replace.
    #[error("there is nothing to compact yet")]
    Nothing,
    /// The model did not write a summary.
    #[error("the model wrote no summary: {message}")]
    NoSummary {
        /// Why.
        message: String,
    },
    /// It was aborted.
    #[error("aborted")]
    Aborted,
    /// The session could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a compaction message holds.
#[derive(Serialize, Deserialize)]
struct Record {
    summary: String,
    kept: usize,
}

/// What the model sees of a history: from its last compaction on, the summary and what came after, and of what came
/// before only what the compaction kept. Compactions that cannot be read are passed over.
pub fn view(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut seen: Vec<Arc<Message>> = Vec::new();
    for message in messages {
        match record(&message) {
            Some(record) => seen = replaced(&seen, &record, message.timestamp()),
            None => seen.push(message),
        }
    }
    seen
}

fn record(message: &Message) -> Option<Record> {
    match message {
        Message::Extension(extension) if extension.kind == COMPACTION_MESSAGE => {
            serde_json::from_value(extension.data.clone()).ok()
        }
        _ => None,
    }
}

fn replaced(messages: &[Arc<Message>], record: &Record, timestamp: Timestamp) -> Vec<Arc<Message>> {
    let content = vec![Content::text(format!("{FRAME}{}", record.summary))];
    let summary = Arc::new(Message::User(UserMessage { content, timestamp }));
    let kept = &messages[messages.len() - record.kept.min(messages.len())..];
    std::iter::once(summary).chain(kept.iter().cloned()).collect()
}

/// Asks the model for a summary and puts it in the place of the conversation.
///
/// # Errors
/// The context is as it was then.
pub async fn compact(
    context: &mut Context,
    instructions: Option<&str>,
    config: &LoopConfig,
    events: &Events,
    token: &CancellationToken,
) -> Result<Compaction, CompactionError> {
    let kept = last_round(&context.messages);
    let dropped = context.messages.len() - kept;
    if dropped < 2 {
        return Err(CompactionError::Nothing);
    }
    let (summary, usage, cost) = summarise(context, instructions, config, token).await?;
    let record = Record { summary, kept };
    let message = Message::Extension(ExtensionMessage {
        kind: COMPACTION_MESSAGE.to_owned(),
        data: serde_json::json!(record),
        timestamp: Timestamp::now(),
    });
    let timestamp = message.timestamp();
    config.store.append(&Arc::new(message))?;
    context.messages = replaced(&context.messages, &record, timestamp);
    let told = crate::EventKind::Compaction { dropped, summary: record.summary.clone() };
    events.emit(&context.loop_id, told).await;
    Ok(Compaction { dropped, summary: record.summary, usage, cost })
}

async fn summarise(
    context: &Context,
    instructions: Option<&str>,
    config: &LoopConfig,
    token: &CancellationToken,
) -> Result<(String, Usage, Option<Cost>), CompactionError> {
    let mut asking = context.clone();
    let instruction = match instructions {
        Some(more) => format!("{INSTRUCTION}\n\nThe user adds: {more}"),
        None => INSTRUCTION.to_owned(),
    };
    asking.messages.push(Arc::new(Message::user(instruction)));
    // Nobody watches: the summary is told when it is there.
    let turn = Turn { context: &asking, config, events: &Events::default(), token };
    let reply = turn.answer_without_tools().await;
    match reply.stop_reason {
        StopReason::Aborted => return Err(CompactionError::Aborted),
        StopReason::Error => return Err(CompactionError::NoSummary { message: reply.error.unwrap_or_default() }),
        StopReason::Stop | StopReason::Length | StopReason::ToolUse => {}
    }
    let summary = reply.text();
    if summary.trim().is_empty() {
        return Err(CompactionError::NoSummary { message: "its reply holds no text".to_owned() });
    }
    Ok((summary, reply.usage, reply.cost))
}

/// How many messages the last round has, from the user's last message on, when it is small.
fn last_round(messages: &[Arc<Message>]) -> usize {
    let Some(at) = messages.iter().rposition(|message| matches!(**message, Message::User(_))) else { return 0 };
    let round = &messages[at..];
    let bytes: usize = round
        .iter()
        .map(|message| serde_json::to_string(message).map_or(usize::MAX, |m| m.len()))
        .fold(0, usize::saturating_add);
    if bytes <= KEPT_ROUND_BYTES { round.len() } else { 0 }
}
