//! The tools: components, loaded as `pinion` loads them, with the grants that an example gives.

use crate::Result;
use futures_util::future::BoxFuture;
use pinion_agent::{ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use pinion_plugin_runtime::{Grants, HostDirectories, NoInfo, PluginSettings, Runtime, RuntimeConfig, Source};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The folder with the built-in plugins, in this repository.
pub const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist");

/// Loads plugins from a folder by their names, each with what it may do. They work on `workspace`, an absolute path.
///
/// # Errors
/// One of them cannot be loaded.
pub async fn load_tools<const N: usize>(
    plugins: &Path,
    workspace: &Path,
    grants: [(&str, Grants); N],
) -> Result<Arc<Runtime>> {
    let sources = grants.iter().map(|(name, _)| Source::file(plugins.join(format!("{name}.wasm")))).collect();
    let settings = |grants| PluginSettings { grants, ..PluginSettings::default() };
    let policy: BTreeMap<String, PluginSettings> =
        grants.into_iter().map(|(name, grants)| (name.to_owned(), settings(grants))).collect();
    let config = RuntimeConfig {
        workspace: workspace.to_owned(),
        cache: None,
        policy: Arc::new(policy),
        engine_limits: None,
        host: HostDirectories::default(),
        info: Arc::new(NoInfo),
    };
    let runtime = Runtime::new(config, |_| {})?;
    runtime.add(sources).await;
    match runtime.problems().first() {
        Some((plugin, problem)) => Err(format!("could not load the plugin `{plugin}`: {problem}").into()),
        None => Ok(Arc::new(runtime)),
    }
}

/// For agents that only talk.
pub struct NoTools;

impl ToolExecutor for NoTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(
            async move { Err(ToolError::UnknownTool { tool: call.tool.name.clone(), suggestions: Vec::new() }).into() },
        )
    }
}
