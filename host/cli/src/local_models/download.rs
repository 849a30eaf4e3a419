//! Downloads of models, with their progress as notes.

use super::store_failure;
use pinion_app::failure::{Failure, Result};
use pinion_console::output::{bytes, note, text};
use pinion_local_models::ModelStore;
use pinion_model_downloads::{DownloadError, DownloadProgress, DownloadSource};
use std::path::PathBuf;

/// Number of parts of the whole; the end of each is reported.
const STEPS: u64 = 10;

/// Downloads a model, checks its digest, and puts it into the store.
///
/// # Errors
/// The server does not send the file, the file has another digest or is no model, or the disk is full.
pub(super) async fn download(store: &ModelStore, name: &str, source: &DownloadSource<'_>) -> Result<PathBuf> {
    let mut shown = 0;
    let mut show = |step| match step {
        DownloadProgress::Resumed(length) => note(&text!("resuming at {}", bytes(length))),
        DownloadProgress::Received { bytes: length, total } => {
            let reached = total.map_or(length >> 28, |total| length.saturating_mul(STEPS) / total.max(1));
            if reached <= shown {
                return;
            }
            shown = reached;
            match total {
                Some(total) => note(&text!("{} of {}", bytes(length), bytes(total))),
                None => note(&text!("{}", bytes(length))),
            }
        }
    };
    pinion_model_downloads::download(store, name, source, &mut show).await.map_err(download_failure)
}

/// Turns an error of a download into a failure of the command.
fn download_failure(error: DownloadError) -> Failure {
    let hint = match error {
        DownloadError::Store(error) => return store_failure(error),
        DownloadError::Interrupted { .. } => "run the command again: it resumes where it stopped",
        DownloadError::Range { .. } => "remove the part with `pinion model remove NAME`, and run the command again",
        DownloadError::Size { .. } => "the file changed since its size was recorded; name another source",
        DownloadError::Address { .. } | DownloadError::NoAnswer { .. } | DownloadError::Status { .. } => {
            return Failure::failed(error);
        }
    };
    Failure::failed(error).hint(hint)
}
