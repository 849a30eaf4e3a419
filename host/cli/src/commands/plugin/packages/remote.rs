//! Requests to web servers and registries: HTTPS, or HTTP on this machine, with bounds and without credentials.

use pinion_app::failure::{Failure, Result};
use pinion_egress::{Client, Credentials, Policy, Request, RequestAccess, RequestLimits};
use pinion_packages::shown_source;
use std::time::Duration;

/// Maximum bytes of a package, and of a small file such as a manifest.
const MAX_PACKAGE: u64 = 128 << 20;
pub(in crate::commands) const MAX_SMALL: u64 = 4 << 20;
/// Time for a whole request.
const TOTAL: Duration = Duration::from_secs(300);

/// A response with its status.
pub(super) struct RemoteAnswer {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Sends a request. Its own host may be one of a private network; a redirect leads only to the public internet.
pub(super) async fn send(request: Request, limit: Option<u64>) -> Result<RemoteAnswer> {
    let url = request.url.clone();
    let failed = || Failure::failed(format!("no answer from `{}`", shown_source(&url)));
    let limit = limit.unwrap_or(MAX_PACKAGE);
    let parsed = url::Url::parse(&url).map_err(|error| failed().because(error))?;
    let origin = parsed.origin().ascii_serialization();
    // A rule with an address covers it wherever it is.
    let own = if parsed.domain().is_some() { format!("private {origin}") } else { origin };
    let rules = [own, "GET,HEAD *".to_owned()];
    let rules = rules.iter().map(|rule| rule.parse()).collect::<std::result::Result<_, _>>();
    let policy = Policy::new(rules.map_err(|error| failed().because(error))?);
    let credentials = Credentials::default();
    let limits =
        RequestLimits { total: TOTAL, response_body: limit, request_body: MAX_PACKAGE, ..RequestLimits::default() };
    let access = RequestAccess { limits, ..RequestAccess::new(&policy, &credentials) };
    let response = Client::default().send(request, &access).await.map_err(|error| failed().because(error))?;
    let status = response.status();
    let location = response.header("location").and_then(|value| std::str::from_utf8(value).ok()).map(str::to_owned);
    let body = response.collect(limit).await.map_err(|error| failed().because(error))?;
    Ok(RemoteAnswer { status, location, body })
}

/// Gets a file.
///
/// # Errors
/// The server does not send it.
pub(in crate::commands) async fn get(url: &str, accept: Option<&str>, limit: Option<u64>) -> Result<Vec<u8>> {
    let mut request = Request::new("GET", url);
    request.headers.extend(accept.map(|kind| ("accept".to_owned(), kind.as_bytes().to_vec())));
    let answer = send(request, limit).await?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Failure::failed(format!("`{}` answered with status {status}", shown_source(url)))),
    }
}

/// Gets a small text that may be missing.
pub(super) async fn get_optional(url: &str) -> Result<Option<String>> {
    let answer = send(Request::new("GET", url), Some(MAX_SMALL)).await?;
    Ok((answer.status == 200).then(|| String::from_utf8(answer.body).ok()).flatten())
}
