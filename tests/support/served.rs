//! A check that the host serves others, after any act of a hostile plugin.

use crate::progress::Progress;
use pinion_agent::ToolExecutor as _;
use pinion_agent::tool::ToolInvocation;
use pinion_plugin_runtime::Runtime;
use serde_json::json;
use std::sync::Arc;

/// Checks at the end of a test that the guest `echo` is served.
pub(crate) struct Watch(pub(crate) Arc<Runtime>);

impl Drop for Watch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Elsewhere, as the test's own threads must not block.
            let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            std::thread::scope(|scope| scope.spawn(|| runtime().block_on(assert_served(&self.0))).join()).unwrap();
        }
    }
}

/// Checks that the plugin `echo`, which needs no grant for this, is served, after any act of another one.
///
/// # Panics
/// It is not served.
pub async fn assert_served(runtime: &Runtime) {
    let tool = runtime.definitions().into_iter().find(|tool| tool.name == "details").unwrap();
    let call = ToolInvocation::alone(tool, json!({ "message": "still here" }));
    let reply = runtime.call(call, &Progress::default()).await;
    assert_eq!(reply.result.unwrap().content[0].as_text(), Some("done"));
}
