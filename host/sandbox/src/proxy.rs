//! The path from a program without a network to a proxy of its parent.
//!
//! The helper creates a listening socket in the program's network namespace and hands it to the parent, which accepts the
//! connections. Nothing else runs inside, and no connection passes through the file system.

use std::io;
use std::net::TcpListener;

/// The port of the proxy on the loopback device of the program.
pub const PROXY_PORT: u16 = 3128;

/// The parent's end, for one program.
#[derive(Debug)]
pub struct ProxySocket {
    #[cfg(target_os = "linux")]
    pub(crate) socket: std::os::unix::net::UnixStream,
}

#[cfg(target_os = "linux")]
impl ProxySocket {
    /// Returns the listening socket of the program. Blocks until the helper has created it, at most 30 s.
    ///
    /// # Errors
    /// The helper ended before, or the time is over.
    pub fn listener(self) -> io::Result<TcpListener> {
        self.socket.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
        Ok(crate::linux::receive(&self.socket)?.into())
    }
}

#[cfg(not(target_os = "linux"))]
impl ProxySocket {
    /// Fails: only Linux has network namespaces.
    ///
    /// # Errors
    /// Always.
    pub fn listener(self) -> io::Result<TcpListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
