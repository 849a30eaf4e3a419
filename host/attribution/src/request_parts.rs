//! The division of a request into segments.

use crate::owner::{SegmentOwner, last_calls};
use crate::system_sections::system_sections;
use pinion_protocol::{Content, Message, Request, TokenCounter, ToolDefinition, is_summary, message_tokens};
use std::ops::Range;
use std::sync::Arc;

/// A part of a request with one owner.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The owner.
    pub owner: Arc<SegmentOwner>,
    /// Identifies the text that the vendor gets.
    pub digest: u128,
    /// Identifies the schema of a tool; 0 for other segments.
    pub schema: u128,
    /// Estimate of its tokens.
    pub tokens: u64,
}

/// A request, divided in the order in which vendors cache it: model, tools, system prompt, settings, messages.
///
/// It shares the request's texts until it is dropped, so that the next one can be compared with it.
#[derive(Debug, Clone)]
pub struct RequestParts {
    segments: Vec<Segment>,
    tools: Vec<Arc<ToolDefinition>>,
    system: Arc<str>,
    sections: Vec<Range<usize>>,
    messages: Vec<Arc<Message>>,
}

/// Number of segments for settings.
const SETTINGS: usize = 2;

impl RequestParts {
    /// Divides a request to a provider. Segments that `previous` shares with it are taken over without reading their
    /// texts again.
    pub fn divide(provider: &str, request: &Request, previous: Option<&Self>, counter: &dyn TokenCounter) -> Self {
        let mut segments = Vec::with_capacity(request.messages.len() + request.tools.len() + 8);
        segments.push(empty_segment(SegmentOwner::Model(format!("{provider}/{}", request.model)), &request.model));
        for (at, tool) in request.tools.iter().enumerate() {
            let known = previous.and_then(|previous| previous.tool(at, tool));
            segments.push(known.unwrap_or_else(|| tool_segment(tool, counter)));
        }
        let sections = match previous.filter(|previous| previous.system == request.system) {
            Some(previous) => {
                segments.extend_from_slice(previous.system_segments());
                previous.sections.clone()
            }
            None => {
                let sections = system_sections(&request.system);
                let ranges = sections.iter().map(|(_, range)| range.clone()).collect();
                segments.extend(sections.into_iter().map(|(owner, range)| {
                    // Blank lines at the end separate it from the next section.
                    let text = &request.system[range];
                    Segment {
                        owner: owner.into(),
                        digest: digest(text.trim_end().as_bytes()),
                        schema: 0,
                        tokens: counter.count(text),
                    }
                }));
                ranges
            }
        };
        let options = &request.options;
        let thinking = format!("{:?} {:?}", options.thinking, options.budget());
        segments.push(empty_segment(SegmentOwner::Setting("thinking"), &thinking));
        segments.push(empty_segment(SegmentOwner::Setting("tool choice"), &format!("{:?}", request.tool_choice)));
        let (mut users, mut replies) = (0, 0);
        for (at, message) in request.messages.iter().enumerate() {
            match &**message {
                Message::User(_) => users += 1,
                Message::Assistant(_) => replies += 1,
                Message::ToolResult(_) | Message::Extension(_) => {}
            }
            let known = previous.and_then(|previous| previous.message(at, message));
            segments.push(known.unwrap_or_else(|| {
                let owner = match &**message {
                    Message::User(_) if is_summary(message) => SegmentOwner::Summary,
                    Message::User(_) | Message::Extension(_) => SegmentOwner::UserMessage(users),
                    Message::Assistant(_) => SegmentOwner::Reply(replies),
                    Message::ToolResult(result) => {
                        SegmentOwner::of_result(&result.tool_name, &result.call_id, last_calls(&request.messages[..at]))
                    }
                };
                let tokens = message_tokens(message, counter);
                Segment { owner: owner.into(), digest: message_digest(message), schema: 0, tokens }
            }));
        }
        let (tools, system, messages) = (request.tools.clone(), request.system.clone(), request.messages.clone());
        Self { segments, tools, system, sections, messages }
    }

    /// Returns the same request with other tools.
    pub(crate) fn with_tools(&self, tools: &[Arc<ToolDefinition>], counter: &dyn TokenCounter) -> Self {
        let known = |(at, tool)| self.tool(at, tool).unwrap_or_else(|| tool_segment(tool, counter));
        let mut segments = vec![self.segments[0].clone()];
        segments.extend(tools.iter().enumerate().map(known));
        segments.extend_from_slice(&self.segments[1 + self.tools.len()..]);
        Self { segments, tools: tools.to_vec(), ..self.clone() }
    }

    /// Returns the segments, in the order in which vendors cache them.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the sum of the estimates.
    pub fn tokens(&self) -> u64 {
        self.segments.iter().map(|segment| segment.tokens).sum()
    }

    /// Returns the text of a segment, for comparison; empty where it has no text.
    pub(crate) fn text(&self, at: usize) -> String {
        if let Some(tool) = at.checked_sub(1).and_then(|at| self.tools.get(at)) {
            return tool.description.clone();
        }
        let section = at.checked_sub(1 + self.tools.len()).and_then(|at| self.sections.get(at));
        if let Some(range) = section {
            return self.system[range.clone()].to_owned();
        }
        let message = at.checked_sub(self.messages_at()).and_then(|at| self.messages.get(at));
        match message.map(|message| &**message) {
            Some(Message::User(user)) => pinion_protocol::content::text_of(&user.content),
            Some(Message::ToolResult(result)) => pinion_protocol::content::text_of(&result.content),
            Some(Message::Assistant(reply)) => reply.text(),
            Some(Message::Extension(_)) | None => String::new(),
        }
    }

    /// Returns the index of the first message's segment.
    pub(crate) fn messages_at(&self) -> usize {
        1 + self.tools.len() + self.sections.len() + SETTINGS
    }

    fn system_segments(&self) -> &[Segment] {
        let at = 1 + self.tools.len();
        &self.segments[at..at + self.sections.len()]
    }

    fn tool(&self, at: usize, tool: &Arc<ToolDefinition>) -> Option<Segment> {
        let is_same = self.tools.get(at).is_some_and(|known| Arc::ptr_eq(known, tool));
        is_same.then(|| self.segments[1 + at].clone())
    }

    fn message(&self, at: usize, message: &Arc<Message>) -> Option<Segment> {
        let is_same = self.messages.get(at).is_some_and(|known| Arc::ptr_eq(known, message));
        is_same.then(|| self.segments[self.messages_at() + at].clone())
    }
}

/// Creates a segment that costs no tokens.
fn empty_segment(owner: SegmentOwner, text: &str) -> Segment {
    let named = format!("{owner} {text}");
    Segment { owner: owner.into(), digest: digest(named.as_bytes()), schema: 0, tokens: 0 }
}

fn tool_segment(tool: &ToolDefinition, counter: &dyn TokenCounter) -> Segment {
    let schema = tool.input_schema.to_string();
    let mut hasher = blake3::Hasher::new();
    for text in [&tool.name, &tool.description, &schema] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let tokens = counter.count(&tool.name) + counter.count(&tool.description) + counter.count(&schema);
    let owner = SegmentOwner::of_tool(tool).into();
    Segment { owner, digest: number(&hasher.finalize()), schema: digest(schema.as_bytes()), tokens }
}

/// Identifies the part of a message that the vendor gets.
fn message_digest(message: &Message) -> u128 {
    let mut hasher = blake3::Hasher::new();
    let (role, content): (&[u8], &[Content]) = match message {
        Message::User(user) => (b"user", &user.content),
        Message::Assistant(reply) => (b"assistant", &reply.content),
        Message::ToolResult(result) => {
            hasher.update(result.call_id.as_bytes()).update(&[u8::from(result.is_error)]);
            (b"result", &result.content)
        }
        Message::Extension(_) => (b"extension", &[]),
    };
    hasher.update(role);
    // Content always serializes, and a hasher takes every byte.
    let _ = serde_json::to_writer(&mut hasher, content);
    number(&hasher.finalize())
}

fn digest(bytes: &[u8]) -> u128 {
    number(&blake3::hash(bytes))
}

fn number(hash: &blake3::Hash) -> u128 {
    let mut first = [0; 16];
    first.copy_from_slice(&hash.as_bytes()[..16]);
    u128::from_le_bytes(first)
}
