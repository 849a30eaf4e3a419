//! Downloads of models, which resume where they stopped.

use super::store_failure;
use pinion_app::failure::{Failure, Result};
use pinion_console::output::{bytes, note, text};
use pinion_egress::{Client, Credentials, Policy, Request, RequestAccess, RequestLimits, Response};
use pinion_local_models::{ModelStore, PartialModel};
use std::path::PathBuf;
use std::time::Duration;

/// Time for a whole download.
const TOTAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum bytes of a model.
const MAX_MODEL: u64 = 256 << 30;
/// Number of parts of the whole; the end of each is reported.
const STEPS: u64 = 10;

/// Downloads a model, checks its digest, and puts it into the store.
///
/// # Errors
/// The server does not send the file, the file has another digest or is no model, or the disk is full.
pub(super) async fn download(store: &ModelStore, name: &str, url: &str, digest: &str) -> Result<PathBuf> {
    let mut part = store.part(name, true).map_err(store_failure)?;
    if part.length() > 0 {
        note(&text!("resuming at {}", bytes(part.length())));
    }
    let mut response = request(url, part.length()).await?;
    match response.status() {
        206 if part.length() > 0 => {}
        200 => part.restart().map_err(store_failure)?,
        // The server has no more bytes: the file may be complete.
        416 => return part.complete(Some(digest)).map_err(store_failure),
        status => return Err(Failure::failed(format!("`{url}` answered with status {status}"))),
    }
    receive(&mut response, &mut part, url).await?;
    part.complete(Some(digest)).map_err(store_failure)
}

async fn receive(response: &mut Response, part: &mut PartialModel, url: &str) -> Result<()> {
    let rest = response.header("content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
    let total = rest.map(|rest| rest.saturating_add(part.length())).filter(|total| *total > 0);
    let step = |length: u64| total.map_or(length >> 28, |total| length.saturating_mul(STEPS) / total);
    let mut shown = step(part.length());
    let broken = |error| {
        Failure::failed(format!("the download of `{url}` broke off"))
            .because(error)
            .hint("run the command again: it resumes where it stopped")
    };
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        part.write(&chunk).map_err(store_failure)?;
        if step(part.length()) > shown {
            shown = step(part.length());
            match total {
                Some(total) => note(&text!("{} of {}", bytes(part.length()), bytes(total))),
                None => note(&text!("{}", bytes(part.length()))),
            }
        }
    }
    Ok(())
}

/// Asks for the bytes from `start` on. The server may be in a private network; a redirect leads to the public internet only.
async fn request(url: &str, start: u64) -> Result<Response> {
    let failed = || Failure::failed(format!("no answer from `{url}`"));
    let parsed = url::Url::parse(url).map_err(|error| failed().because(error))?;
    let origin = parsed.origin().ascii_serialization();
    let own = if parsed.domain().is_some() { format!("private {origin}") } else { origin };
    let rules = [own, "GET,HEAD *".to_owned()];
    let rules = rules.iter().map(|rule| rule.parse()).collect::<std::result::Result<_, _>>();
    let policy = Policy::new(rules.map_err(|error| failed().because(error))?);
    let credentials = Credentials::default();
    let limits = RequestLimits { total: TOTAL, response_body: MAX_MODEL, ..RequestLimits::default() };
    let access = RequestAccess { limits, ..RequestAccess::new(&policy, &credentials) };
    let mut request = Request::new("GET", url);
    if start > 0 {
        request.headers.push(("range".to_owned(), format!("bytes={start}-").into_bytes()));
    }
    Client::default().send(request, &access).await.map_err(|error| failed().because(error))
}
