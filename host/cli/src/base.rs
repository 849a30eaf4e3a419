//! What every command that works in a directory shares: its paths, its config and its secrets.
//!
//! A [`Base`] is data. The parts of a run are made from it where they belong: plugins in [`crate::plugins`], models in
//! [`crate::model`], agents in [`crate::run`].

use crate::config::Config;
use crate::files::paths::Paths;
use crate::files::spill::Output;
use crate::model::exchanges::Exchanges;
use pinion_agent::Secrets;
use pinion_plugin_runtime::{CacheKey, GrantContext, GrantTable, Grants, HostDirectories};
use std::path::PathBuf;
use std::sync::Arc;

/// What every command that works in a folder starts from.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) paths: Paths,
    pub(crate) workspace: PathBuf,
    pub(crate) config: Config,
    pub(crate) exchanges: Exchanges,
    /// Every credential that this process has met.
    pub(crate) secrets: Secrets,
    /// Where long output of programs goes.
    pub(crate) output: Arc<Output>,
    /// `--base-url`.
    pub(crate) base_url: Option<String>,
}

impl Base {
    /// The directories that no plugin may use, with the one in them that the model reads long output from.
    pub(crate) fn host_directories(&self) -> HostDirectories {
        let Paths { config, data, cache } = self.paths.clone();
        HostDirectories { private: vec![config, data, cache], handed_out: vec![self.output.directory().to_owned()] }
    }

    /// Where compiled code is kept, and the secret that seals it.
    pub(crate) fn compiled_code(&self) -> Option<(PathBuf, CacheKey)> {
        cache_key(&self.paths).map(|key| (self.paths.components(), key))
    }

    /// Resolves a grants table for this workspace and environment.
    pub(crate) fn grants(&self, table: &GrantTable) -> Grants {
        table.resolve(&GrantContext {
            workspace: &self.workspace,
            usual_variables: &self.config.process_environment,
            variables: &crate::process::hardening::variables,
            output: self.output.directory(),
        })
    }

    /// What the user should know of what the project brings and what it may not.
    pub(crate) fn project_notices(&self) -> Vec<String> {
        self.config.project.notices().into_iter().chain(self.config.notices.iter().cloned()).collect()
    }
}

/// The secret that seals compiled code, made when it is first needed. None when it can be neither read nor made, which
/// is logged: everything is compiled anew then.
fn cache_key(paths: &Paths) -> Option<CacheKey> {
    let file = paths.cache_key_file();
    crate::files::private::read_or_create::<32>(&file)
        .map(CacheKey::new)
        .inspect_err(|error| tracing::warn!(file = %file.display(), %error, "compiled code is not cached"))
        .ok()
}
