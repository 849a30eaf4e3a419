//! Installations that a server's start did not finish.
//!
//! `npx` installs a package into its cache and assumes the next time that it is complete, even if it was killed in
//! between. A start therefore leaves a mark until the server has said something; where a mark is left, the installation
//! is removed first.

use crate::files::private::open_regular;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// The mark, in the server's own directory.
const MARK: &str = "starting";
/// Installed packages of `npx`, in the server's temporary directory.
const INSTALLED: &str = "npm/_npx";

/// A start of a server that has said nothing yet.
pub(super) struct FirstStart {
    /// Locked, so that another process does not take this start for a failed one.
    mark: File,
}

impl FirstStart {
    /// Marks the beginning of a start, and removes the packages of an unfinished one. Returns `None` if another process
    /// starts the same server, or the mark cannot be written.
    pub(super) fn begin(directory: &Path, temporary: &Path) -> Option<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut mark = open_regular(&directory.join(MARK), &mut options).ok()?;
        mark.try_lock().ok()?;
        let mut text = String::new();
        if mark.read_to_string(&mut text).is_ok_and(|bytes| bytes > 0) {
            // It may not exist.
            let _ = fs::remove_dir_all(temporary.join(INSTALLED));
        }
        mark.rewind().and_then(|()| mark.write_all(b"starting")).ok()?;
        Some(Self { mark })
    }

    fn end(self) {
        // Otherwise the next start installs once more.
        let _ = self.mark.set_len(0);
    }
}

/// The output of a server, whose first bytes end its start.
pub(super) struct FirstBytes<R> {
    output: R,
    start: Option<FirstStart>,
}

impl<R> FirstBytes<R> {
    pub(super) fn new(output: R, start: Option<FirstStart>) -> Self {
        Self { output, start }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FirstBytes<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(context, buffer);
        if buffer.filled().len() > before
            && let Some(start) = self.start.take()
        {
            start.end();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn installation_of_a_start_that_said_nothing_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let temporary = directory.path().join("tmp");
        let installed = temporary.join(INSTALLED).join("x");
        let install = || fs::create_dir_all(&installed).unwrap();
        let begin = || FirstStart::begin(directory.path(), &temporary);
        install();
        let first = begin();
        assert!(first.is_some() && begin().is_none() && installed.exists());
        drop(first);
        let second = begin();
        assert!(second.is_some() && !installed.exists());
        install();
        let mut text = String::new();
        FirstBytes::new(&b"hello"[..], second).read_to_string(&mut text).await.unwrap();
        assert!(begin().is_some() && installed.exists());
    }
}
