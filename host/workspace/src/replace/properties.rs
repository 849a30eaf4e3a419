//! Properties of files that std does not reach: owner, extended attributes (access control lists are some) and links.
//!
//! Linux has all of this. Elsewhere a replaced file keeps its mode only.

use cap_std::fs::File;
use std::io;

#[cfg(target_os = "linux")]
pub(super) use self::linux::{give, reserve};

/// Mode bits that a new content must not inherit: they make a program run as another user.
#[cfg(unix)]
const SETUID_AND_SETGID: u32 = 0o6000;

/// Returns whether the file has more than one name.
#[cfg(unix)]
pub(super) fn has_other_names(file: &File) -> io::Result<bool> {
    Ok(cap_std::fs::MetadataExt::nlink(&file.metadata()?) > 1)
}

#[cfg(not(unix))]
pub(super) fn has_other_names(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Clears the bits that make a program run as another user. The kernel does this for everyone but root, so that it does
/// not matter that only the owner and root may.
pub(super) fn clear_setuid(file: &File) {
    #[cfg(unix)]
    if let Ok(metadata) = file.metadata() {
        let mode = cap_std::fs::PermissionsExt::mode(&metadata.permissions());
        if mode & SETUID_AND_SETGID != 0 {
            let _ = file.set_permissions(cap_std::fs::PermissionsExt::from_mode(mode & !SETUID_AND_SETGID & 0o7777));
        }
    }
    #[cfg(not(unix))]
    let _ = file;
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{File, SETUID_AND_SETGID, io};
    use rustix::fs::{self, FallocateFlags, Gid, Mode, Uid, XattrFlags};
    use rustix::io::Errno;

    /// Grants a program capabilities; the kernel removes it when a file is written.
    const CAPABILITIES: &[u8] = b"security.capability";

    /// Gives a new file the owner, the extended attributes and the mode of an old one, without the bits that make a
    /// program run as another user.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if this user may not, or the error of a full disk.
    pub(in super::super) fn give(old: &File, new: &File) -> io::Result<()> {
        try_give(old, new).map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT => errno.into(),
            _ => io::ErrorKind::PermissionDenied.into(),
        })
    }

    fn try_give(old: &File, new: &File) -> Result<(), Errno> {
        let (was, is) = (fs::fstat(old)?, fs::fstat(new)?);
        if (was.st_uid, was.st_gid) != (is.st_uid, is.st_gid) {
            fs::fchown(new, Some(Uid::from_raw(was.st_uid)), Some(Gid::from_raw(was.st_gid)))?;
        }
        let (wanted, present) = (attributes(old)?, attributes(new)?);
        for name in present.iter().filter(|name| !wanted.contains(name)) {
            fs::fremovexattr(new, name.as_slice())?;
        }
        for name in wanted.iter().filter(|name| name.as_slice() != CAPABILITIES) {
            let value = attribute(old, name)?;
            if !present.contains(name) || attribute(new, name)? != value {
                fs::fsetxattr(new, name.as_slice(), &value, XattrFlags::empty())?;
            }
        }
        // Last, because a new owner and a new access control list change it.
        fs::fchmod(new, Mode::from_raw_mode(was.st_mode & 0o7777 & !SETUID_AND_SETGID))
    }

    /// The names of a file's extended attributes; empty on systems without attributes.
    fn attributes(file: &File) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = match fs::flistxattr_query(file) {
            Ok(0) | Err(Errno::NOTSUP) => return Ok(Vec::new()),
            length => vec![0; length?],
        };
        let length = fs::flistxattr(file, names.as_mut_slice())?;
        let names = names[..length].split(|byte| *byte == 0);
        Ok(names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn attribute(file: &File, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; fs::fgetxattr_query(file, name)?];
        if value.is_empty() {
            return Ok(value);
        }
        let length = fs::fgetxattr(file, name, value.as_mut_slice())?;
        value.truncate(length);
        Ok(value)
    }

    /// Reserves the first bytes of a file on the disk. File systems that cannot are left to fail at the write.
    pub(in super::super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            reserved => Ok(reserved?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn give(old: &File, new: &File) -> io::Result<()> {
    new.set_permissions(old.metadata()?.permissions())?;
    clear_setuid(new);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_file: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}
