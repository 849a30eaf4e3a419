//! The tools with which an agent reads and applies the changes that sub-agents made in copies of the workspace.
//!
//! Reading and applying are two tools, because approval depends on the effects that a tool declares.

use crate::approve::permissions::CallPermissions;
use crate::undo::agent_copy::recorded_changes;
use crate::undo::keeper::{Keeper, blocking};
use futures_util::future::BoxFuture;
use pinion_agent::definition::{Execution, ToolDefinition};
use pinion_agent::text::count;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_agent::{Authority, ToolExecutor};
use pinion_checkpoints::{CheckpointStore, Error, Plan, RelPath, RestoreReport, Tree};
use pinion_session_store::printable;
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

/// Shows changes.
pub(crate) const SHOW: &str = "agent_changes";
/// Makes changes in the workspace.
pub(crate) const APPLY: &str = "apply_agent_changes";
/// Bytes of a patch that a call returns.
const MAX_PATCH: usize = 256 * 1024;
/// Paths that an error names.
const MAX_NAMED: usize = 20;

/// Runs the two tools.
pub(crate) struct ChangeTools {
    /// The checkpoints of the run, set when the run is set up.
    keeper: OnceLock<Weak<Keeper>>,
    permissions: Arc<CallPermissions>,
    definitions: [Arc<ToolDefinition>; 2],
}

impl ChangeTools {
    /// Creates the tools of a run with these rules.
    pub(crate) fn new(permissions: Arc<CallPermissions>) -> Self {
        let definition = |name: &str, label: &str, description: &str, writes| {
            Arc::new(ToolDefinition {
                name: name.to_owned(),
                label: label.to_owned(),
                description: description.to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": { "run": { "type": "string", "description": "The run that the report names." } },
                    "required": ["run"],
                    "additionalProperties": false,
                }),
                guidelines: Vec::new(),
                authority: Authority { writes, ..Authority::READ_ONLY },
                execution: if writes { Execution::Sequential } else { Execution::Parallel },
                source: Default::default(),
            })
        };
        let show = "Shows what a sub-agent changed in its copy of the directory, as a patch.";
        let apply = "Makes the changes of a sub-agent's copy in the directory. If a file was changed here since the copy, \
                     nothing changes, and the error names the file.";
        let definitions = [
            definition(SHOW, "Show changes of a sub-agent", show, false),
            definition(APPLY, "Apply changes of a sub-agent", apply, true),
        ];
        Self { keeper: OnceLock::new(), permissions, definitions }
    }

    /// Sets the checkpoints of the run.
    pub(crate) fn use_keeper(&self, keeper: &Arc<Keeper>) {
        // Set once, when a run is set up.
        let _ = self.keeper.set(Arc::downgrade(keeper));
    }

    async fn answer(&self, call: &ToolInvocation) -> Result<String, String> {
        let run = call.arguments.get("run").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let unknown = format!("the session records no changes of a run `{}`", printable(&run));
        let keeper = self.keeper.get().and_then(Weak::upgrade);
        let kept = keeper.and_then(|keeper| keeper.kept());
        let (session, store) = kept.ok_or("there are no checkpoints in this session")?;
        let path = session.path().to_owned();
        let found = blocking(move || Ok(recorded_changes(&path, &run))).await?;
        let (before, after) = found.ok_or(unknown)?;
        let (store, permissions) = (store.patient(), self.permissions.clone());
        let trees = move |store: &CheckpointStore| Ok::<_, Error>((store.tree(before)?, store.tree(after)?));
        match call.name() == APPLY {
            false => blocking(move || trees(&store).and_then(|(before, after)| patch(&store, &before, &after))).await,
            true => {
                let applied = move || {
                    let (before, after) = trees(&store)?;
                    apply(&store, &permissions, &before, &after)
                };
                blocking(applied).await?
            }
        }
    }
}

impl ToolExecutor for ChangeTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.definitions.to_vec()
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let failed = |message| ToolError::Failed { tool: call.tool.name.clone(), message, retryable: false };
            self.answer(&call).await.map(ToolOutput::from).map_err(failed).into()
        })
    }
}

/// A writer that keeps the beginning of its input.
#[derive(Default)]
struct Beginning {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_PATCH.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.is_cut |= room < bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn patch(store: &CheckpointStore, before: &Tree, after: &Tree) -> Result<String, Error> {
    let mut out = Beginning::default();
    let report = store.write_patch(before, after, Path::new(""), &mut out)?;
    let mut text = String::from_utf8_lossy(&out.bytes).into_owned();
    if out.is_cut {
        text.push_str(&format!(
            "\n[the patch of {} is longer; this is its beginning]",
            count(report.files as u64, "file")
        ));
    }
    if !report.missing.is_empty() {
        text.push_str(&format!("\n[not in the patch: {}]", names(report.missing.iter().map(|(path, _)| path))));
    }
    Ok(if text.is_empty() { "no file changed, only modes or empty directories".to_owned() } else { text })
}

/// Makes the changes in the workspace. The inner error is the reason why nothing changed.
fn apply(
    store: &CheckpointStore,
    permissions: &CallPermissions,
    before: &Tree,
    after: &Tree,
) -> Result<Result<String, String>, Error> {
    let current = store.snapshot()?.tree;
    let mut plan = Plan::applying(before, after, &current);
    store.check(&mut plan);
    if !plan.conflicts.is_empty() {
        return Ok(Err(format!(
            "nothing was changed: these paths changed here since the copy: {}",
            names(&plan.conflicts)
        )));
    }
    if !plan.lost.is_empty() {
        let lost = names(plan.lost.iter().map(|(path, _)| path));
        return Ok(Err(format!("nothing was changed: the contents of these paths are not kept any more: {lost}")));
    }
    let refused = plan.actions().find_map(|(path, _)| permissions.refuses_change(path.as_path()));
    if let Some(reason) = refused {
        return Ok(Err(format!("nothing was changed: {reason}")));
    }
    if plan.is_empty() {
        return Ok(Ok("all paths already are as the sub-agent left them".to_owned()));
    }
    let RestoreReport { restored, kept, failed, .. } = store.restore(&plan, "")?;
    let changed = count(restored.len() as u64, "path");
    let left: Vec<&RelPath> = kept.iter().chain(failed.iter().map(|(path, _)| path)).collect();
    Ok(match left.is_empty() {
        true => Ok(format!("changed {changed}")),
        false => Err(format!("changed {changed}, but not: {}", names(left))),
    })
}

fn names<'a>(paths: impl IntoIterator<Item = &'a RelPath>) -> String {
    let mut paths = paths.into_iter();
    let named: Vec<String> =
        paths.by_ref().take(MAX_NAMED).map(|path| format!("`{}`", printable(&path.to_string()))).collect();
    let more = paths.count();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}
