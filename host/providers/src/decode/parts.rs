//! The bookkeeping that all decoders share: parts begin, grow and end in the order that [`StreamEvent`] promises.
//!
//! A decoder identifies its parts by the vendor's keys. Even if a server sends a delta for a part that never began, two
//! ends, or no end, the resulting events are well-formed: one start, indices that count up from 0, every part ended
//! before the end, and nothing after it.

use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use std::collections::HashSet;

/// The limit on parts per reply. A real reply has a few dozen.
pub(crate) const MAX_PARTS: usize = 4096;

/// Returns the error of a reply that exceeds [`MAX_PARTS`].
pub(crate) fn too_many_parts() -> ProviderError {
    ProviderError::Malformed { message: format!("the reply has more than {MAX_PARTS} parts") }
}

/// The limit on the size of a signature, in bytes.
pub(crate) const MAX_SIGNATURE: usize = 16 << 20;

/// Returns the error of a signature that exceeds [`MAX_SIGNATURE`].
pub(crate) fn too_large_signature() -> ProviderError {
    ProviderError::Malformed { message: "a signature is too large".to_owned() }
}

/// The parts of one reply, and the state of its event stream.
#[derive(Debug)]
pub(crate) struct Parts<K> {
    open: Vec<OpenPart<K>>,
    /// The keys of the parts that have ended.
    past: Vec<K>,
    count: usize,
    call_ids: HashSet<String>,
    state: PartState,
    usage: Usage,
    id_seed: String,
}

#[derive(Debug, PartialEq)]
enum PartState {
    Fresh,
    Started,
    Ended,
}

#[derive(Debug)]
struct OpenPart<K> {
    key: K,
    index: usize,
    signature: Option<String>,
    /// True until a delta is added.
    is_empty: bool,
    /// Content from the part's start or end, used only when no delta arrives.
    initial: Option<String>,
}

impl<K: PartialEq> Parts<K> {
    /// No parts. Tool calls without an ID receive one that begins with `id_seed`.
    pub(crate) fn new(id_seed: String) -> Self {
        Self {
            open: Vec::new(),
            past: Vec::new(),
            count: 0,
            call_ids: HashSet::new(),
            state: PartState::Fresh,
            usage: Usage::default(),
            id_seed,
        }
    }

    pub(crate) fn ended(&self) -> bool {
        self.state == PartState::Ended
    }

    /// Starts the reply; later calls do nothing.
    pub(crate) fn start(&mut self, model: Option<&str>, events: &mut Vec<StreamEvent>) {
        if self.state == PartState::Fresh {
            self.state = PartState::Started;
            events.push(StreamEvent::Start { model: model.filter(|name| !name.is_empty()).map(str::to_owned) });
        }
    }

    pub(crate) fn is_open(&self, key: &K) -> bool {
        self.open.iter().any(|part| part.key == *key)
    }

    /// Returns whether the part began, ended or not.
    pub(crate) fn has_begun(&self, key: &K) -> bool {
        self.is_open(key) || self.past.contains(key)
    }

    /// Begins a part and assigns an ID to a tool call without one.
    pub(crate) fn begin(&mut self, key: K, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.count == MAX_PARTS {
            return Err(too_many_parts());
        }
        self.start(None, events);
        let part = match kind {
            PartKind::ToolCall { id, name } => PartKind::ToolCall { id: self.call_id(id), name },
            kind => kind,
        };
        events.push(StreamEvent::PartStart { index: self.count, part });
        self.open.push(OpenPart { key, index: self.count, signature: None, is_empty: true, initial: None });
        self.count += 1;
        Ok(())
    }

    /// Returns the ID of a call. Some servers send no ID, and some the same for every call of a reply, so that their
    /// results could not be told apart.
    fn call_id(&mut self, id: String) -> String {
        let id = if id.is_empty() { format!("{}_{}", self.id_seed, self.count) } else { id };
        let mut unique = id.clone();
        for number in 2.. {
            if self.call_ids.insert(unique.clone()) {
                break;
            }
            unique = format!("{id}_{number}");
        }
        unique
    }

    /// Stores content to emit at the part's end, unless a delta was or will be added.
    pub(crate) fn set_initial(&mut self, key: &K, text: String) {
        if let Some(part) = self.open_part(key).filter(|part| part.is_empty && !text.is_empty()) {
            part.initial = Some(text);
        }
    }

    /// Appends a delta. Parts that are not open are ignored, and so are empty deltas.
    pub(crate) fn add(&mut self, key: &K, delta: &str, events: &mut Vec<StreamEvent>) {
        if delta.is_empty() {
            return;
        }
        if let Some(part) = self.open_part(key) {
            part.is_empty = false;
            events.push(StreamEvent::Delta { index: part.index, delta: delta.to_owned() });
        }
    }

    /// Appends to the part's signature. Parts that are not open are ignored.
    pub(crate) fn sign(&mut self, key: &K, piece: &str) -> Result<(), ProviderError> {
        let Some(part) = self.open_part(key).filter(|_| !piece.is_empty()) else { return Ok(()) };
        let signature = part.signature.get_or_insert_default();
        if signature.len() + piece.len() > MAX_SIGNATURE {
            return Err(too_large_signature());
        }
        signature.push_str(piece);
        Ok(())
    }

    /// Replaces the part's signature. Parts that are not open are ignored.
    pub(crate) fn set_signature(&mut self, key: &K, signature: String) -> Result<(), ProviderError> {
        if let Some(part) = self.open_part(key) {
            part.signature = None;
        }
        self.sign(key, &signature)
    }

    /// Ends a part. Parts that are not open are ignored.
    pub(crate) fn end_part(&mut self, key: &K, events: &mut Vec<StreamEvent>) {
        if let Some(at) = self.open.iter().position(|part| part.key == *key) {
            self.past.push(close(self.open.remove(at), events));
        }
    }

    /// Ends all parts whose key fits.
    pub(crate) fn end_parts(&mut self, fits: impl Fn(&K) -> bool, events: &mut Vec<StreamEvent>) {
        while let Some(at) = self.open.iter().position(|part| fits(&part.key)) {
            self.past.push(close(self.open.remove(at), events));
        }
    }

    /// Returns whether no part has begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reports the tokens used so far, if they changed. Counts only grow, but some servers end with zeros. The counts of
    /// the input belong together, because a later report may assign the same tokens to the cache.
    pub(crate) fn usage(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        let input = if usage.context() < self.usage.context() { self.usage } else { usage };
        let usage = Usage { output: usage.output.max(self.usage.output), ..input };
        if usage != self.usage {
            self.usage = usage;
            self.start(None, events);
            events.push(StreamEvent::Usage(usage));
        }
    }

    /// Ends the reply and all open parts. A reply that stops after tool calls wants them to run, for any reason that
    /// the vendor gives.
    pub(crate) fn end(&mut self, stop_reason: StopReason, events: &mut Vec<StreamEvent>) {
        if self.ended() {
            return;
        }
        self.start(None, events);
        self.past.extend(self.open.drain(..).map(|part| close(part, events)));
        self.state = PartState::Ended;
        let stop_reason = match stop_reason {
            StopReason::Stop if !self.call_ids.is_empty() => StopReason::ToolUse,
            other => other,
        };
        events.push(StreamEvent::End { stop_reason });
    }

    fn open_part(&mut self, key: &K) -> Option<&mut OpenPart<K>> {
        self.open.iter_mut().find(|part| part.key == *key)
    }
}

fn close<K>(part: OpenPart<K>, events: &mut Vec<StreamEvent>) -> K {
    if let Some(delta) = part.initial.filter(|_| part.is_empty) {
        events.push(StreamEvent::Delta { index: part.index, delta });
    }
    events.push(StreamEvent::PartEnd { index: part.index, signature: part.signature });
    part.key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_and_missing_call_ids_become_unique() {
        let (mut parts, mut events) = (Parts::new("seed".to_owned()), Vec::new());
        for (key, id) in ["a", "a", "", "a_2", "a"].into_iter().enumerate() {
            parts.begin(key, PartKind::ToolCall { id: id.to_owned(), name: "f".to_owned() }, &mut events).unwrap();
        }
        let ids = events.iter().filter_map(|event| match event {
            StreamEvent::PartStart { part: PartKind::ToolCall { id, .. }, .. } => Some(id.as_str()),
            _ => None,
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["a", "a_2", "seed_2", "a_2_2", "a_3"]);
    }

    #[test]
    fn counts_never_shrink() {
        let (mut parts, mut events) = (Parts::<u64>::new(String::new()), Vec::new());
        let usage = |input, output, cache_read| Usage { input, output, cache_read, cache_write: 0 };
        for reported in [usage(10, 1, 0), usage(0, 3, 0), usage(4, 0, 6), usage(0, 0, 0)] {
            parts.usage(reported, &mut events);
        }
        let last = events.iter().rev().find_map(|event| match event {
            StreamEvent::Usage(usage) => Some(*usage),
            _ => None,
        });
        assert_eq!(last, Some(usage(4, 3, 6)));
    }
}
