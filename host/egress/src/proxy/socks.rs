//! SOCKS5 (RFC 1928), without authentication, and only to connect.

use super::{Connection, Refusal, RefusalKind, target_of};
use crate::target::RequestTarget;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// The first byte of every message.
pub(super) const VERSION: u8 = 5;
/// Methods of authentication.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
/// The name of the protocol in reports.
const NAME: &str = "SOCKS5";

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocksReply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    TimedOut = 6,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

/// The end of a handshake that did not name a target.
#[derive(Debug)]
enum Failed {
    /// The program is gone, or does not speak SOCKS5.
    Closed,
    /// It gets an answer.
    Answered(SocksReply),
    /// It named a host that has no or more than one reading.
    Malformed(String, u16, String),
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

pub(super) async fn serve(
    connection: &Arc<Connection>,
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let Ok(asked) = timeout(super::HEAD, handshake(&mut stream)).await else { return };
    let opened = match asked {
        Ok(target) => connection.tunnel(NAME, &target).await,
        Err(Failed::Closed) => return,
        Err(Failed::Answered(reply)) => {
            let _ = answer(&mut stream, reply).await;
            return;
        }
        Err(Failed::Malformed(host, port, reason)) => Err(connection.malformed(NAME, &host, port, &reason)),
    };
    match opened {
        Ok(tunnel) => {
            if answer(&mut stream, SocksReply::Succeeded).await.is_ok() {
                tunnel.serve(connection, stream).await;
            }
        }
        Err(Refusal { kind, .. }) => {
            let reply = match kind {
                RefusalKind::Malformed | RefusalKind::Denied => SocksReply::NotAllowed,
                RefusalKind::Failed => SocksReply::Failed,
                RefusalKind::TimedOut => SocksReply::TimedOut,
            };
            let _ = answer(&mut stream, reply).await;
        }
    }
}

/// Answers the greeting and reads the request. Reads not a byte more.
async fn handshake(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<RequestTarget, Failed> {
    let [version, count] = read(stream).await?;
    if version != VERSION {
        return Err(Failed::Closed);
    }
    let mut methods = vec![0; count.into()];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(Failed::Closed);
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, reserved, kind] = read(stream).await?;
    if version != VERSION || reserved != 0 {
        return Err(Failed::Answered(SocksReply::Failed));
    }
    if command != 1 {
        return Err(Failed::Answered(SocksReply::UnknownCommand));
    }
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(stream).await?).to_string().into_bytes(),
        4 => format!("[{}]", Ipv6Addr::from(read::<16>(stream).await?)).into_bytes(),
        3 => {
            let [length] = read(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            name
        }
        _ => return Err(Failed::Answered(SocksReply::UnknownAddress)),
    };
    let port = u16::from_be_bytes(read(stream).await?);
    let host = String::from_utf8_lossy(&host).into_owned();
    let malformed = |reason: String| Failed::Malformed(host.clone(), port, reason);
    // A name with a colon would bring a second port.
    if kind == 3 && host.contains([':', '[', ']']) {
        return Err(malformed("the host is no name".to_owned()));
    }
    target_of(&format!("{host}:{port}")).map_err(|error| malformed(error.to_string()))
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin), reply: SocksReply) -> io::Result<()> {
    // The address of the proxy's own end, which says nothing to a program.
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(request: &[u8]) -> Result<RequestTarget, Failed> {
        let mut bytes = vec![5, 1, 0];
        bytes.extend(request);
        read_all(&bytes)
    }

    fn read_all(bytes: &[u8]) -> Result<RequestTarget, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut stream = tokio::io::join(bytes, tokio::io::sink());
        runtime.block_on(handshake(&mut stream))
    }

    fn name(name: &[u8]) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name, &[1, 187]].concat()
    }

    #[test]
    fn names_and_addresses_are_read() {
        for (request, expected) in [
            (name(b"Crates.IO"), "http://crates.io:443"),
            (vec![5, 1, 0, 1, 1, 2, 3, 4, 0, 80], "http://1.2.3.4"),
            ([&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 22]].concat(), "http://[::1]:22"),
            (name(b"2130706433"), "http://127.0.0.1:443"),
        ] {
            assert_eq!(asked(&request).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn names_with_more_than_one_reading_are_refused() {
        for bytes in [
            &b"evil.example\0.crates.io"[..],
            b"crates.io\0",
            b"crates.io\r\n",
            b"me@crates.io",
            b"evil.example:80#.crates.io",
            b"evil.example:80",
            b"[::1]",
            b"crates.io/",
            b"cr%61tes.io",
            b"crates.io.",
            b"crates..io",
            b" crates.io",
            b"\xff\xfe",
            "crаtes.io".as_bytes(),
            b"",
        ] {
            assert!(matches!(asked(&name(bytes)), Err(Failed::Malformed(..))), "{bytes:?}");
        }
    }

    #[test]
    fn other_commands_kinds_and_versions_are_refused() {
        for (request, reply) in [
            (&[5, 2, 0, 1, 1, 2, 3, 4, 0, 80][..], SocksReply::UnknownCommand),
            (&[5, 3, 0, 1, 1, 2, 3, 4, 0, 80], SocksReply::UnknownCommand),
            (&[5, 1, 0, 2, 1, 2, 3, 4, 0, 80], SocksReply::UnknownAddress),
            (&[5, 1, 9, 1, 1, 2, 3, 4, 0, 80], SocksReply::Failed),
        ] {
            assert!(matches!(asked(request), Err(Failed::Answered(said)) if said == reply), "{request:?}");
        }
        for greeting in [&[4, 1, 0][..], &[5, 0], &[5, 1, 2], &[5], &[]] {
            assert!(matches!(read_all(greeting), Err(Failed::Closed)), "{greeting:?}");
        }
        assert!(matches!(asked(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0]), Err(Failed::Malformed(..))), "port 0");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = read_all(&bytes);
            if let Ok(target) = asked(&name(&bytes[..bytes.len().min(255)])) {
                let host = target.host();
                prop_assert!(host.chars().all(|c| c.is_ascii_graphic() && !"@/:\\%".contains(c)), "{}", host);
            }
        }
    }
}
