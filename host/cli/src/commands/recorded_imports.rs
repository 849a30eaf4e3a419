//! The imports of a session's tool calls, from its journal, for people.

use crate::commands::plugin::replay::{Components, RecordedInstance, recorded_instances};
use pinion_app::failure::{Failure, Result};
use pinion_app::run::journal::directory_of;
use pinion_app::workspace_base::Base;
use pinion_journal::event::ImportRecord;
use pinion_journal::reader::journal_files;
use pinion_plugin_journal::replay::RecordedToolCall;
use std::collections::HashMap;
use std::path::Path;

/// The journal of a session.
pub(super) struct RecordedImports {
    components: Components,
    instances: Vec<RecordedInstance>,
    /// The positions of the calls among the instances and their calls, by the ids of the tool calls.
    by_id: HashMap<String, Vec<(RecordedToolCall, usize, usize)>>,
}

/// The imports that a component called for a tool call.
pub(super) struct PrintedImports {
    pub(super) plugin: String,
    /// One line for each import: its name, arguments and result.
    pub(super) lines: Vec<String>,
}

impl RecordedImports {
    /// Reads the journal of the session in the file `path`; `None` if there is no journal.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn read(base: &Base, path: &Path) -> Result<Option<Self>> {
        let failed = |error| Failure::failed("cannot read the journal").because(error);
        let files = journal_files(&directory_of(path)).map_err(failed)?;
        if files.is_empty() {
            return Ok(None);
        }
        let (components, instances) = (Components::new(base, None)?, recorded_instances(files)?);
        let mut by_id: HashMap<String, Vec<_>> = HashMap::new();
        for (at, instance) in instances.iter().enumerate() {
            for (position, (_, call)) in instance.calls.iter().enumerate() {
                if let Some(tool_call) = RecordedToolCall::from_record(call) {
                    by_id.entry(tool_call.id.clone()).or_default().push((tool_call, at, position));
                }
            }
        }
        Ok(Some(Self { components, instances, by_id }))
    }

    /// Returns the imports of a tool call; of a call of this session if it is given.
    ///
    /// # Errors
    /// A component cannot be read or compiled.
    pub(super) fn of_call(&mut self, id: &str, session: Option<&str>) -> Result<Vec<PrintedImports>> {
        let mut printed = Vec::new();
        for (tool_call, at, position) in self.by_id.get(id).into_iter().flatten() {
            if session.is_some_and(|session| session != tool_call.session) {
                continue;
            }
            let Some(instance) = self.instances.get(*at) else { continue };
            let Some((_, call)) = instance.calls.get(*position) else { continue };
            let replayer = self.components.replayer.clone();
            let lines = match self.components.find(&instance.start.component, None)? {
                Some(component) => replayer.imports(component, call),
                None => call.imports.iter().map(without_types).collect(),
            };
            printed.push(PrintedImports { plugin: instance.start.plugin.clone(), lines });
        }
        Ok(printed)
    }
}

/// Describes an import of a component that is not installed any more, whose types are not known.
fn without_types(import: &ImportRecord) -> String {
    format!("{}(…)", import.name)
}
