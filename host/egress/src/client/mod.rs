//! The client: each request and each redirect passes the same checks, in the same order.
//!
//! 1. The request is well formed ([`Outgoing::check`]).
//! 2. A rule covers its method and URL.
//! 3. Its credential may be sent there.
//! 4. The rules admit every address of the host.
//! 5. The connection goes to one of these addresses.
//!
//! Connections are not reused: one that was opened under one policy would serve a request under another.

pub(crate) mod exchange;

use self::exchange::{Connector, Received};
use crate::credential::{Credential, Credentials};
use crate::dial::{Network, SystemNetwork};
use crate::error::{ExchangeFailure, SendError};
use crate::limits::{Clock, RequestLimits};
use crate::observer::{ExchangeReport, Observer};
use crate::policy::{Denial, Policy};
use crate::request::{Outgoing, Redirects, Request};
use crate::response::Response;
use crate::tls::{InvalidCertificates, Tls};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, LOCATION};
use pinion_redact::Secrets;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Fields that another origin gets after a redirect. All other fields may be credentials, under any name.
const HARMLESS: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::RANGE,
    header::USER_AGENT,
];

/// Fields that describe a body.
const OF_BODY: &[HeaderName] = &[header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_TYPE];

/// Configuration of a [`Client`].
#[derive(Clone)]
pub struct ClientSettings {
    /// Certificate authorities besides the system's, as PEM. Empty by default.
    pub certificates: Vec<u8>,
    /// The resolver and the sockets. Defaults to [`SystemNetwork`].
    pub network: Arc<dyn Network>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self { certificates: Vec::new(), network: Arc::new(SystemNetwork) }
    }
}

/// The authority and the bounds of one request.
#[derive(Clone)]
pub struct RequestAccess<'a> {
    /// The rules of the plugin.
    pub policy: &'a Policy,
    /// The credentials that the plugin may use.
    pub credentials: &'a Credentials,
    /// The bounds.
    pub limits: RequestLimits,
    /// Receives a report for each exchange.
    pub observer: Option<Arc<dyn Observer>>,
    /// Ends the request, and the reading of its response.
    pub cancel: CancellationToken,
}

impl<'a> RequestAccess<'a> {
    /// Creates an access with the default limits, without credentials and observer.
    pub fn new(policy: &'a Policy, credentials: &'a Credentials) -> Self {
        Self { policy, credentials, limits: RequestLimits::default(), observer: None, cancel: CancellationToken::new() }
    }
}

/// Sends requests. Clones are cheap and share the configuration of TLS, which the first request over HTTPS loads.
#[derive(Clone)]
pub struct Client {
    connector: Arc<Connector>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Default for Client {
    /// Creates a client for the network and the certificate authorities of this machine.
    fn default() -> Self {
        let ClientSettings { network, .. } = ClientSettings::default();
        Self { connector: Arc::new(Connector::new(network, Tls::of_system())) }
    }
}

impl Client {
    /// Creates a client. Cheap: reads nothing and connects to nothing.
    ///
    /// # Errors
    /// The certificates are not PEM.
    pub fn new(settings: ClientSettings) -> Result<Self, InvalidCertificates> {
        let tls = Tls::new(&settings.certificates)?;
        Ok(Self { connector: Arc::new(Connector::new(settings.network, tls)) })
    }

    /// Sends a request, follows its redirects, and returns the head of the response. Dropping the future or the response
    /// closes the connection.
    ///
    /// # Errors
    /// See [`SendError`]. [`SendError::request_sent`] covers all exchanges of the request: it is `true` if any of its
    /// redirects may have been sent.
    pub async fn send(&self, request: Request, access: &RequestAccess<'_>) -> Result<Response, SendError> {
        let clock = Clock::start(access.limits.total, access.cancel.clone());
        let mut outgoing = Outgoing::check(&request, &access.limits).map_err(|failure| failure.sent(false))?;
        let report = |of: &Outgoing| ExchangeReport::new(access.observer.clone(), &of.method, &of.target);
        let mut credential = permitted(&request, &outgoing, access).map_err(|failure| {
            report(&outgoing).fail(&failure);
            failure.sent(false)
        })?;
        let mut followed = 0;
        // Secrets that the servers so far may know.
        let known = Secrets::default();
        loop {
            let mut report = report(&outgoing);
            access.credentials.add_known_to(&outgoing.target, &known);
            let hop = Hop { outgoing: &outgoing, credential, known: &known, access, clock: &clock };
            let done = self.follow(&hop, request.redirects, followed, &mut report).await;
            let (received, next) = done.map_err(|failure| {
                report.fail(&failure);
                failure.sent(followed > 0 || report.meter.has_sent())
            })?;
            let Some((next, keeps_credential)) = next else {
                return Response::new(received, &outgoing.target, &known, access, clock, report);
            };
            followed += 1;
            credential = credential.filter(|_| keeps_credential);
            outgoing = next;
        }
    }

    /// Performs one exchange. Returns the response, and the next request if it is a redirect to follow.
    async fn follow(
        &self,
        hop: &Hop<'_>,
        redirects: Redirects,
        followed: u8,
        report: &mut ExchangeReport,
    ) -> Result<(Received, Option<RedirectRequest>), ExchangeFailure> {
        let received = self.exchange(hop, report).await?;
        report.exchange.status = Some(received.status.as_u16());
        let next = match redirects.limit() {
            Some(limit) => hop.next(&received, followed, limit)?,
            None => None,
        };
        Ok((received, next))
    }

    async fn exchange(&self, hop: &Hop<'_>, report: &mut ExchangeReport) -> Result<Received, ExchangeFailure> {
        let Hop { outgoing, credential, access, clock, .. } = hop;
        let covering = access.policy.covering(&outgoing.method, &outgoing.target)?;
        let message = exchange::message(outgoing, *credential)?;
        let connecting = clock.within(access.limits.connect);
        let stream = self.connector.connect(&outgoing.target, &covering, &connecting, report).await?;
        report.exchange.credential = credential.map(|credential| credential.name().to_owned());
        exchange::exchange(stream, message, outgoing, &access.limits, clock).await
    }
}

/// Returns the credential of a request that a rule covers.
fn permitted<'a>(
    request: &Request,
    outgoing: &Outgoing,
    access: &RequestAccess<'a>,
) -> Result<Option<&'a Credential>, ExchangeFailure> {
    access.policy.check(&outgoing.method, &outgoing.target)?;
    request.credential.as_deref().map(|name| access.credentials.find_credential(name, outgoing)).transpose()
}

/// The request that a response redirects to, and whether the credential goes with it.
type RedirectRequest = (Outgoing, bool);

/// The request itself, or one of its redirects.
struct Hop<'a> {
    outgoing: &'a Outgoing,
    credential: Option<&'a Credential>,
    /// Secrets of the servers so far.
    known: &'a Secrets,
    access: &'a RequestAccess<'a>,
    clock: &'a Clock,
}

impl Hop<'_> {
    fn next(&self, received: &Received, followed: u8, limit: u8) -> Result<Option<RedirectRequest>, ExchangeFailure> {
        let Some(next) = redirected_request(received.status, &received.headers, self.outgoing)? else {
            return Ok(None);
        };
        if followed == limit {
            return Err(ExchangeFailure::Failed(format!(
                "`{}` redirects more than {limit} times",
                self.outgoing.target
            )));
        }
        let is_same_origin = next.target.has_origin_of(&self.outgoing.target);
        if !is_same_origin && self.known.are_in(next.target.as_str().as_bytes()) {
            // The name of the host may contain it.
            let origin = self.known.clean(&next.target.to_string()).into_owned();
            return Err(Denial::CredentialInRedirect { origin }.into());
        }
        let keeps = is_same_origin && self.credential.is_some_and(|one| one.is_for(&next.method, &next.target));
        Ok(Some((next, keeps)))
    }
}

/// Returns the request that a response redirects to, without fields that its server must not get; `None` if it is not a
/// redirect.
///
/// The method changes by the [Fetch standard](https://fetch.spec.whatwg.org/#http-redirect-fetch): 303 becomes a GET, as
/// does a POST after 301 and 302; 307 and 308 repeat method and body.
fn redirected_request(
    status: StatusCode,
    headers: &HeaderMap,
    from: &Outgoing,
) -> Result<Option<Outgoing>, ExchangeFailure> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(LOCATION).filter(|_| is_redirect) else { return Ok(None) };
    let invalid = || ExchangeFailure::Failed(format!("`{}` redirects to an invalid URL", from.target));
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| invalid())?;
    let target = from.target.join(location).map_err(|_| invalid())?;
    let becomes_get = match status.as_u16() {
        301 | 302 => from.method == "POST",
        303 => from.method != "GET" && from.method != "HEAD",
        _ => false,
    };
    let mut next =
        Outgoing { method: from.method.clone(), headers: from.headers.clone(), body: from.body.clone(), target };
    if becomes_get {
        next.method = "GET".to_owned();
        next.body.clear();
        OF_BODY.iter().for_each(|name| drop(next.headers.remove(name)));
    }
    if !next.target.has_origin_of(&from.target) {
        next.headers = HARMLESS
            .iter()
            .flat_map(|name| next.headers.get_all(name).iter().map(move |value| (name.clone(), value.clone())))
            .collect();
    }
    Ok(Some(next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn redirected(method: &str, status: u16, location: &str) -> Result<String, String> {
        let headers = [("content-type", "text/plain"), ("x-api-key", "secret"), ("accept", "*/*")];
        let request = Request {
            headers: headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into(),
            body: "body".into(),
            ..Request::new(method, "https://a.example/x/y?q")
        };
        let Ok(from) = Outgoing::check(&request, &RequestLimits::default()) else { panic!("the request is invalid") };
        let headers = [(LOCATION, HeaderValue::from_bytes(location.as_bytes()).unwrap())].into_iter().collect();
        let next = redirected_request(StatusCode::from_u16(status).unwrap(), &headers, &from);
        let next = next.map_err(|failure| failure.sent(true).to_string())?;
        Ok(next.map_or("none".to_owned(), |next| {
            let mut names: Vec<&str> = next.headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            format!("{} {} {} {}", next.method, next.target.as_str(), next.body.len(), names.join(","))
        }))
    }

    #[test]
    fn method_and_body_follow_the_status() {
        let all = "accept,content-type,x-api-key";
        for (method, status, expected) in [
            ("POST", 301, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("POST", 302, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("PUT", 302, format!("PUT https://a.example/x/z 4 {all}")),
            ("PUT", 303, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("HEAD", 303, format!("HEAD https://a.example/x/z 4 {all}")),
            ("POST", 307, format!("POST https://a.example/x/z 4 {all}")),
            ("DELETE", 308, format!("DELETE https://a.example/x/z 4 {all}")),
            ("GET", 304, "none".to_owned()),
            ("GET", 200, "none".to_owned()),
        ] {
            assert_eq!(redirected(method, status, "z"), Ok(expected), "{method} {status}");
        }
    }

    #[test]
    fn other_origin_gets_no_unknown_headers() {
        for location in ["//b.example/", "https://b.example/", "http://a.example/", "https://a.example:444/"] {
            let next = redirected("GET", 302, location).unwrap();
            assert!(next.ends_with(" 4 accept,content-type"), "{next}");
        }
        assert!(redirected("GET", 302, "https://A.EXAMPLE:443/").unwrap().ends_with("x-api-key"));
    }

    #[test]
    fn invalid_locations_are_not_followed() {
        for location in
            ["ftp://a.example/", "https://me@b.example/", "https://b.example\\@c.example", "/a b", "file:///"]
        {
            let error = redirected("GET", 302, location).unwrap_err();
            assert_eq!(error, "`https://a.example` redirects to an invalid URL", "{location}");
        }
    }
}
