//! The path from a program without a network to a proxy of its parent.
//!
//! The helper creates a listening socket in the program's network namespace and hands it to the parent, which accepts the
//! connections. Nothing else runs inside, and no connection passes through the file system. Programs that cannot use a
//! proxy by themselves reach it through a command that they start and talk to, as `ssh` does.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

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

/// First argument that makes a helper in the sandbox connect its standard streams to a host.
pub(crate) const CONNECT: &str = "connect-through-proxy";
/// Bytes of the proxy's answer.
const MAX_HEAD: usize = 16 * 1024;

/// Connects the standard streams to the host and the port in these arguments. Returns when one of them is closed.
///
/// # Errors
/// The proxy refuses it.
pub(crate) fn connect(mut arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut text = || arguments.next().and_then(|argument| argument.into_string().ok()).unwrap_or_default();
    let (host, port) = (text(), text());
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT));
    let streams = (io::stdin(), io::stdout());
    tunnel(proxy, &host, &port, streams.0, streams.1).map_err(|error| format!("could not connect to `{host}`: {error}"))
}

fn tunnel(
    proxy: SocketAddr,
    host: &str,
    port: &str,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> io::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_name) || port.parse::<u16>().is_err() {
        return Err(io::Error::other("not a host and a port"));
    }
    let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut stream = TcpStream::connect(proxy)?;
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
    let head = head(&mut stream)?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other(format!("the proxy answers `{status}`")));
    }
    let mut sending = stream.try_clone()?;
    // Ends with this process: it may wait for input forever.
    std::thread::Builder::new().spawn(move || {
        let _ = io::copy(&mut input, &mut sending);
        let _ = sending.shutdown(Shutdown::Write);
    })?;
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            length => {
                output.write_all(&bytes[..length])?;
                output.flush()?;
            }
        }
    }
}

/// Reads up to the end of an answer's head, and no byte more.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        if head.len() > MAX_HEAD {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Connects through a proxy with this answer, and returns its request and the output.
    fn through(answer: &'static str, host: &str) -> (String, io::Result<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = head(&mut stream).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            request + &rest
        });
        let mut output = Vec::new();
        let ended = tunnel(address, host, "22", &b"input"[..], &mut output);
        (proxy.join().unwrap(), ended.map(|()| output))
    }

    #[test]
    fn streams_are_connected_once_the_proxy_agrees() {
        let (request, output) = through("HTTP/1.1 200 OK\r\nX: y\r\n\r\nSSH-2.0\n", "git.example");
        assert_eq!(request, "CONNECT git.example:22 HTTP/1.1\r\nHost: git.example:22\r\n\r\ninput");
        assert_eq!(output.unwrap(), b"SSH-2.0\n");
        let (request, output) = through("HTTP/1.1 403 Forbidden\r\n\r\n", "::1");
        assert!(request.starts_with("CONNECT [::1]:22 ") && !request.contains("input"), "{request}");
        assert!(output.unwrap_err().to_string().contains("403 Forbidden"));
    }

    #[test]
    fn only_names_are_sent_to_the_proxy() {
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        for (host, port) in [("", "22"), ("a\r\nb", "22"), ("a b", "22"), ("a", "x"), ("a", "")] {
            let error = tunnel(proxy, host, port, io::empty(), io::sink()).unwrap_err().to_string();
            assert_eq!(error, "not a host and a port", "{host:?} {port:?}");
        }
    }
}
