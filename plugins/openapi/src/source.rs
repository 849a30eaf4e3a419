//! Where documents come from: files that the plugin may read, and URLs that it may reach.
//!
//! The document of a URL is kept, so that a start asks no server; `/openapi refresh` asks again.

use crate::document::{Document, MAX_BYTES};
use crate::settings::Api;
use pinion_plugin_sdk::http::Request;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::storage::{self, Scope};
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

/// Bytes of a stored value; the host accepts 1 MiB.
const PART: usize = 1_000_000;
/// The longest wait for a server, less than the host gives a list.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The record of a document from a URL, whose parts are under keys of their own.
#[derive(Serialize, Deserialize)]
struct Kept {
    url: String,
    parts: usize,
}

/// Whether a URL is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// Accepts a document that was kept.
    Any,
    New,
}

/// Reads the document of an interface.
///
/// # Errors
/// It cannot be read, or is none.
pub(crate) fn document(name: &str, api: &Api, age: Age) -> Result<Document, String> {
    let spec = api.spec.trim();
    let text = match spec.starts_with("https://") || spec.starts_with("http://") {
        true => of_url(name, spec, age),
        false => of_file(spec),
    };
    Document::read(&text?, api)
}

fn of_file(path: &str) -> Result<String, String> {
    // The host knows the cause, of which a plugin sees only that the file is missing.
    let failed = |error: std::io::Error| match why_unusable(path) {
        Some(why) => why,
        None => format!("`{path}` cannot be read: {error}"),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| format!("`{path}` is not text in UTF-8"))
}

#[cfg(target_arch = "wasm32")]
fn why_unusable(path: &str) -> Option<String> {
    use pinion_plugin_sdk::workspace::{WorkspaceError, note_read};
    match note_read(path) {
        Err(WorkspaceError::Io(why) | WorkspaceError::Denied(why)) => Some(why),
        _ => None,
    }
}

/// Tests have no host.
#[cfg(not(target_arch = "wasm32"))]
fn why_unusable(_path: &str) -> Option<String> {
    None
}

fn of_url(name: &str, url: &str, age: Age) -> Result<String, String> {
    if age == Age::Any
        && let Some(kept) = kept(name, url)
    {
        return Ok(kept);
    }
    let request = Request::get(url).header("accept", "application/json, application/yaml, */*;q=0.5");
    let response = request.timeout(TIMEOUT).max_body(MAX_BYTES as u32).send();
    let response = response.map_err(Error::from).and_then(|response| response.success()).map_err(words)?;
    let text = String::from_utf8(response.body).map_err(|_| format!("`{url}` is not text in UTF-8"))?;
    // Without the grant, each start asks the server.
    let _ = keep(name, url, &text);
    Ok(text)
}

fn kept(name: &str, url: &str) -> Option<String> {
    let kept: Kept = storage::get_json(Scope::Plugin, name).ok()??;
    let part = |at: usize| Some(storage::get(Scope::Plugin, &key(name, at)).ok()??.value);
    let parts: Option<Vec<Vec<u8>>> = (0..kept.parts).map(part).collect();
    String::from_utf8(parts?.concat()).ok().filter(|_| kept.url == url)
}

fn keep(name: &str, url: &str, text: &str) -> Result<()> {
    // Never a beginning of one document with the end of another.
    storage::remove(Scope::Plugin, name)?;
    let parts = text.as_bytes().chunks(PART);
    let count = parts.len();
    for (at, part) in parts.enumerate() {
        storage::set(Scope::Plugin, &key(name, at), part)?;
    }
    storage::set_json(Scope::Plugin, name, &Kept { url: url.to_owned(), parts: count })
}

fn key(name: &str, part: usize) -> String {
    format!("{name}/{part}")
}

/// Returns the text of an error.
pub(crate) fn words(error: Error) -> String {
    match error {
        Error::InvalidInput(text) | Error::NotFound(text) | Error::Denied(text) => text,
        Error::Failed { message, .. } => message,
        Error::Cancelled => "cancelled".to_owned(),
    }
}
