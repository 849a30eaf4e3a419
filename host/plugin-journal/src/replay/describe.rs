//! Recorded calls for people.

use crate::linker::unversioned;
use crate::replay::value::{print, text};
use crate::replay::{CallReplayer, ReplayableComponent, print_outcome};
use pinion_journal::event::{CallRecord, ImportRecord};
use std::collections::HashMap;
use wasmtime::AsContextMut as _;
use wasmtime::component::Type;
use wasmtime::component::types::ComponentItem;

/// The export that tool calls run.
const CALL_TOOL: &str = "pinion:plugin/tools#call-tool";

/// The tool call that a recorded call of an export is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedToolCall {
    /// The id of the tool call.
    pub id: String,
    /// The id of the session that made it.
    pub session: String,
}

impl RecordedToolCall {
    /// Reads the first values of the arguments, the context of a tool call; `None` for other calls, and where the journal
    /// has only a digest.
    pub fn from_record(call: &CallRecord) -> Option<Self> {
        let mut arguments = call.arguments.bytes().filter(|_| call.export == CALL_TOOL)?;
        Some(Self { id: text(&mut arguments).ok()?, session: text(&mut arguments).ok()? })
    }
}

/// The types of an import's arguments and results.
type ImportTypes = (Vec<Type>, Vec<Type>);

impl CallReplayer {
    /// Prints the imports of a call: name, arguments and result, one text for each.
    pub fn imports(&self, component: &ReplayableComponent, call: &CallRecord) -> Vec<String> {
        let (types, mut store) = (self.import_types(component), self.store(u64::MAX));
        let store = &mut store.as_context_mut();
        let described = |import: &ImportRecord| match types.get(&import.name) {
            Some((arguments, results)) => {
                let arguments = print(import.arguments.bytes(), arguments, store);
                format!("{}({arguments}) → {}", import.name, print_outcome(&import.outcome, results, store))
            }
            None => format!("{}(…)", import.name),
        };
        call.imports.iter().map(described).collect()
    }

    fn import_types(&self, component: &ReplayableComponent) -> HashMap<String, ImportTypes> {
        let (engine, mut types) = (self.engine.wasmtime(), HashMap::new());
        for (interface, item) in component.component.component_type().imports(engine) {
            let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
            for (name, item) in instance.exports(engine) {
                if let ComponentItem::ComponentFunc(function) = item.ty {
                    let arguments = function.params().map(|(_, of)| of).collect();
                    let name = format!("{}#{name}", unversioned(interface));
                    types.insert(name, (arguments, function.results().collect()));
                }
            }
        }
        types
    }
}
