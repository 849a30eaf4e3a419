//! The sandbox on Linux.

mod cgroup;
mod filter;
mod grants;
mod mounts;
mod namespaces;
mod passing;
mod places;
mod rules;
mod sockets;
mod sys;
mod watch;

use crate::error::SandboxError;
use crate::policy::{CheckReport, HelperOutcome, HelperRequest, Network};
use filter::Channels;
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
pub(crate) use passing::{leave_open, receive};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Capabilities that root keeps, so that it can use the files of others and run programs as others: `CAP_CHOWN`,
/// `CAP_DAC_OVERRIDE`, `CAP_FOWNER`, `CAP_KILL`, `CAP_SETGID` and `CAP_SETUID`.
const ROOT_KEEPS: u64 = 0b1110_1011;

/// Confines this process and runs the program. Without one, only checks, and returns a report.
///
/// # Errors
/// A layer that is in use cannot be set up. Nothing has been started.
pub(crate) fn enter(request: &HelperRequest, program: Option<Command>) -> Result<HelperOutcome, SandboxError> {
    sys::close_on_exec().map_err(|error| SandboxError::step("close inherited files", error))?;
    // Limits that the system does not offer this user are not worth a failure.
    let group = cgroup::ControlGroup::create(&request.policy.limits);
    if request.layers.namespaces {
        return namespaces::enter(request, program, group);
    }
    let mut report = restrict(request)?;
    match program {
        Some(mut program) => {
            // Once the program has ended, a later one removes the group.
            let _ = group.as_ref().map(cgroup::ControlGroup::enter);
            // Returns only if it fails.
            let error = program.exec();
            Err(not_started(&program, &error))
        }
        None => {
            report.no_group = removed(group);
            Ok(HelperOutcome::Checked(report))
        }
    }
}

/// Removes a group; returns the reason if there was no group.
fn removed(group: Result<cgroup::ControlGroup, String>) -> String {
    group.map(cgroup::ControlGroup::remove).err().unwrap_or_default()
}

fn not_started(program: &Command, error: &io::Error) -> SandboxError {
    let program = program.get_program().to_string_lossy();
    SandboxError::Inside(format!("`{program}` did not start: {error}"))
}

/// Gives up everything that the policy does not allow, for this process and all that it starts.
fn restrict(request: &HelperRequest) -> Result<CheckReport, SandboxError> {
    let (policy, has_mounts) = (&request.policy, request.layers.namespaces);
    limit(request)?;
    // Before the rights to find out are gone.
    let grants = match has_mounts {
        true => grants::behind_mounts(policy),
        false => grants::without_mounts(policy)?,
    };
    let kept = if geteuid().is_root() { ROOT_KEEPS } else { 0 };
    sys::keep_capabilities(kept).map_err(|error| SandboxError::step("give up capabilities", error))?;
    set_no_new_privs().map_err(|error| SandboxError::step("give up new privileges", error.desc()))?;
    let has_internet = has_mounts || policy.network == Network::On;
    let landlock = match request.layers.landlock {
        true => Some(rules::apply(&grants, has_internet, !has_mounts)?),
        false => None,
    };
    // Without namespaces, other programs and their sockets and shared memory cannot be hidden.
    filter::apply(Channels {
        internet: has_internet,
        unix: has_mounts,
        ipc: has_mounts,
        others: has_mounts,
        // Other users only get groups that they are in themselves.
        groups: !geteuid().is_root(),
    })?;
    Ok(CheckReport { landlock, seccomp: true, no_group: String::new() })
}

/// Sets limits on resources, which can only be lowered from here on.
fn limit(request: &HelperRequest) -> Result<(), SandboxError> {
    let limits = &request.policy.limits;
    let mut wanted = vec![(Resource::RLIMIT_CORE, 0)];
    if request.layers.namespaces {
        // Counted in the user namespace. Outside of one, the processes of the user would count.
        wanted.push((Resource::RLIMIT_NPROC, limits.processes));
    }
    wanted.extend(limits.file_bytes.map(|bytes| (Resource::RLIMIT_FSIZE, bytes)));
    for (resource, most) in wanted {
        let failed = |error: nix::errno::Errno| SandboxError::step("limit resources", error.desc());
        let (_, allowed) = getrlimit(resource).map_err(failed)?;
        let most = most.min(allowed);
        setrlimit(resource, most, most).map_err(failed)?;
    }
    Ok(())
}
