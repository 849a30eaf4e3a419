//! The filter of system calls.
//!
//! Everything is allowed except calls that reach other processes or the kernel's own configuration, interfaces that other
//! layers do not see (`io_uring`), and sockets that the policy does not allow. A call that is refused fails with `EPERM`.

use crate::error::SandboxError;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};
use std::collections::BTreeMap;

/// Ways to reach other processes, and rights for them, that a program may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Channels {
    /// IPv4, IPv6 and the routing tables.
    pub(super) internet: bool,
    /// Unix sockets. Pairs of connected ones are always allowed.
    pub(super) unix: bool,
    /// Shared memory, semaphores and queues by number or name, which all processes of a user share.
    pub(super) ipc: bool,
    /// Limits and priorities of other processes of the user.
    pub(super) others: bool,
    /// Programs that others start with the rights of their group.
    pub(super) groups: bool,
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

/// Calls that change the limits or the priority of a process, with the position of its number, where 0 is the caller.
const OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];
/// The kinds of numbers that stand for all processes of a user, for the last two of these.
const ALL_OF_USER: [(i64, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

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

/// `clone3` and `openat2`, which have the same numbers everywhere. Their flags and modes are behind pointers. Programs fall
/// back to `clone` and `openat`.
const UNKNOWN: [u32; 2] = [435, 437];
/// The first number of the x32 interface of x86-64 kernels, which few kernels and no programs have. All of it is unknown, and
/// so are the larger numbers of other architectures, which have no call.
const X32: u32 = 0x4000_0000;

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
    let program = program(channels).map_err(|error| missing(error.to_string()))?;
    apply_filter(&program).map_err(|error| missing(error.to_string()))
}

/// Returns the filter. One, because the kernel compiles each, and runs each for every call.
fn program(channels: Channels) -> Result<BpfProgram, seccompiler::BackendError> {
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules_of(channels)?, SeccompAction::Allow, errno(libc::EPERM), architecture)?;
    let refusing: BpfProgram = filter.try_into()?;
    // A call that the system does not know is refused on every architecture, so that this comes before the check of it.
    let mut program = unknown_calls(errno(libc::ENOSYS).into());
    program.extend(refusing);
    Ok(program)
}

/// Returns the beginning of the filter, which answers as a system without certain calls does.
fn unknown_calls(unknown: u32) -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_NOT_BELOW: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let instruction = |code: u16, jt: u8, jf: u8, k: u32| sock_filter { code, jt, jf, k };
    let count = u8::try_from(UNKNOWN.len()).unwrap_or(u8::MAX);
    let mut program = vec![instruction(LOAD_NUMBER, 0, 0, 0)];
    for (call, left) in UNKNOWN.iter().zip((1..=count).rev()) {
        program.push(instruction(JUMP_IF_EQUAL, left, 0, *call));
    }
    program.push(instruction(JUMP_IF_NOT_BELOW, 0, 1, X32));
    program.push(instruction(RETURN, 0, 0, unknown));
    program
}

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules_of(channels: Channels) -> Result<SeccompRules, seccompiler::BackendError> {
    let mut rules: SeccompRules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    if !channels.ipc {
        rules.extend(IPC.iter().map(|call| (*call, Vec::new())));
    }
    if !channels.others {
        for (call, process) in OTHERS {
            rules.insert(*call, vec![when(&[(*process, Is::Ne, 0)])?]);
        }
        for (call, kind) in ALL_OF_USER {
            rules.entry(call).or_default().push(when(&[(0, Is::Eq, kind)])?);
        }
    }
    let user_namespace = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let makes_namespace = || when(&[(0, Is::MaskedEq(user_namespace), user_namespace)]);
    rules.insert(libc::SYS_clone, vec![makes_namespace()?]);
    rules.insert(libc::SYS_unshare, vec![makes_namespace()?]);
    // Input pushed into a terminal, which its next reader would take for the user's.
    let pushes = vec![when(&[(1, Is::Eq, libc::TIOCSTI)])?, when(&[(1, Is::Eq, libc::TIOCLINUX)])?];
    rules.insert(libc::SYS_ioctl, pushes);
    rules.insert(libc::SYS_socket, sockets(channels)?);
    // A program with the rights of its owner would have them outside, where other users can start it.
    let refused = if channels.groups { vec![libc::S_ISUID] } else { vec![libc::S_ISUID, libc::S_ISGID] };
    for (call, mode) in MODES.iter().chain(MODES_HERE) {
        let bits = refused.iter().map(|bit| u64::from(*bit));
        rules.insert(*call, bits.map(|bit| when(&[(*mode, Is::MaskedEq(bit), bit)])).collect::<Result<_, _>>()?);
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

/// Matches calls that meet all conditions on the low halves of arguments.
fn when(conditions: &[(u8, Is, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, is, value)| SeccompCondition::new(*argument, Length::Dword, is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: Channels = Channels { internet: true, unix: true, ipc: true, others: false, groups: false };

    /// Runs a filter for a call of this architecture, as the kernel does: loads, tests of bits, jumps and ends.
    fn answer(number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = vec![number, architecture()];
        data.extend([0, 0]);
        data.extend(arguments.iter().flat_map(|value| [*value as u32, (*value >> 32) as u32]));
        let program = program(CHANNELS).unwrap();
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |is: bool| usize::from(if is { jt } else { jf });
            at += 1 + match code {
                0x20 => {
                    value = data[k as usize / 4];
                    0
                }
                0x54 => {
                    value &= k;
                    0
                }
                0x05 => k as usize,
                0x15 => jump(value == k),
                0x25 => jump(value > k),
                0x35 => jump(value >= k),
                0x06 => return k,
                _ => panic!("{code:x}"),
            };
        }
    }

    fn architecture() -> u32 {
        // The second instruction behind the beginning compares with it.
        program(CHANNELS).unwrap()[UNKNOWN.len() + 4].k
    }

    fn errno(number: i32) -> u32 {
        SeccompAction::Errno(number.unsigned_abs()).into()
    }

    fn number(call: i64) -> u32 {
        u32::try_from(call).unwrap()
    }

    #[test]
    fn calls_whose_flags_no_filter_sees_are_unknown() {
        assert_eq!(UNKNOWN, [number(libc::SYS_clone3), number(libc::SYS_openat2)]);
        for call in UNKNOWN.into_iter().chain([X32, X32 | number(libc::SYS_mount), u32::MAX]) {
            assert_eq!(answer(call, [0; 6]), errno(libc::ENOSYS), "{call:x}");
        }
    }

    #[test]
    fn one_filter_refuses_and_allows() {
        let (refused, allowed) = (errno(libc::EPERM), u32::from(SeccompAction::Allow));
        assert_eq!(answer(number(libc::SYS_ptrace), [0; 6]), refused);
        assert_eq!(answer(number(libc::SYS_read), [0; 6]), allowed);
        assert_eq!(answer(number(libc::SYS_unshare), [0; 6]), allowed);
        let user_namespace = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
        assert_eq!(answer(number(libc::SYS_unshare), [user_namespace, 0, 0, 0, 0, 0]), refused);
        assert_eq!(answer(number(libc::SYS_ioctl), [0, libc::TIOCSTI, 0, 0, 0, 0]), refused);
        assert_eq!(answer(number(libc::SYS_fchmod), [3, 0o4755, 0, 0, 0, 0]), refused);
        assert_eq!(answer(number(libc::SYS_fchmod), [3, 0o2755, 0, 0, 0, 0]), refused);
        assert_eq!(answer(number(libc::SYS_fchmod), [3, 0o755, 0, 0, 0, 0]), allowed);
        assert_eq!(answer(number(libc::SYS_prlimit64), [0, 7, 1, 0, 0, 0]), allowed);
        for (call, arguments) in [
            (libc::SYS_prlimit64, [1, 7, 1, 0, 0, 0]),
            (libc::SYS_setpriority, [0, 1, 10, 0, 0, 0]),
            (libc::SYS_setpriority, [2, 0, 10, 0, 0, 0]),
            (libc::SYS_ioprio_set, [3, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(answer(number(call), arguments), refused, "{call} {arguments:?}");
        }
        assert_eq!(answer(number(libc::SYS_setpriority), [0, 0, 10, 0, 0, 0]), allowed);
        let modes = Channels { groups: true, ..CHANNELS };
        assert!(rules_of(modes).unwrap()[&libc::SYS_fchmod].len() == 1, "other users");
        let raw = u64::from(libc::AF_PACKET.unsigned_abs());
        assert_eq!(answer(number(libc::SYS_socket), [raw, 0, 0, 0, 0, 0]), refused);
    }
}
