//! Turning the bytes of a component into a generation that can be called.
//!
//! [`source`] and [`component_file`] read the bytes; [`weight`] and [`wording`] bound what they may hold; [`compiler`]
//! compiles them in a child process, with what [`functions`] has of earlier ones, and [`cache`] keeps the result; [`describe`] asks the plugin what it offers, [`lists`]
//! checks the answer, and [`described`] and [`last_offer`] remember it; and [`generation`] goes through these steps.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod compiler;
pub(crate) mod component_file;
pub(crate) mod describe;
pub(crate) mod described;
mod evict;
pub(crate) mod functions;
pub(crate) mod generation;
pub(crate) mod identity;
pub(crate) mod last_offer;
pub(crate) mod lists;
pub(crate) mod offer;
pub(crate) mod program;
pub(crate) mod settings;
pub(crate) mod source;
pub(crate) mod stamp;
pub(crate) mod weight;
pub(crate) mod wording;

use crate::errors::load::LoadError;
use tokio::task::spawn_blocking;

/// Runs a step of loading on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    spawn_blocking(step).await.unwrap_or_else(|error| Err(LoadError::link("a step of loading did not end", error)))
}
