//! Recordings of exchanges: written as a session runs, and played back instead of the network.

mod format;
mod playback;
mod recorder;

pub(crate) use format::RecordedRequest;
pub(crate) use playback::Played;
pub use playback::{Playback, PlaybackError, Recipient};
pub use recorder::Recorder;
