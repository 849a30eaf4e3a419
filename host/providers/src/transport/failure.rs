//! Describes failed connections: the target of the request, the failure in words, and whether a retry can help.
//!
//! A refused certificate, a server without TLS, or one that does not speak HTTP fails the same way each time, so these
//! are [`ProviderError::Unreachable`]. Some causes look alike for a mistake and for an outage, such as an unknown host, or a
//! server on this machine that refuses connections: they are permanent until the first response of the process arrived
//! from there, and an outage after it.

use super::proxy::{ChosenProxy, is_loopback};
use jiff::Timestamp;
use pinion_protocol::ProviderError;
use reqwest::Url;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use std::error::Error;
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time that a server has to show that it speaks HTTP without TLS.
const PROBE: Duration = Duration::from_secs(2);

/// The destination of a request and the way to it.
pub(super) struct Route {
    host: String,
    port: u16,
    is_secure: bool,
    proxy: Option<ChosenProxy>,
}

impl Route {
    pub(super) fn new(url: &Url, proxy: Option<ChosenProxy>) -> Self {
        Self {
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or_default(),
            is_secure: url.scheme() == "https",
            proxy,
        }
    }

    /// Returns the host without the brackets of an IPv6 address.
    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns whether a server that did not answer a TLS handshake answers a request without TLS. The request contains
    /// nothing but the host.
    async fn speaks_plain_http(&self) -> bool {
        if !self.is_secure || self.proxy.is_some() {
            return false;
        }
        let asked = async {
            let mut stream = TcpStream::connect((self.bare_host(), self.port)).await?;
            stream.write_all(format!("HEAD / HTTP/1.1\r\nhost: {}\r\n\r\n", self.host).as_bytes()).await?;
            let mut start = [0; 5];
            stream.read_exact(&mut start).await?;
            io::Result::Ok(&start == b"HTTP/")
        };
        matches!(timeout(PROBE, asked).await, Ok(Ok(true)))
    }
}

/// Names host and port, and the proxy without its password.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}:{}`", self.host, self.port)?;
        match &self.proxy {
            Some(proxy) => write!(f, " through the proxy {proxy}"),
            None => Ok(()),
        }
    }
}

/// Converts the error of a request without a response. `was_reached` tells whether an earlier request to the same
/// provider got one.
pub(super) async fn of_request(error: reqwest::Error, route: &Route, was_reached: bool) -> ProviderError {
    let timed_out = error.is_timeout() && error.is_connect();
    if timed_out && route.speaks_plain_http().await {
        let message = format!("could not connect to {route}: the server speaks HTTP without TLS (use `http://`)");
        return permanent(message);
    }
    if timed_out {
        return network(format!("could not connect to {route} in time"));
    }
    let mut cause = cause_of(&error, route);
    if is_refused(&error) && route.proxy.is_none() && is_loopback(route.bare_host()) {
        cause = Cause { text: format!("{}; is the server running?", cause.text), retry: Retry::OnceReached };
    }
    let message = match error.is_connect() {
        true => format!("could not connect to {route}: {}", cause.text),
        false => format!("the connection to {route} broke: {}", cause.text),
    };
    match cause.retry {
        Retry::Never => permanent(message),
        Retry::OnceReached if !was_reached => permanent(message),
        Retry::OnceReached | Retry::Always => network(message),
    }
}

/// Converts an error in the middle of a response.
pub(super) fn of_response(error: reqwest::Error, route: &str) -> ProviderError {
    let cause = root_cause(&error.without_url());
    match ["gzip", "deflate", "corrupt", "compress"].iter().any(|word| cause.to_lowercase().contains(word)) {
        true => network(format!("could not decompress the response of {route}: {cause}")),
        false => network(format!("the connection to {route} broke: {cause}")),
    }
}

/// Returns the error for a response head that took longer than `limit`.
pub(super) fn late(route: &Route, limit: Duration) -> ProviderError {
    network(format!("no response from {route} within {} s", limit.as_secs()))
}

fn network(message: String) -> ProviderError {
    ProviderError::Network { message }
}

fn permanent(message: String) -> ProviderError {
    ProviderError::Unreachable { message }
}

/// The innermost cause of a failure.
struct Cause {
    text: String,
    retry: Retry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Always,
    /// Only after a successful request: until then, the URL is wrong or the server was never started.
    OnceReached,
    Never,
}

fn cause_of(error: &reqwest::Error, route: &Route) -> Cause {
    if let Some(error) = find_tls(error) {
        return Cause { text: tls_cause(error), retry: Retry::Never };
    }
    let text = root_cause(error);
    let has = |part: &str| text.contains(part);
    if has("tls handshake eof") {
        let text = "the server closed it in the TLS handshake (it may lack TLS 1.2 and 1.3, or TLS altogether)";
        Cause { text: text.to_owned(), retry: Retry::OnceReached }
    } else if has("failed to lookup address") {
        let retry = if has("emporary") { Retry::Always } else { Retry::OnceReached };
        Cause { text: format!("no address found for this host ({})", after_colon(&text)), retry }
    } else if has("proxy authorization required") {
        let has_user = route.proxy.as_ref().is_some_and(ChosenProxy::has_user);
        let text = match has_user {
            true => "the proxy rejected the user and password in its URL",
            false => "the proxy requires a user and password in its URL",
        };
        Cause { text: text.to_owned(), retry: Retry::Never }
    } else if has("tunnel error: unsuccessful") {
        Cause { text: "the proxy refused the connection".to_owned(), retry: Retry::Always }
    } else if has("invalid HTTP") || has("message head is too large") {
        Cause { text: format!("the response is not HTTP ({text})"), retry: Retry::Never }
    } else {
        Cause { text, retry: Retry::Always }
    }
}

fn after_colon(text: &str) -> &str {
    text.rsplit_once(": ").map_or(text, |(_, end)| end)
}

/// Returns whether a port without a listener is the cause.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let refused =
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    refused || error.source().is_some_and(is_refused)
}

/// Finds the TLS error among the causes. [`io::Error`] does not show the error that it wraps as its source.
fn find_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped
        .and_then(|inner| inner.downcast_ref())
        .or_else(|| error.downcast_ref())
        .or_else(|| wrapped.and_then(|inner| find_tls(inner)))
        .or_else(|| error.source().and_then(find_tls))
}

fn tls_cause(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate_cause(error),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS (use `http://` if that is intended)".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure)
        | rustls::Error::PeerIncompatible(_) => {
            format!("the server supports no TLS that is still secure ({error})")
        }
        error => format!("TLS failed: {error}"),
    }
}

fn certificate_cause(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "the server's certificate has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => {
            let (from, now) = (date(*not_before), date(*time));
            format!("the server's certificate is valid only from {from}, and this machine's clock says {now}")
        }
        CertificateError::NotValidForName => "the server's certificate belongs to another host".to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name)).collect();
            format!("the server's certificate belongs to another host ({})", names.join(", "))
        }
        CertificateError::UnknownIssuer => {
            "the issuer of the server's certificate is unknown (set `certificates` under `[providers.NAME]` to a PEM \
             file with it, if you trust it)"
                .to_owned()
        }
        CertificateError::Revoked => "the server's certificate was revoked".to_owned(),
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of an authority, not of a server".to_owned()
        }
        error => format!("the server's certificate is invalid: {error}"),
    }
}

/// Formats a day, in UTC.
fn date(time: UnixTime) -> String {
    let second = i64::try_from(time.as_secs()).ok().and_then(|second| Timestamp::from_second(second).ok());
    second.map_or_else(|| "an invalid date".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

/// Returns the message of the innermost cause, or of the error itself when it has no cause.
fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;

    #[test]
    fn certificate_errors_are_in_words_with_dates() {
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
        let said = |error| tls_cause(&rustls::Error::InvalidCertificate(error));
        let expired = CertificateError::ExpiredContext { time: at(20_000), not_after: at(19_723) };
        assert_eq!(said(expired), "the server's certificate expired on 2024-01-01");
        let early = CertificateError::NotValidYetContext { time: at(0), not_before: at(19_723) };
        assert!(said(early).ends_with("from 2024-01-01, and this machine's clock says 1970-01-01"));
        let expected = ServerName::try_from("a.example").unwrap();
        let other =
            CertificateError::NotValidForNameContext { expected, presented: vec!["DnsName(\"b.example\")".to_owned()] };
        assert_eq!(said(other), "the server's certificate belongs to another host (b.example)");
        assert_eq!(date(UnixTime::since_unix_epoch(Duration::MAX)), "an invalid date");
    }

    #[test]
    fn tls_error_is_found_inside_io_errors() {
        let inner = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
        let outer = io::Error::other(inner);
        assert_eq!(find_tls(&outer), Some(&rustls::Error::DecryptError));
        assert_eq!(find_tls(&io::Error::other("x")), None);
    }
}
