//! Tools from components, loaded like in `pinion`, with the grants that an example gives.

use crate::Result;
use pinion_plugin_runtime::{Grants, HostDirectories, NoInfo, PluginSettings, PluginSource, Runtime, RuntimeConfig};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Directory of the built-in plugins in this repository.
pub const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/dist");

/// Loads plugins from a directory by name, each with its grants, for the absolute path `workspace`.
///
/// # Errors
/// A plugin cannot be loaded.
pub async fn load_tools<const N: usize>(
    plugins: &Path,
    workspace: &Path,
    grants: [(&str, Grants); N],
) -> Result<Arc<Runtime>> {
    let sources = grants.iter().map(|(name, _)| PluginSource::file(plugins.join(format!("{name}.wasm")))).collect();
    let settings = |grants| PluginSettings { grants, ..PluginSettings::default() };
    let policy: BTreeMap<String, PluginSettings> =
        grants.into_iter().map(|(name, grants)| (name.to_owned(), settings(grants))).collect();
    let config = RuntimeConfig {
        workspace: workspace.to_owned(),
        cache: None,
        policy: Arc::new(policy),
        engine_limits: None,
        compiler: None,
        host: HostDirectories::default(),
        exclusions: Arc::default(),
        confinement: None,
        mcp: None,
        info: Arc::new(NoInfo),
        journal: None,
    };
    let runtime = Runtime::new(config, |_| {})?;
    runtime.add(sources).await;
    match runtime.problems().first() {
        Some((plugin, problem)) => Err(format!("could not load the plugin `{plugin}`: {problem}").into()),
        None => Ok(Arc::new(runtime)),
    }
}
