//! A summary of a conversation, written by its model.

use super::{CompactionError, Compactor};
use crate::config::LoopConfig;
use crate::context::Context;
use crate::extension::plugin_hooks::HookCaller;
use crate::history::track;
use crate::turn::ModelTurn;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::compaction::shrink::{self, TokenBudget};
use pinion_protocol::hook::ReplacedPart;
use pinion_protocol::message::{Message, StopReason};
use pinion_protocol::provider::{ThinkingLevel, ToolChoice};
use pinion_protocol::tokens::{ContextTracker, message_tokens, messages_tokens};
use pinion_protocol::usage::Spend;
use std::sync::Arc;

pub(super) const INSTRUCTION: &str = "\
Write a summary of this conversation that lets you continue it when everything else is forgotten. Keep: the user's task and \
wishes, in their words where they matter; decisions and why they were made; what was done, with the files that were read \
or changed and what is in them; commands that matter and their results; what failed; what is still open and comes next. \
Leave out what no longer matters. Write only the summary.";

/// The text that the model wrote, or the reason it wrote none, and the spend.
pub(super) struct Summary {
    pub(super) text: Result<String, CompactionError>,
    pub(super) spend: Spend,
}

impl Compactor<'_> {
    /// Asks for a summary of the conversation, which will replace `replaced` messages of it: first the model for
    /// summaries, if there is one. The request fits the model's window, and at most `most` tokens if given.
    pub(super) async fn summary(&self, most: Option<u64>, replaced: usize, more: Option<&str>) -> Summary {
        let mut instruction = match more {
            Some(more) => format!("{INSTRUCTION}\n\nThe user adds: {more}"),
            None => INSTRUCTION.to_owned(),
        };
        let tokens = messages_tokens(&self.context.messages, &*self.config.ports.counter);
        let part = ReplacedPart { messages: replaced, tokens, instructions: more };
        for added in self.plugin_hooks().before_compaction(part).await {
            instruction.push_str("\n\n");
            instruction.push_str(&added);
        }
        let instruction = Arc::new(Message::user(instruction));
        let Some(found) = &self.config.ports.summarizer else { return self.ask(most, &instruction, self.config).await };
        let mut config = self.config.clone().with_model(found.clone());
        // Meant for the other model.
        (config.policy.options.thinking, config.policy.options.thinking_budget) = (ThinkingLevel::Off, None);
        let first = self.ask(most, &instruction, &config).await;
        let Err(CompactionError::NoSummary { message }) = &first.text else { return first };
        tracing::warn!(cause = message, "the model for summaries wrote none; the model of the conversation is asked");
        let mut second = self.ask(most, &instruction, self.config).await;
        second.spend.add(first.spend);
        second
    }

    fn plugin_hooks(&self) -> HookCaller<'_> {
        let Self { context, config, events, token } = self;
        HookCaller { config, events, session_id: &context.session_id, run_id: &context.run_id, token }
    }

    /// Returns the part of the conversation that fits a request to the model of `config`, with the instruction at its
    /// end.
    fn asked(&self, most: Option<u64>, instruction: &Arc<Message>, config: &LoopConfig) -> Context {
        let mut tracker = ContextTracker::new(config.ports.counter.clone());
        track(&mut tracker, self.context, config);
        let policy = &config.policy.compaction;
        let fixed = tracker.fixed() + tracker.calibrated(message_tokens(instruction, tracker.counter()));
        let window = policy.threshold_of(config.policy.model.context_window).map(|most| most.saturating_sub(fixed));
        let mut context = self.context.clone();
        if let Some(tokens) = most.into_iter().chain(window).min() {
            let budget = TokenBudget { tokens, tracker: &tracker };
            context.messages = shrink::for_summary(&context.messages, &budget, policy);
        }
        context.messages.push(instruction.clone());
        context
    }

    async fn ask(&self, most: Option<u64>, instruction: &Arc<Message>, config: &LoopConfig) -> Summary {
        let context = &self.asked(most, instruction, config);
        // No watchers: the finished summary is reported as one event.
        let (events, token) = (&EventWatchers::default(), self.token);
        let mut turn = ModelTurn { context, config, events, token, spend: Spend::default() };
        let (reply, _) = turn.reply(ToolChoice::None).await;
        let text = match reply.stop_reason {
            StopReason::Aborted => Err(CompactionError::Aborted),
            StopReason::Error => Err(CompactionError::NoSummary { message: reply.error.clone().unwrap_or_default() }),
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => Ok(reply.text()),
        };
        let is_empty = |text: &String| text.trim().is_empty();
        let text = match text {
            Ok(text) if is_empty(&text) => {
                Err(CompactionError::NoSummary { message: "its reply holds no text".to_owned() })
            }
            text => text,
        };
        Summary { text, spend: turn.spend }
    }
}
