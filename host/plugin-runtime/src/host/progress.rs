//! `progress`: signs of life from a running call.

use crate::bindings::pinion::plugin::{progress, types};
use crate::calls::state::State;
use crate::host::clip;
use pinion_protocol::{Content, Image};

/// Longer lines are cut.
const MAX_LINE_BYTES: usize = 4096;
/// Parts of one result or update.
pub(crate) const MAX_PARTS: usize = 1000;
/// What a part counts besides its text or picture: about what it takes wherever it is kept or written.
const PART_BYTES: usize = 64;

impl progress::Host for State {
    fn report(&mut self, message: String) -> wasmtime::Result<()> {
        let line = clip(&message, MAX_LINE_BYTES).to_owned();
        if self.spend_output(line.len()).is_ok() {
            self.call.progress.report(line);
        }
        Ok(())
    }

    fn update(&mut self, partial: Vec<types::Content>) -> wasmtime::Result<()> {
        if self.spend_output(contents_bytes(&partial)).is_ok() {
            let parts = partial.into_iter().filter(|part| !is_empty(part)).take(MAX_PARTS);
            self.call.progress.update(parts.map(content).collect());
        }
        Ok(())
    }
}

pub(crate) fn content(part: types::Content) -> Content {
    match part {
        types::Content::Text(text) => Content::Text { text },
        types::Content::Image(image) => Content::Image(Image { media_type: image.media_type, data: image.data }),
    }
}

/// Returns what content counts against the output limit. The first part counts by its size alone.
pub(crate) fn contents_bytes(content: &[types::Content]) -> usize {
    let sizes: usize = content.iter().map(content_bytes).sum();
    sizes + PART_BYTES * content.len().saturating_sub(1)
}

fn content_bytes(part: &types::Content) -> usize {
    match part {
        types::Content::Text(text) => text.len(),
        types::Content::Image(image) => image.media_type.len() + image.data.len(),
    }
}

pub(crate) fn is_empty(part: &types::Content) -> bool {
    matches!(part, types::Content::Text(text) if text.is_empty())
}
