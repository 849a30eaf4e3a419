//! The files of a project that a build may depend on.

use pinion_plugin_runtime::list_files;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that listing the files may take.
const LISTING: Duration = Duration::from_secs(10);

/// Directories that builds write to, whether or not they are ignored.
const BUILT: &[&str] = &["build", "target", "node_modules", "__pycache__"];

/// Lists the files of a project that a build may depend on. None if they cannot be listed, or not all of them.
pub fn sources(root: &Path) -> Option<Vec<PathBuf>> {
    let is_source = |path: &String| !Path::new(path).iter().any(|name| BUILT.iter().any(|built| name == *built));
    let listed = list_files(root, LISTING).ok().filter(|listed| !listed.is_cut)?;
    Some(listed.paths.iter().filter(|path| is_source(path)).map(|path| root.join(path)).collect())
}
