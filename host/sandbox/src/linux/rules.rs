//! Landlock: the files, TCP ports, signals and abstract sockets that a program reaches.

use crate::error::SandboxError;
use crate::linux::grants::Grants;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use std::path::Path;

/// The newest version whose rights are used; older kernels get those that they know.
const NEWEST: ABI = ABI::V9;
/// The oldest version that suffices without mounts: earlier ones do not prevent the truncation of files.
const OLDEST_ALONE: u32 = 3;

const REMEDY: &str = "boot with `lsm=landlock,…` on a kernel from 5.13, set `mode = \"best-effort\"` or `\"off\"` in \
                      `[sandbox]`, or use `--no-sandbox`";

/// Restricts this process and everything that it starts. `is_alone` if no mounts restrict the same files.
/// Returns the version in effect.
///
/// # Errors
/// The kernel has no Landlock, or one that is too old.
pub(super) fn apply(grants: &Grants, tcp: bool, is_alone: bool) -> Result<u32, SandboxError> {
    let layer = |reason: String| SandboxError::Layer { layer: "Landlock", reason, remedy: REMEDY };
    let failed = |error: landlock::RulesetError| layer(error.to_string());
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .map_err(failed)?;
    if !tcp {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp).map_err(failed)?;
    }
    let mut ruleset = ruleset.create().map_err(failed)?;
    let read = AccessFs::from_read(NEWEST);
    let all = AccessFs::from_all(NEWEST);
    let device = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let granted = grants.read.iter().map(|path| (path, read));
    let granted = granted.chain(grants.write.iter().map(|path| (path, all)));
    let granted = granted.chain(grants.list.iter().map(|path| (path, AccessFs::ReadDir.into())));
    for (path, access) in granted.chain(grants.devices.iter().map(|path| (path, device))) {
        if let Some(rule) = rule(path, access) {
            ruleset = ruleset.add_rule(rule).map_err(failed)?;
        }
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(layer("the kernel has none, or it is disabled".to_owned())),
        _ if is_alone && version < OLDEST_ALONE => {
            Err(layer(format!("without mount namespaces it needs version {OLDEST_ALONE}, and this is {version}")))
        }
        _ => Ok(version),
    }
}

/// Returns the rule for a path; `None` for one that does not exist.
fn rule(path: &Path, access: BitFlags<AccessFs>) -> Option<PathBeneath<PathFd>> {
    let opened = PathFd::new(path).ok()?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    Some(PathBeneath::new(opened, access))
}
