//! Downloads that resume where they stopped.

use pinion_egress::{Client, Credentials, Policy, Request, RequestAccess, RequestLimits, Response, SendError};
use pinion_local_models::{ModelStore, PartialModel, StoreError};
use std::path::PathBuf;
use std::time::Duration;

/// Time for a whole download.
const TOTAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum bytes of a model.
const MAX_MODEL: u64 = 256 << 30;

/// A file that a download has to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadSource<'a> {
    /// The address.
    pub url: &'a str,
    /// The SHA-256 digest.
    pub sha256: &'a str,
    /// The size in bytes, where it is known before.
    pub bytes: Option<u64>,
}

/// A step of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadProgress {
    /// An earlier attempt left so many bytes.
    Resumed(u64),
    /// Bytes were written.
    Received {
        /// The bytes of the file so far.
        bytes: u64,
        /// The bytes of the whole file, if the server or the source says.
        total: Option<u64>,
    },
}

/// A download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The address is invalid.
    #[error("`{url}` is no address of a file")]
    Address {
        /// The address.
        url: String,
    },
    /// The server did not answer.
    #[error("no answer from `{url}`")]
    NoAnswer {
        /// The address.
        url: String,
        /// The cause.
        source: SendError,
    },
    /// The server does not send the file.
    #[error("`{url}` answered with status {status}")]
    Status {
        /// The address.
        url: String,
        /// The status of the response.
        status: u16,
    },
    /// The server sent another part of the file than the missing one.
    #[error("`{url}` does not continue at byte {start}")]
    Range {
        /// The address.
        url: String,
        /// The first missing byte.
        start: u64,
    },
    /// The server has a file of another size.
    #[error("`{url}` has {found} bytes, and not {expected}")]
    Size {
        /// The address.
        url: String,
        /// The size of the server's file.
        found: u64,
        /// The size that the source names.
        expected: u64,
    },
    /// The connection broke. The bytes so far stay on disk.
    #[error("the download of `{url}` broke off after {received} bytes")]
    Interrupted {
        /// The address.
        url: String,
        /// The bytes on disk.
        received: u64,
        /// The cause; `None` if the server just sent no more.
        source: Option<SendError>,
    },
    /// The file could not be stored: the disk is full, the digest is another one, or the file is no model.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Downloads a model, checks its digest, and puts it into the store. Resumes an earlier attempt.
///
/// # Errors
/// See [`DownloadError`]. After [`DownloadError::Interrupted`], another call continues.
pub async fn download(
    store: &ModelStore,
    name: &str,
    source: &DownloadSource<'_>,
    progress: &mut (dyn FnMut(DownloadProgress) + Send),
) -> Result<PathBuf, DownloadError> {
    let mut part = store.part(name, true)?;
    if part.length() > 0 {
        progress(DownloadProgress::Resumed(part.length()));
    }
    let url = || source.url.to_owned();
    let mut response = request(source.url, part.length()).await?;
    match response.status() {
        206 if starts_at(&response, part.length()) => {}
        206 => return Err(DownloadError::Range { url: url(), start: part.length() }),
        200 => part.restart()?,
        // The server has no more bytes: the file may be complete.
        416 if part.length() > 0 => return Ok(part.complete(Some(source.sha256))?),
        status => return Err(DownloadError::Status { url: url(), status }),
    }
    let announced = number(response.header("content-length")).map(|rest| rest.saturating_add(part.length()));
    if let (Some(found), Some(expected)) = (announced, source.bytes)
        && found != expected
    {
        return Err(DownloadError::Size { url: url(), found, expected });
    }
    let total = announced.or(source.bytes);
    if let Some(total) = total {
        store.require_space(total.saturating_sub(part.length()))?;
    }
    receive(&mut response, &mut part, source, total, progress).await?;
    Ok(part.complete(Some(source.sha256))?)
}

async fn receive(
    response: &mut Response,
    part: &mut PartialModel,
    source: &DownloadSource<'_>,
    total: Option<u64>,
    progress: &mut (dyn FnMut(DownloadProgress) + Send),
) -> Result<(), DownloadError> {
    let url = || source.url.to_owned();
    loop {
        let received = part.length();
        let interrupted = |source| DownloadError::Interrupted { url: url(), received, source };
        let Some(chunk) = response.chunk().await.map_err(|error| interrupted(Some(error)))? else {
            return match total.is_some_and(|total| received < total) {
                true => Err(interrupted(None)),
                false => Ok(()),
            };
        };
        let found = received.saturating_add(chunk.len() as u64);
        if let Some(expected) = source.bytes.filter(|expected| found > *expected) {
            part.restart()?;
            return Err(DownloadError::Size { url: url(), found, expected });
        }
        part.write(&chunk)?;
        progress(DownloadProgress::Received { bytes: part.length(), total });
    }
}

/// Asks for the bytes from `start` on. The server may be in a private network; a redirect leads to the public internet only.
async fn request(url: &str, start: u64) -> Result<Response, DownloadError> {
    let invalid = || DownloadError::Address { url: url.to_owned() };
    let parsed = url::Url::parse(url).map_err(|_| invalid())?;
    let origin = parsed.origin().ascii_serialization();
    let own = if parsed.domain().is_some() { format!("private {origin}") } else { origin };
    let rules = [own, "GET,HEAD *".to_owned()];
    let rules = rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>();
    let policy = Policy::new(rules.map_err(|_| invalid())?);
    let credentials = Credentials::default();
    let limits = RequestLimits { total: TOTAL, response_body: MAX_MODEL, ..RequestLimits::default() };
    let access = RequestAccess { limits, ..RequestAccess::new(&policy, &credentials) };
    let mut request = Request::new("GET", url);
    if start > 0 {
        request.headers.push(("range".to_owned(), format!("bytes={start}-").into_bytes()));
    }
    let sent = Client::default().send(request, &access).await;
    sent.map_err(|source| DownloadError::NoAnswer { url: url.to_owned(), source })
}

/// Returns whether a partial response begins at a byte, as its `content-range` says: `bytes 100-199/200`.
fn starts_at(response: &Response, start: u64) -> bool {
    let range = response.header("content-range").and_then(|range| range.strip_prefix(b"bytes "));
    let first = range.and_then(|range| range.split(|byte| *byte == b'-').next());
    number(first) == Some(start)
}

fn number(text: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(text?).ok()?.trim().parse().ok()
}
