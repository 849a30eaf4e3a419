//! Opening files of the cache directory, where other programs of the user may have put anything.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file of the cache. A link or a pipe in its place is an error, and does not block.
pub(super) fn open_entry(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
}
