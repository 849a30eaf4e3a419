//! Assigns deltas to the calls of a reply, and keeps the fields of a call that only the server understands.
//!
//! Some servers number every call 0 and tell them apart by ID or not at all, some omit the number, some repeat ID and name
//! with every delta, some send the ID or the arguments before the name, and some number the parts of a call differently.

use super::reasoning::{Detail, ReasoningForm, take_over};
use super::wire::CallDelta;
use crate::decode::{MAX_EVENT_BYTES, MAX_PARTS, PartWriter, too_many_parts};
use pinion_protocol::{PartKind, ProviderError, StreamEvent};
use serde_json::Value;

/// The calls of one reply, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<OpenCall>);

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    name: String,
    /// The key of its part, which begins with the name of the tool.
    key: Option<u64>,
    /// Arguments that came before the name.
    early: String,
    arguments: Extent,
    /// Fields that only the server understands.
    others: Detail,
}

impl Calls {
    pub(super) fn delta(
        &mut self,
        delta: CallDelta<'_>,
        writer: &mut PartWriter,
        reasoning: &mut ReasoningForm,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let arguments = &function.arguments.0;
        let at = match self.find(delta.index, &delta.id, &function.name, !arguments.is_empty()) {
            Some(at) => at,
            // A delta of a call that never began.
            None if function.name.is_empty() && delta.id.is_empty() => return Ok(()),
            None if self.0.len() == MAX_PARTS => return Err(too_many_parts()),
            None => {
                let (index, id) = (delta.index, delta.id.into_owned());
                self.0.push(OpenCall { index, id, ..OpenCall::default() });
                self.0.len() - 1
            }
        };
        let call = &mut self.0[at];
        reasoning.grow(&delta.others)?;
        take_over(&mut call.others, delta.others);
        call.arguments.grow(arguments);
        if call.key.is_none() && !function.name.is_empty() {
            call.name = function.name.into_owned();
            let key = writer.begin(PartKind::ToolCall { id: call.id.clone(), name: call.name.clone() }, events)?;
            writer.parts.add(&key, &std::mem::take(&mut call.early), events);
            call.key = Some(key);
        }
        match call.key {
            Some(key) => writer.parts.add(&key, arguments, events),
            None => {
                call.early.push_str(arguments);
                let size: usize = self.0.iter().map(|call| call.early.len()).sum();
                if size > MAX_EVENT_BYTES {
                    let message = "the arguments of calls without a name are too large".to_owned();
                    return Err(ProviderError::Malformed { message });
                }
            }
        }
        Ok(())
    }

    /// Stores the fields that only the server understands as the signature of the call.
    pub(super) fn sign(&mut self, writer: &mut PartWriter) -> Result<(), ProviderError> {
        for OpenCall { key, others, .. } in self.0.drain(..) {
            if let Some(key) = key.filter(|_| !others.is_empty()) {
                writer.parts.sign(&key, &Value::Object(others).to_string())?;
            }
        }
        Ok(())
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str, has_arguments: bool) -> Option<usize> {
        let belongs = |call: &OpenCall| {
            let is_continued = name.is_empty() || call.key.is_none();
            let is_repeated = call.name == name && !(has_arguments && call.arguments.is_complete());
            match (index, id.is_empty()) {
                (Some(_), true) => call.index == index && (is_continued || is_repeated),
                (Some(_), false) => call.index == index && (call.id == id || is_continued),
                (None, false) => call.id == id,
                (None, true) => is_continued,
            }
        };
        self.0.iter().rposition(belongs).or_else(|| self.continued(id, name))
    }

    /// Finds the call of a delta whose number no call has, unless the delta begins one.
    fn continued(&self, id: &str, name: &str) -> Option<usize> {
        let last = |belongs: fn(&OpenCall) -> bool| self.0.len().checked_sub(1).filter(|last| belongs(&self.0[*last]));
        match (id.is_empty(), name.is_empty()) {
            (false, false) => None,
            (false, true) => self.0.iter().rposition(|call| call.id == id),
            (true, false) => last(|call| call.key.is_none()),
            (true, true) => last(|call| !call.arguments.is_complete()),
        }
    }
}

/// The extent of a call's arguments so far, to recognize the next call where nothing else tells them apart.
#[derive(Debug, Default)]
struct Extent {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl Extent {
    fn grow(&mut self, arguments: &str) {
        for byte in arguments.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => (self.depth, self.has_begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Returns whether the arguments are a complete object.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0
    }
}
