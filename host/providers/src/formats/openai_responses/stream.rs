//! The reply decoder.

use super::items::{ItemKind, ItemName, Items, Rest};
use super::stored::{self, ReasoningItem};
use super::wire::{OutputItem, Response, ResponsesEvent, TextPart};
use crate::decode::json::parse;
use crate::decode::{MAX_PARTS, MAX_SIGNATURE, Parts, ReplyState, began_again, too_large_signature, too_many_parts};
use crate::formats::stop_reason::{blocked, unlisted};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Distinguishes the raw texts of a reasoning item from its summaries, which are numbered apart.
const RAW: u64 = 1 << 32;

/// The limit on the length of a phase, in bytes.
const MAX_PHASE: usize = 64;

/// The state of one reply.
#[derive(Debug)]
pub struct ResponsesReply {
    parts: Parts<PartKey>,
    items: Items,
    /// The vendor's ID of the reply.
    id: String,
    /// The last readable reasoning item, and the index of the text within it.
    thinking: Option<(usize, u64)>,
    /// The reasoning items that have not ended, as they came.
    reasoning: BTreeMap<usize, ReasoningItem>,
    /// The phases of the messages that have not ended.
    phases: BTreeMap<usize, String>,
    /// The size of all reasoning items, in bytes.
    stored: usize,
}

/// An item, or a part of a message's content.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PartKey {
    Text(usize, u64),
    /// The phase of a message.
    Phase(usize),
    Thinking(usize),
    Call(usize),
}

impl ReplyState for ResponsesReply {
    fn new(id_seed: String) -> Self {
        Self {
            parts: Parts::new(id_seed),
            items: Items::default(),
            id: String::new(),
            thinking: None,
            reasoning: BTreeMap::new(),
            phases: BTreeMap::new(),
            stored: 0,
        }
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        let event: ResponsesEvent<'_> = parse(data)?;
        let name = ItemName { at: event.output_index, id: &event.item_id, call_id: "" };
        let part = event.content_index.unwrap_or_default();
        match &*event.kind {
            "" if event.object == "response" => self.end(parse(data)?, "", events)?,
            // Gateways omit the type, or put the error next to the response.
            "error" | "response.error" | "response.failed" | "" if event.kind == "error" || event.error.is_some() => {
                return Err(failure(event.error.as_ref(), &event.code, &event.message));
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                let is_first = event.kind == "response.created";
                self.begin(&event.response.unwrap_or_default(), is_first, events)?;
            }
            "response.output_item.added" => self.item_added(event.output_index, event.item, events)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                let item = self.items.get_or_begin(ItemKind::Message, name)?;
                self.write(item, part, &event.delta, events)?;
            }
            "response.output_text.done" => self.text_done(name, part, &event.text, events)?,
            "response.refusal.done" => self.text_done(name, part, &event.refusal, events)?,
            "response.content_part.done" => {
                let content = event.part.unwrap_or_default();
                // Servers other than OpenAI end the texts of reasoning items in the same way.
                let is_thought = content.is_thought() || (content.kind.is_empty() && self.items.is_reasoning(name));
                let text = content.into_text();
                match is_thought {
                    true => self.thought_done(name, RAW + part, &text, events)?,
                    false => self.text_done(name, part, &text, events)?,
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                let item = self.items.get_or_begin(ItemKind::Reasoning, name)?;
                self.think(item, event.summary_index.unwrap_or(part), &event.delta, events)?;
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                let item = self.items.get_or_begin(ItemKind::Reasoning, name)?;
                self.think(item, RAW + part, &event.delta, events)?;
            }
            "response.reasoning_summary_text.done" => {
                self.thought_done(name, event.summary_index.unwrap_or(part), &event.text, events)?;
            }
            "response.reasoning_summary_part.done" => {
                let text = event.part.unwrap_or_default().into_text();
                self.thought_done(name, event.summary_index.unwrap_or(part), &text, events)?;
            }
            "response.reasoning_text.done" => self.thought_done(name, RAW + part, &event.text, events)?,
            "response.function_call_arguments.delta" => {
                let item = self.items.get_or_begin(ItemKind::Call, name)?;
                self.argue(item, &event.delta, events)?;
            }
            "response.function_call_arguments.done" => {
                let item = self.items.of_text(ItemKind::Call, name, &event.arguments.0)?;
                if let Rest::More(_, rest) = self.items.take_rest(item, 0, &event.arguments.0) {
                    self.argue(item, rest, events)?;
                }
            }
            "response.output_item.done" => self.item_done(event.output_index, event.item, events)?,
            kind if is_end(kind) || event.response.as_ref().is_some_and(Response::has_ended) => {
                self.end(event.response.unwrap_or_default(), kind, events)?;
            }
            // The vendor's own tools, and future events.
            _ => {}
        }
        Ok(())
    }
}

/// Returns whether an event ends the reply, with any status in it.
fn is_end(kind: &str) -> bool {
    matches!(
        kind,
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" | "response.done"
    )
}

impl ResponsesReply {
    /// Handles the events that come before the items. GitHub Copilot's IDs differ from event to event, so only the first
    /// event's ID tells whether another reply begins.
    fn begin(
        &mut self,
        response: &Response<'_>,
        is_first: bool,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match &*response.id {
            id if id.is_empty() || !is_first => {}
            id if self.id.is_empty() => id.clone_into(&mut self.id),
            id if self.id != id => return Err(began_again()),
            _ => {}
        }
        self.parts.start(Some(&response.model), events);
        if let Some(usage) = response.usage {
            self.parts.usage(usage.into(), events);
        }
        Ok(())
    }

    fn item_added(
        &mut self,
        at: Option<u64>,
        raw: Option<&RawValue>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(raw) = raw else { return Ok(()) };
        let item = OutputItem::read(raw);
        let Some(kind) = item.kind() else { return Ok(()) };
        let key = self.items.get_or_begin(kind, item.name(at))?;
        match kind {
            // Some servers name a call only at its end.
            ItemKind::Call if item.name.is_empty() || item.call_id.is_empty() => Ok(()),
            ItemKind::Call => {
                self.begin_call(PartKey::Call(key), &item, events)?;
                self.parts.set_initial(&PartKey::Call(key), item.arguments.0.into_owned());
                Ok(())
            }
            ItemKind::Reasoning => self.store(key, raw),
            ItemKind::Message => {
                self.phase(key, &item);
                Ok(())
            }
        }
    }

    fn phase(&mut self, key: usize, item: &OutputItem<'_>) {
        if (1..=MAX_PHASE).contains(&item.phase.len()) {
            self.phases.insert(key, item.phase.clone().into_owned());
        }
    }

    fn begin_call(
        &mut self,
        key: PartKey,
        item: &OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.parts.has_begun(&key) {
            return Ok(());
        }
        let id = if item.call_id.is_empty() { &item.id } else { &item.call_id };
        let kind = PartKind::ToolCall { id: id.clone().into_owned(), name: item.name.clone().into_owned() };
        self.parts.begin(key, kind, events)
    }

    /// Appends arguments. A call that has not begun gets them with its end.
    fn argue(&mut self, item: usize, arguments: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let key = PartKey::Call(item);
        if !self.parts.is_open(&key) {
            return Ok(());
        }
        self.items.grow(item, 0, arguments)?;
        self.parts.add(&key, arguments, events);
        Ok(())
    }

    fn write(
        &mut self,
        item: usize,
        index: u64,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = PartKey::Text(item, index);
        if !self.parts.is_open(&key) {
            self.parts.begin(key, PartKind::Text, events)?;
        }
        self.items.grow(item, index, text)?;
        self.parts.add(&key, text, events);
        Ok(())
    }

    fn text_done(
        &mut self,
        name: ItemName<'_>,
        index: u64,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let item = self.items.of_text(ItemKind::Message, name, text)?;
        match self.items.take_rest(item, index, text) {
            Rest::More(index, rest) => self.write(item, index, rest, events),
            Rest::None => Ok(()),
        }
    }

    /// Appends readable thinking. An item may have several texts, which a blank line separates.
    fn think(
        &mut self,
        item: usize,
        index: u64,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = PartKey::Thinking(item);
        if !self.parts.is_open(&key) {
            self.parts.begin(key, PartKind::Thinking, events)?;
        }
        if self.thinking.is_some_and(|(known, last)| known == item && last != index) {
            self.parts.add(&key, "\n\n", events);
        }
        self.thinking = Some((item, index));
        self.items.grow(item, index, text)?;
        self.parts.add(&key, text, events);
        Ok(())
    }

    fn thought_done(
        &mut self,
        name: ItemName<'_>,
        index: u64,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let item = self.items.of_text(ItemKind::Reasoning, name, text)?;
        match self.items.take_rest(item, index, text) {
            Rest::More(index, rest) => self.think(item, index, rest, events),
            Rest::None => Ok(()),
        }
    }

    fn item_done(
        &mut self,
        at: Option<u64>,
        raw: Option<&RawValue>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(raw) = raw else { return Ok(()) };
        let item = OutputItem::read(raw);
        let Some(kind) = item.kind() else { return Ok(()) };
        let key = self.items.end(kind, item.name(at), item.size())?;
        self.complete(key, kind, item, raw, events)
    }

    /// Adds the parts of a complete item that were not streamed, and ends it. The reply repeats its items at its end,
    /// so that an item without its content waits for that.
    fn complete(
        &mut self,
        key: usize,
        kind: ItemKind,
        item: OutputItem<'_>,
        raw: &RawValue,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match kind {
            ItemKind::Reasoning => {
                for rest in self.items.rests(key, &texts(item)?) {
                    if let Rest::More(index, rest) = rest {
                        self.think(key, index, rest, events)?;
                    }
                }
                self.store(key, raw)?;
                let is_encrypted = self.reasoning.get(&key).is_some_and(stored::is_encrypted);
                if is_encrypted { self.end_thinking(key, events) } else { Ok(()) }
            }
            ItemKind::Message => {
                self.phase(key, &item);
                let mut item = item;
                let (thoughts, content) = std::mem::take(&mut item.content).into_iter().partition(TextPart::is_thought);
                item.content = content;
                for (index, thought) in (RAW..).zip(thoughts) {
                    self.thought_done(ItemName::default(), index, &thought.into_text(), events)?;
                }
                for rest in self.items.rests(key, &texts(item)?) {
                    if let Rest::More(index, rest) = rest {
                        self.write(key, index, rest, events)?;
                    }
                }
                self.end_message(key, events)
            }
            ItemKind::Call => {
                self.begin_call(PartKey::Call(key), &item, events)?;
                if let Rest::More(_, rest) = self.items.take_rest(key, 0, &item.arguments.0) {
                    self.argue(key, rest, events)?;
                }
                if self.items.has_streamed(key) {
                    self.parts.end_part(&PartKey::Call(key), events);
                }
                Ok(())
            }
        }
    }

    /// Ends a message, and stores its phase as the signature of a part after it.
    fn end_message(&mut self, item: usize, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.parts.end_parts(|part| matches!(part, PartKey::Text(message, _) if *message == item), events);
        let key = PartKey::Phase(item);
        match self.phases.remove(&item).filter(|_| self.items.has_streamed(item) && !self.parts.has_begun(&key)) {
            Some(phase) => {
                self.parts.begin(key, PartKind::RedactedThinking, events)?;
                self.parts.sign(&key, &stored::of_phase(&phase))?;
                self.parts.end_part(&key, events);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Keeps a reasoning item as it came.
    fn store(&mut self, key: usize, raw: &RawValue) -> Result<(), ProviderError> {
        self.stored += raw.get().len();
        if self.stored > MAX_SIGNATURE {
            return Err(too_large_signature());
        }
        let fields: ReasoningItem = serde_json::from_str(raw.get()).unwrap_or_default();
        stored::take_over(self.reasoning.entry(key).or_default(), fields);
        Ok(())
    }

    /// Ends a reasoning item, and stores it as a signature.
    fn end_thinking(&mut self, item: usize, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let key = PartKey::Thinking(item);
        let is_raw = self.items.last_index(item).is_some_and(|index| index >= RAW);
        let stored = self.reasoning.remove(&item).and_then(|stored| stored::to_signature(stored, is_raw));
        let signature = stored.unwrap_or_default();
        if !signature.is_empty() && !self.parts.has_begun(&key) {
            self.parts.begin(key, PartKind::RedactedThinking, events)?;
        }
        self.parts.sign(&key, &signature)?;
        self.parts.end_part(&key, events);
        Ok(())
    }

    /// Handles the end of the reply, which repeats all of its items, or on some servers has them alone.
    fn end(&mut self, response: Response<'_>, kind: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.parts.start(Some(&response.model), events);
        self.complete_all(&response.output, events)?;
        if let Some(usage) = response.usage {
            self.parts.usage(usage.into(), events);
        }
        let status = match &*response.status {
            "" => kind.trim_start_matches("response."),
            status => status,
        };
        let why = response.incomplete_details.unwrap_or_default().reason;
        let stop_reason = match (status, &*why) {
            ("failed", _) => return Err(failure(response.error.as_ref(), "", "")),
            ("cancelled", _) => return Err(blocked("the vendor cancelled the reply")),
            ("incomplete", "content_filter") => return Err(blocked("the vendor's content filter cut off the reply")),
            ("incomplete", _) => StopReason::Length,
            (status, _) => unlisted(status)?,
        };
        while let Some(item) = self.reasoning.keys().next().copied() {
            self.end_thinking(item, events)?;
        }
        while let Some(item) = self.phases.keys().next_back().copied() {
            self.end_message(item, events)?;
        }
        self.parts.end(stop_reason, events);
        Ok(())
    }

    fn complete_all(&mut self, output: &[&RawValue], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if output.len() > MAX_PARTS {
            return Err(too_many_parts());
        }
        let items = output.iter().map(|raw| (OutputItem::read(raw), *raw));
        let items: Vec<(ItemKind, OutputItem<'_>, &RawValue)> =
            items.filter_map(|(item, raw)| Some((item.kind()?, item, raw))).collect();
        let names: Vec<(ItemKind, ItemName<'_>, usize)> =
            items.iter().map(|(kind, item, _)| (*kind, item.name(None), item.size())).collect();
        let pairs = self.items.pair(&names);
        for (pair, (kind, item, raw)) in pairs.into_iter().zip(items) {
            let key = match pair {
                Some(key) => key,
                None => self.items.begin(kind)?,
            };
            let is_open = match kind {
                ItemKind::Reasoning => {
                    !self.parts.has_begun(&PartKey::Thinking(key)) || self.parts.is_open(&PartKey::Thinking(key))
                }
                ItemKind::Call => !self.parts.has_begun(&PartKey::Call(key)) || self.parts.is_open(&PartKey::Call(key)),
                ItemKind::Message => true,
            };
            if is_open {
                self.complete(key, kind, item, raw, events)?;
            }
        }
        Ok(())
    }
}

/// The texts of a message or of a reasoning item, with their indices.
fn texts(item: OutputItem<'_>) -> Result<Vec<(u64, Cow<'_, str>)>, ProviderError> {
    if item.summary.len() + item.content.len() > MAX_PARTS {
        return Err(too_many_parts());
    }
    let first = if item.kind == "reasoning" { RAW } else { 0 };
    let parts = (0..).zip(item.summary).chain((first..).zip(item.content));
    Ok(parts.map(|(index, part)| (index, part.into_text())).filter(|(_, text)| !text.is_empty()).collect())
}

/// Classifies an error event. Some servers nest the error in an object, some put it next to the event's type.
fn failure(error: Option<&Value>, code: &str, message: &str) -> ProviderError {
    match error {
        Some(error) => classify_object(error),
        None => classify_object(&serde_json::json!({ "code": code, "message": message })),
    }
}
