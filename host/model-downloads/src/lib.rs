//! Downloads of language models that run in this process.
//!
//! [`PRESETS`] lists known models, each as a file with its size and digest. [`download()`] fetches one into a
//! [`ModelStore`](pinion_local_models::ModelStore), and resumes where an earlier attempt stopped.

mod download;
mod presets;

pub use download::{DownloadError, DownloadProgress, DownloadSource, download};
pub use presets::{ModelPreset, PRESETS, find_preset};
