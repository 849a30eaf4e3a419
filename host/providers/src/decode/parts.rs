//! The bookkeeping that all decoders share: parts begin, grow and end in the order that the contract asks for.
//!
//! A decoder names its parts by keys of its vendor's. Whatever a server does (a piece of a part that never began, two
//! ends, no end), what comes out of here is well-formed: one start, indices that count up from 0, every part ended
//! before the end, nothing after it.

use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};

/// The most parts that a reply may have. A real one has a few dozen.
const MAX_PARTS: usize = 4096;

/// The largest signature, in bytes.
const MAX_SIGNATURE: usize = 16 << 20;

/// The parts of one reply, and the events that they have become.
#[derive(Debug)]
pub(crate) struct Parts<K> {
    open: Vec<Part<K>>,
    /// Those that have ended.
    past: Vec<K>,
    begun: usize,
    calls: usize,
    state: State,
    usage: Usage,
    id_seed: String,
}

#[derive(Debug, PartialEq)]
enum State {
    Fresh,
    Started,
    Ended,
}

#[derive(Debug)]
struct Part<K> {
    key: K,
    index: usize,
    signature: Option<String>,
    /// Nothing was added to it.
    is_empty: bool,
    /// What the vendor said with the part's start or end, and is only said when nothing else comes.
    initial: Option<String>,
}

impl<K: PartialEq> Parts<K> {
    /// No parts. Calls without an id of the vendor's get one that begins with `id_seed`.
    pub(crate) fn new(id_seed: String) -> Self {
        Self {
            open: Vec::new(),
            past: Vec::new(),
            begun: 0,
            calls: 0,
            state: State::Fresh,
            usage: Usage::default(),
            id_seed,
        }
    }

    pub(crate) fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The reply begins. Only the first time counts.
    pub(crate) fn start(&mut self, model: Option<&str>, events: &mut Vec<StreamEvent>) {
        if self.state == State::Fresh {
            self.state = State::Started;
            events.push(StreamEvent::Start { model: model.filter(|name| !name.is_empty()).map(str::to_owned) });
        }
    }

    pub(crate) fn is_open(&self, key: &K) -> bool {
        self.open.iter().any(|part| part.key == *key)
    }

    /// Is the part open, or has it been?
    pub(crate) fn was_begun(&self, key: &K) -> bool {
        self.is_open(key) || self.past.contains(key)
    }

    /// A part begins. A call without an id gets one.
    pub(crate) fn begin(&mut self, key: K, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.begun == MAX_PARTS {
            return Err(ProviderError::Malformed { message: format!("the reply has more than {MAX_PARTS} parts") });
        }
        self.start(None, events);
        let part = match kind {
            PartKind::ToolCall { id, name } if id.is_empty() => {
                PartKind::ToolCall { id: format!("{}_{}", self.id_seed, self.begun), name }
            }
            kind => kind,
        };
        self.calls += usize::from(matches!(part, PartKind::ToolCall { .. }));
        events.push(StreamEvent::PartStart { index: self.begun, part });
        self.open.push(Part { key, index: self.begun, signature: None, is_empty: true, initial: None });
        self.begun += 1;
        Ok(())
    }

    /// Keeps `text` for the part's end, in case that nothing is added to it, nor was.
    pub(crate) fn set_initial(&mut self, key: &K, text: String) {
        if let Some(part) = self.part(key).filter(|part| part.is_empty && !text.is_empty()) {
            part.initial = Some(text);
        }
    }

    /// More of a part. A part that is not open is ignored, and so is nothing.
    pub(crate) fn add(&mut self, key: &K, delta: &str, events: &mut Vec<StreamEvent>) {
        if delta.is_empty() {
            return;
        }
        if let Some(part) = self.part(key) {
            part.is_empty = false;
            events.push(StreamEvent::Delta { index: part.index, delta: delta.to_owned() });
        }
    }

    /// More of a part's signature. A part that is not open is ignored, and so is nothing.
    pub(crate) fn sign(&mut self, key: &K, piece: &str) -> Result<(), ProviderError> {
        let Some(part) = self.part(key).filter(|_| !piece.is_empty()) else { return Ok(()) };
        let signature = part.signature.get_or_insert_default();
        if signature.len() + piece.len() > MAX_SIGNATURE {
            return Err(ProviderError::Malformed { message: "a signature is too large".to_owned() });
        }
        signature.push_str(piece);
        Ok(())
    }

    /// A part is complete. A part that is not open is ignored.
    pub(crate) fn end_part(&mut self, key: &K, events: &mut Vec<StreamEvent>) {
        if let Some(at) = self.open.iter().position(|part| part.key == *key) {
            self.past.push(close(self.open.remove(at), events));
        }
    }

    /// Tokens so far; said again only when they changed.
    pub(crate) fn usage(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        if usage != self.usage {
            self.usage = usage;
            self.start(None, events);
            events.push(StreamEvent::Usage(usage));
        }
    }

    /// The reply is complete: what is open ends. A reply that stops but has called tools wants them called, whatever
    /// word its vendor uses for that.
    pub(crate) fn end(&mut self, stop_reason: StopReason, events: &mut Vec<StreamEvent>) {
        if self.ended() {
            return;
        }
        self.start(None, events);
        self.past.extend(self.open.drain(..).map(|part| close(part, events)));
        self.state = State::Ended;
        let stop_reason = match stop_reason {
            StopReason::Stop if self.calls > 0 => StopReason::ToolUse,
            other => other,
        };
        events.push(StreamEvent::End { stop_reason });
    }

    fn part(&mut self, key: &K) -> Option<&mut Part<K>> {
        self.open.iter_mut().find(|part| part.key == *key)
    }
}

fn close<K>(part: Part<K>, events: &mut Vec<StreamEvent>) -> K {
    if let Some(delta) = part.initial.filter(|_| part.is_empty) {
        events.push(StreamEvent::Delta { index: part.index, delta });
    }
    events.push(StreamEvent::PartEnd { index: part.index, signature: part.signature });
    part.key
}
