//! System calls that no crate in the build wraps safely.

#![allow(unsafe_code, reason = "these calls have no safe wrapper; each block says why it is sound")]

use nix::sched::CloneFlags;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Bits of `struct mount_attr`, from `linux/mount.h`.
pub(super) const READ_ONLY: u64 = 1;
pub(super) const NO_SETUID: u64 = 2;
pub(super) const NO_DEVICES: u64 = 4;

/// The attributes of a mount that change: bits to set and bits to clear.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MountAttributes {
    pub(super) set: u64,
    pub(super) clear: u64,
    pub(super) recursive: bool,
}

/// Creates a copy of this process in new namespaces; returns its id, or `None` in the copy.
pub(super) fn fork_into(namespaces: CloneFlags) -> io::Result<Option<i32>> {
    let flags = i64::from((namespaces.bits() | libc::SIGCHLD).cast_unsigned());
    // SAFETY: without a stack and without shared memory, clone is fork. The helper has one thread, so that the copy has all
    // threads of the process, and no lock is held by another.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0_i64, 0_i64, 0_i64, 0_i64) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        process => Ok(Some(i32::try_from(process).map_err(io::Error::other)?)),
    }
}

/// Closes all files but the standard streams when a program starts.
pub(super) fn close_on_exec() -> io::Result<()> {
    // SAFETY: close_range takes numbers, and with this flag closes nothing that this process uses.
    done(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// Changes attributes of the mount whose root is open.
pub(super) fn set_mount_attributes(tree: BorrowedFd<'_>, attributes: MountAttributes) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if attributes.recursive { libc::AT_RECURSIVE } else { 0 };
    // `struct mount_attr`: bits to set, bits to clear, propagation and a user namespace.
    let change: [u64; 4] = [attributes.set, attributes.clear, 0, 0];
    // SAFETY: the path is an empty string, and the size is the structure's size.
    done(unsafe {
        let size = size_of_val(&change);
        libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), c"".as_ptr(), flags, change.as_ptr(), size)
    })
}

/// Returns a copy of the mount of a file or directory, from there on and with all mounts in it, that is nowhere attached.
pub(super) fn clone_tree(original: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags =
        libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).cast_unsigned();
    // SAFETY: the path is an empty string.
    opened(unsafe { libc::syscall(libc::SYS_open_tree, original.as_raw_fd(), c"".as_ptr(), flags) })
}

/// Returns a new file system in memory that is nowhere attached, with no programs, devices or rights of files.
pub(super) fn new_tmpfs(options: &[(&CStr, &CStr)]) -> io::Result<OwnedFd> {
    // From `linux/mount.h`.
    const FSOPEN_CLOEXEC: u32 = 1;
    const SET_STRING: u32 = 1;
    const CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;
    const NO_PROGRAMS: u64 = 8;
    // SAFETY: all texts end with zero, and the descriptors are open.
    unsafe {
        let opened_context = opened(libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), FSOPEN_CLOEXEC))?;
        let context = opened_context.as_raw_fd();
        for (key, value) in options {
            done(libc::syscall(libc::SYS_fsconfig, context, SET_STRING, key.as_ptr(), value.as_ptr(), 0))?;
        }
        let nothing = std::ptr::null::<libc::c_char>();
        done(libc::syscall(libc::SYS_fsconfig, context, CREATE, nothing, nothing, 0))?;
        let attributes = NO_SETUID | NO_DEVICES | NO_PROGRAMS;
        opened(libc::syscall(libc::SYS_fsmount, context, FSMOUNT_CLOEXEC, attributes))
    }
}

/// Attaches a mount to an open file or directory, even if its path has changed.
pub(super) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // From `linux/mount.h`: both paths are empty.
    const EMPTY_PATHS: u32 = 0x04 | 0x40;
    // SAFETY: the paths are empty strings.
    done(unsafe {
        let (from, to) = (tree.as_raw_fd(), target.as_raw_fd());
        libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), to, c"".as_ptr(), EMPTY_PATHS)
    })
}

/// Gives up all capabilities but those in `kept`, a set of bits, for good.
pub(super) fn keep_capabilities(kept: u64) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    const LAST: u32 = 40;
    #[repr(C)]
    struct CapsetHeader {
        version: u32,
        process: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = CapsetHeader { version: VERSION_3, process: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: prctl takes numbers here; capget and capset take a header and two sets, as version 3 defines them.
    unsafe {
        for capability in (0..=LAST).filter(|capability| kept & (1 << capability) == 0) {
            // Refused to a process without capabilities, which also needs no limit.
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0);
        }
        done(libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()))?;
        for (set, shift) in sets.iter_mut().zip([0, 32]) {
            let kept = u32::try_from((kept >> shift) & u64::from(u32::MAX)).unwrap_or_default();
            *set = Sets { effective: set.permitted & kept, permitted: set.permitted & kept, inheritable: 0 };
        }
        done(libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()))
    }
}

/// Opens a socket to the kernel's routing tables.
pub(super) fn routing_socket() -> io::Result<File> {
    // SAFETY: socket takes numbers; the descriptor is new and has no further owner.
    unsafe {
        let descriptor = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
        if descriptor == -1 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(descriptor)) }
    }
}

/// Takes over the descriptor that a system call returned.
fn opened(result: i64) -> io::Result<OwnedFd> {
    done(result)?;
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: it is new and has no further owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn done(result: i64) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
