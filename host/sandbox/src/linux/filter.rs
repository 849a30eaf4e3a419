//! The filter of system calls.
//!
//! Everything is allowed except calls that reach other processes or the kernel's own configuration, interfaces that other
//! layers do not see (`io_uring`), and sockets that the policy does not allow. A call that is refused fails with `EPERM`.

use crate::error::SandboxError;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// Ways to reach other processes that a program may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Channels {
    /// IPv4, IPv6 and the routing tables.
    pub(super) internet: bool,
    /// Unix sockets. Pairs of connected ones are always allowed.
    pub(super) unix: bool,
    /// Shared memory, semaphores and queues by number or name, which all processes of a user share.
    pub(super) ipc: bool,
}

/// Calls that are always refused.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Interfaces that other filters do not see, or with a history of exploits.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // Keys of the user.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The machine.
    libc::SYS_acct,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // open_tree_attr, which libc does not name yet.
    467,
];

/// Calls that open a channel of IPC.
const IPC: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that set a mode, with the position of the argument. The system ignores the one of a call that only opens.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_openat, 3),
    (libc::SYS_mknodat, 2),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(i64, u8)] =
    &[(libc::SYS_chmod, 1), (libc::SYS_open, 2), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(i64, u8)] = &[];

/// Calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Marks a call of the x32 interface of x86-64 kernels.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// Refused calls whose numbers differ there: `ptrace`, `process_vm_readv`, `process_vm_writev`, `kexec_load`.
#[cfg(target_arch = "x86_64")]
const REFUSED_X32: &[i64] = &[X32 | 521, X32 | 539, X32 | 540, X32 | 528];
/// `ioctl` of the x32 interface.
#[cfg(target_arch = "x86_64")]
const IOCTL_X32: i64 = X32 | 514;

/// Installs the filter, which this process and everything that it starts keep.
///
/// # Errors
/// The kernel has no such filters, or refuses this one.
pub(super) fn apply(channels: Channels) -> Result<(), SandboxError> {
    let missing = |reason: String| SandboxError::Layer {
        layer: "the filter of system calls (seccomp)",
        reason,
        remedy: "use a kernel with CONFIG_SECCOMP_FILTER, or `mode = \"off\"` in `[sandbox]`, or `--no-sandbox`",
    };
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    // Flags of clone3 and the mode of openat2 are behind pointers. Programs fall back to clone and openat.
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
    let filters =
        [(rules, errno(libc::ENOSYS)), (rules_of(channels).map_err(|e| missing(e.to_string()))?, errno(libc::EPERM))];
    for (rules, action) in filters {
        let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| missing(error.to_string()))?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture);
        let program: seccompiler::BpfProgram =
            filter.and_then(TryInto::try_into).map_err(|error| missing(error.to_string()))?;
        apply_filter(&program).map_err(|error| missing(error.to_string()))?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules_of(channels: Channels) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    if !channels.ipc {
        rules.extend(IPC.iter().map(|call| (*call, Vec::new())));
    }
    let user_namespace = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let makes_namespace = || when(&[(0, Is::MaskedEq(user_namespace), user_namespace)]);
    rules.insert(libc::SYS_clone, vec![makes_namespace()?]);
    rules.insert(libc::SYS_unshare, vec![makes_namespace()?]);
    // Input pushed into a terminal, which its next reader would take for the user's.
    let pushes = || -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        Ok(vec![when(&[(1, Is::Eq, libc::TIOCSTI)])?, when(&[(1, Is::Eq, libc::TIOCLINUX)])?])
    };
    rules.insert(libc::SYS_ioctl, pushes()?);
    rules.insert(libc::SYS_socket, sockets(channels)?);
    // A program with the rights of its owner would have them outside, where other users can start it.
    let set_user = u64::from(libc::S_ISUID);
    for (call, mode) in MODES.iter().chain(MODES_HERE) {
        rules.insert(*call, vec![when(&[(*mode, Is::MaskedEq(set_user), set_user)])?]);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let same: Vec<(i64, Vec<SeccompRule>)> =
            rules.iter().map(|(call, rules)| (X32 | call, rules.clone())).collect();
        rules.extend(same);
        rules.extend(REFUSED_X32.iter().map(|call| (*call, Vec::new())));
        rules.insert(IOCTL_X32, pushes()?);
    }
    Ok(rules)
}

/// Refuses all families but those allowed, and of netlink all but the routing tables.
fn sockets(channels: Channels) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let mut allowed = Vec::new();
    if channels.unix {
        allowed.push(libc::AF_UNIX);
    }
    if channels.internet {
        allowed.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    let family = |family: &i32| u64::from(family.unsigned_abs());
    let others: Vec<_> = allowed.iter().map(|allowed| (0, Is::Ne, family(allowed))).collect();
    let mut rules = Vec::new();
    if !others.is_empty() {
        rules.push(when(&others)?);
        rules.push(when(&[(0, Is::Eq, family(&libc::AF_NETLINK)), (2, Is::Ne, family(&libc::NETLINK_ROUTE))])?);
    }
    Ok(rules)
}

/// Matches calls to which all conditions on the low halves of arguments apply.
fn when(conditions: &[(u8, Is, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, is, value)| SeccompCondition::new(*argument, Length::Dword, is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}
