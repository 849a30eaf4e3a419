//! Accepts the calls between `<tool_call>` and `</tool_call>`: one object, as Qwen and Hermes write it, or a list of
//! objects, as SmolLM2 does.

use crate::json_machine::JsonMachine;
use crate::json_shape::JsonShape;
use pinion_protocol::ToolDefinition;
use std::sync::Arc;

/// The beginning of calls.
pub(crate) const OPENING_TAG: &str = "<tool_call>";
const CLOSING: &[u8] = b"/tool_call>";

/// The tools that a reply may call.
#[derive(Debug)]
pub(crate) struct CallableTools(Vec<(Vec<u8>, Arc<JsonShape>)>);

impl CallableTools {
    pub(crate) fn new<'t>(tools: impl IntoIterator<Item = &'t ToolDefinition>) -> Self {
        let tools = tools.into_iter();
        Self(tools.map(|tool| (tool.name.clone().into_bytes(), JsonShape::of_arguments(&tool.input_schema))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A byte of a call, by its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallOutput {
    /// Syntax around the call.
    Nothing,
    /// The name is complete.
    Name(String),
    /// The byte belongs to the arguments, which end with it if the flag is set.
    Argument(bool),
    /// The closing tag is complete.
    End,
}

/// A position in the calls.
#[derive(Debug, Clone)]
pub(crate) struct CallMachine {
    tools: Arc<CallableTools>,
    step: CallStep,
    is_list: bool,
}

#[derive(Debug, Clone)]
enum CallStep {
    /// Before a call, after a line break at most.
    Open(bool),
    /// In fixed text.
    Fixed(&'static [u8], FixedEnd),
    /// In the name.
    Name(Vec<u8>),
    Arguments(JsonMachine),
    /// After a call, and a line break at most.
    Closed(bool),
}

/// The part that follows fixed text.
#[derive(Debug, Clone, Copy)]
enum FixedEnd {
    Name,
    /// The arguments of the tool with this number.
    Arguments(usize),
    Closed,
    End,
}

impl CallMachine {
    /// Starts after the opening tag. There must be tools.
    pub(crate) fn new(tools: Arc<CallableTools>) -> Self {
        Self { tools, step: CallStep::Open(false), is_list: false }
    }

    /// Accepts a byte; `None` if it cannot follow, and the machine is then unusable.
    pub(crate) fn accept(&mut self, byte: u8) -> Option<CallOutput> {
        match (&mut self.step, byte) {
            (CallStep::Open(is_broken @ false), b'\n' | b' ') => *is_broken = true,
            (CallStep::Open(_), b'[') if !self.is_list => {
                self.is_list = true;
                self.step = CallStep::Open(false);
            }
            (CallStep::Open(_), b'{') => self.step = CallStep::Fixed(b"\"name\": \"", FixedEnd::Name),
            (CallStep::Fixed(rest, end), _) => {
                let (first, after) = rest.split_first()?;
                if *first != byte {
                    return None;
                }
                *rest = after;
                let end = *end;
                if after.is_empty() {
                    return Some(self.after_fixed(end));
                }
            }
            (CallStep::Name(done), b'"') => {
                let found = self.tools.0.iter().position(|(name, _)| name == done)?;
                let name = String::from_utf8_lossy(done).into_owned();
                self.step = CallStep::Fixed(b", \"arguments\": ", FixedEnd::Arguments(found));
                return Some(CallOutput::Name(name));
            }
            (CallStep::Name(done), _) => {
                done.push(byte);
                self.tools.0.iter().find(|(name, _)| name.starts_with(done))?;
            }
            (CallStep::Arguments(machine), _) => {
                if !machine.accept(byte) {
                    return None;
                }
                let is_complete = machine.is_complete();
                if is_complete {
                    self.step = CallStep::Fixed(b"}", FixedEnd::Closed);
                }
                return Some(CallOutput::Argument(is_complete));
            }
            (CallStep::Closed(is_broken @ false), b'\n' | b' ') => *is_broken = true,
            (CallStep::Closed(_), b',') if self.is_list => self.step = CallStep::Open(false),
            (CallStep::Closed(_), b']') if self.is_list => {
                self.is_list = false;
                self.step = CallStep::Closed(false);
            }
            (CallStep::Closed(_), b'<') if !self.is_list => self.step = CallStep::Fixed(CLOSING, FixedEnd::End),
            _ => return None,
        }
        Some(CallOutput::Nothing)
    }

    fn after_fixed(&mut self, end: FixedEnd) -> CallOutput {
        self.step = match end {
            FixedEnd::Name => CallStep::Name(Vec::new()),
            FixedEnd::Arguments(tool) => CallStep::Arguments(JsonMachine::new(self.tools.0[tool].1.clone())),
            FixedEnd::Closed => CallStep::Closed(false),
            FixedEnd::End => return CallOutput::End,
        };
        CallOutput::Nothing
    }
}
