//! The address on this machine that a login page redirects to.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Host, Url};

/// Maximum bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// Limit on one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum connections at a time.
const MAX_CONNECTIONS: usize = 16;

const DONE: &str = "<!doctype html><title>Pinion</title><p>Pinion received the login. You can close this window.</p>";
const UNKNOWN: &str = "<!doctype html><title>Pinion</title><p>No login waits for this address.</p>";

/// Listens on loopback for one redirect, which ends a login.
///
/// A secret, which only the login page knows, tells it from requests of other pages: a state in the query, as in OAuth, or
/// the path.
#[derive(Debug)]
pub struct Redirect {
    listener: TcpListener,
    /// For a name that browsers take for an address of version 6.
    other: Option<TcpListener>,
    /// The address for the login page.
    pub address: Url,
}

impl Redirect {
    /// Binds a port of `http://127.0.0.1:PORT/PATH`; `None` lets the system choose. The path begins with `/`.
    ///
    /// # Errors
    /// The port is taken, or the system has no free port.
    pub async fn bind(port: Option<u16>, path: &str) -> io::Result<Self> {
        let address = Url::parse(&format!("http://127.0.0.1{path}")).map_err(io::Error::other)?;
        Self::at(&address, port).await
    }

    /// Binds the port of an address of this machine, or this one if the address has no port, or else one that the
    /// system chooses.
    ///
    /// # Errors
    /// The port is taken, or the system has no free port.
    pub async fn at(address: &Url, port: Option<u16>) -> io::Result<Self> {
        let port = address.port().or(port).unwrap_or(0);
        let listener = match address.host() {
            Some(Host::Ipv6(_)) => TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await?,
            _ => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?,
        };
        let mut address = address.clone();
        let port = listener.local_addr()?.port();
        address.set_port(Some(port)).map_err(|()| io::Error::other("the address takes no port"))?;
        let other = match address.host() {
            // A machine without version 6 has no second address of the name.
            Some(Host::Domain(_)) => TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok(),
            _ => None,
        };
        Ok(Self { listener, other, address })
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = match &self.other {
            Some(other) => tokio::select! {
                accepted = self.listener.accept() => accepted?,
                accepted = other.accept() => accepted?,
            },
            None => self.listener.accept().await?,
        };
        Ok(stream)
    }

    /// Waits for the redirect, whose parameter `state` has this value if there is one. Other requests are answered and
    /// ignored, so that no web page can end the login.
    ///
    /// # Errors
    /// The system accepts no connection.
    pub async fn wait(&self, state: Option<&str>) -> io::Result<Url> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.accept(), if connections.len() < MAX_CONNECTIONS => {
                    connections.spawn(timeout(TIMEOUT, answer(accepted?, self.address.clone(), state.map(str::to_owned))));
                }
                Some(done) = connections.join_next() => {
                    if let Ok(Ok(Ok(Some(url)))) = done {
                        return Ok(url);
                    }
                }
            }
        }
    }

    /// Returns the address that a user copied from the browser, if it is the redirect.
    pub fn entered(&self, text: &str, state: Option<&str>) -> Option<Url> {
        belongs(text.trim(), &self.address, state)
    }
}

async fn answer(mut stream: TcpStream, address: Url, state: Option<String>) -> io::Result<Option<Url>> {
    let mut head = Vec::new();
    let mut buffer = [0; 2 << 10];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await?;
        if read == 0 || head.len() + read > MAX_HEAD {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..read]);
    }
    let target = std::str::from_utf8(&head).ok().and_then(|head| {
        let line = head.lines().next()?;
        line.strip_prefix("GET ")?.split(' ').next()
    });
    let url = target.and_then(|target| belongs(target, &address, state.as_deref()));
    let (status, body) = if url.is_some() { ("200 OK", DONE) } else { ("404 Not Found", UNKNOWN) };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(url)
}

/// Returns the address of a request, if it is the redirect of the login with this state.
fn belongs(target: &str, address: &Url, state: Option<&str>) -> Option<Url> {
    let url = address.join(target).ok()?;
    // The same port of this machine has other names, too.
    let is_ours = url.port() == address.port() && is_this_machine(&url) && url.path() == address.path();
    let has_state = |state: &str| url.query_pairs().any(|(name, value)| name == "state" && value == state);
    (is_ours && state.is_none_or(has_state)).then_some(url)
}

fn is_this_machine(url: &Url) -> bool {
    url.scheme() == "http" && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: &Url, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", address.port().unwrap())).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn forged_redirects_do_not_end_the_login() {
        let redirect = Redirect::bind(None, "/callback").await.unwrap();
        let address = redirect.address.clone();
        let waiting = tokio::spawn(async move { redirect.wait(Some("right")).await.unwrap() });
        for target in
            ["/favicon.ico", "/callback?code=1&state=wrong", "/callback?code=1", "//evil/callback?state=right"]
        {
            assert!(get(&address, target).await.starts_with("HTTP/1.1 404"), "{target}");
        }
        assert!(get(&address, "/callback?code=abc&state=right").await.starts_with("HTTP/1.1 200"));
        assert_eq!(waiting.await.unwrap().query(), Some("code=abc&state=right"));
    }

    #[tokio::test]
    async fn address_of_a_registered_client_is_used_as_it_is() {
        let registered = Url::parse("http://localhost/oauth/callback").unwrap();
        let redirect = Redirect::at(&registered, None).await.unwrap();
        let address = redirect.address.clone();
        let port = address.port().unwrap();
        assert_eq!(address.as_str(), format!("http://localhost:{port}/oauth/callback"));
        let taken = Redirect::at(&address, None).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let waiting = tokio::spawn(async move { redirect.wait(Some("s")).await.unwrap() });
        assert!(get(&address, "/callback?code=1&state=s").await.starts_with("HTTP/1.1 404"));
        assert!(get(&address, "/oauth/callback?code=1&state=s").await.starts_with("HTTP/1.1 200"));
        assert_eq!(waiting.await.unwrap().query(), Some("code=1&state=s"));
    }

    #[tokio::test]
    async fn secret_path_tells_a_redirect_from_forged_ones() {
        let redirect = Redirect::bind(None, "/callback/secret").await.unwrap();
        let address = redirect.address.clone();
        let port = address.port().unwrap();
        for (entered, is_ours) in [
            (format!(" http://localhost:{port}/callback/secret?code=1\n"), true),
            (format!("http://127.0.0.1:{port}/callback/secret?code=1"), true),
            (format!("http://evil.example:{port}/callback/secret?code=1"), false),
            (format!("http://localhost:{port}/callback/other?code=1"), false),
            ("http://localhost:1/callback/secret?code=1".to_owned(), false),
        ] {
            assert_eq!(redirect.entered(&entered, None).is_some(), is_ours, "{entered}");
        }
        let waiting = tokio::spawn(async move { redirect.wait(None).await.unwrap() });
        assert!(get(&address, "/callback?code=1").await.starts_with("HTTP/1.1 404"));
        assert!(get(&address, "/callback/secret?code=abc").await.starts_with("HTTP/1.1 200"));
        assert_eq!(waiting.await.unwrap().query(), Some("code=abc"));
    }
}
