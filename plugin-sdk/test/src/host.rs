//! The parts of an application that a test can use in place of the kit's own.

use pinion_plugin_runtime::{CacheKey, Compiler, Confinement, EngineLimits, Notice};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the sandbox of the programs that a plugin starts, for a workspace.
pub type MakeConfinement = dyn Fn(&Path) -> Option<Arc<dyn Confinement>> + Send + Sync;

/// The parts of an application that runs cases of foreign projects. Grants then reach only the workspace of the test.
#[derive(Clone, Default)]
pub struct Host {
    /// The directory for compiled code, and the key that seals it.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// Compiles in another process, which can take longer than a call may.
    pub compiler: Option<Compiler>,
    /// Limits of the engine.
    pub engine_limits: Option<EngineLimits>,
    /// The sandbox of programs; without one, they run unconfined.
    pub confinement: Option<Arc<MakeConfinement>>,
    /// Receives notices of the runtime.
    pub on_notice: Option<Arc<dyn Fn(Notice) + Send + Sync>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("cache", &self.cache.as_ref().map(|(path, _)| path)).finish_non_exhaustive()
    }
}
