//! The grants that the components of a version have now, after `pinion plugin grant` and `revoke`.

use pinion_app::failure::{Failure, Result};
use pinion_app::plugins::grants::GrantsFile;
use pinion_app::workspace_base::Base;
use pinion_packages::{LockedRelease, PackageStore};
use pinion_plugin_runtime::without_links;
use std::collections::BTreeMap;

/// Returns the grants of each component of the active release that `grants.toml` knows, as words of the command line.
pub(super) fn current_grants(
    base: &Base,
    store: &PackageStore,
    active: &LockedRelease,
) -> Result<BTreeMap<String, Vec<String>>> {
    let file = GrantsFile::new(base.paths.grants_file());
    let failed = |error| Failure::failed(format!("could not use `{}`", file.path().display())).because(error);
    let pins = file.read().map_err(failed)?;
    let grants = active.components.iter().filter_map(|component| {
        let path = without_links(&store.plugin_file(&component.name));
        let pin = pins.iter().find(|pin| pin.path == path && pin.digest == component.digest)?;
        Some((component.name.clone(), pin.grants.spell_grants()))
    });
    Ok(grants.collect())
}
