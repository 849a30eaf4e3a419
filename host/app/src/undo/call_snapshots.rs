//! Snapshots around each call, while the journal is on.
//!
//! A call that runs alone has the checkpoints before and after it. At the end of a call that others outlast, there is one
//! more snapshot: concurrent calls are in the order in which they ended, and each has the changes since the end before it.

use crate::undo::keeper::{Keeper, blocking, lost};
use pinion_agent::content::ToolCall;
use pinion_checkpoints::Digest;
use pinion_session_store::Record;
use pinion_session_store::record::CallSnapshots;

/// Bytes of arguments that a record keeps.
const MAX_ARGUMENTS: usize = 160;

impl Keeper {
    /// Takes the snapshot at the end of a call while others are at work. Without it, the changes count as changes of the
    /// call that ends next.
    pub(super) async fn snapshot_among_calls(&self) -> Option<Digest> {
        let store = self.kept()?.1.patient();
        let taken = blocking(move || store.snapshot()).await;
        taken.inspect_err(|problem| tracing::debug!(problem, "no snapshot at the end of a call")).ok().map(|it| it.id)
    }

    /// Records the snapshots around a call.
    pub(super) fn record_call(&self, call: &ToolCall, before: Digest, after: Digest) {
        let Some((session, _)) = self.kept() else { return };
        let arguments = self.base.secrets.clean(&call.arguments.to_string()).into_owned();
        let record = Record::CallSnapshots(CallSnapshots {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            arguments: shortened(&arguments),
            before: before.to_string(),
            after: after.to_string(),
        });
        if let Err(error) = session.record(&record) {
            self.notice(lost(&error));
        }
    }
}

/// Cuts the arguments of a call to the beginning that records keep.
pub(super) fn shortened(arguments: &str) -> String {
    let end = arguments.floor_char_boundary(MAX_ARGUMENTS);
    format!("{}{}", &arguments[..end], if end < arguments.len() { "…" } else { "" })
}
