//! Assigns deltas to the calls of a reply, and keeps what only the server understands of a call.
//!
//! Some servers number every call 0 and tell them apart by ID, some omit the number, some repeat ID and name with every
//! delta, and some send the ID before the name.

use super::reasoning::{Detail, Reasoning, take_over};
use super::wire::CallDelta;
use crate::decode::{MAX_PARTS, Writer, too_many_parts};
use pinion_protocol::{PartKind, ProviderError, StreamEvent};
use serde_json::Value;

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<OpenCall>);

#[derive(Debug)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    /// The key of its part, which begins with the name of the tool.
    key: Option<u64>,
    /// Fields that only the server understands.
    others: Detail,
}

impl Calls {
    pub(super) fn delta(
        &mut self,
        delta: CallDelta<'_>,
        writer: &mut Writer,
        reasoning: &mut Reasoning,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let at = match self.find(delta.index, &delta.id, &function.name) {
            Some(at) => at,
            // A delta of a call that never began.
            None if function.name.is_empty() && delta.id.is_empty() => return Ok(()),
            None if self.0.len() == MAX_PARTS => return Err(too_many_parts()),
            None => {
                let others = Detail::new();
                self.0.push(OpenCall { index: delta.index, id: delta.id.into_owned(), key: None, others });
                self.0.len() - 1
            }
        };
        let call = &mut self.0[at];
        reasoning.grow(&delta.others)?;
        take_over(&mut call.others, delta.others);
        if call.key.is_none() && !function.name.is_empty() {
            let kind = PartKind::ToolCall { id: call.id.clone(), name: function.name.into_owned() };
            call.key = Some(writer.begin(kind, events)?);
        }
        if let Some(key) = call.key {
            writer.parts.add(&key, &function.arguments.0, events);
        }
        Ok(())
    }

    /// Stores what only the server understands as the signature of the call.
    pub(super) fn sign(&mut self, writer: &mut Writer) -> Result<(), ProviderError> {
        for OpenCall { key, others, .. } in self.0.drain(..) {
            if let Some(key) = key.filter(|_| !others.is_empty()) {
                writer.parts.sign(&key, &Value::Object(others).to_string())?;
            }
        }
        Ok(())
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let belongs = |call: &OpenCall| {
            let is_continued = name.is_empty() || call.key.is_none();
            match (index, id.is_empty()) {
                (Some(_), true) => call.index == index,
                (Some(_), false) => call.index == index && (call.id == id || is_continued),
                (None, false) => call.id == id,
                (None, true) => is_continued,
            }
        };
        self.0.iter().rposition(belongs)
    }
}
