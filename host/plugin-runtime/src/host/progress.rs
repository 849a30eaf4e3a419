//! `progress`: signs of life from a running call.

use crate::bindings::pinion::plugin::{progress, types};
use crate::host::clip;
use crate::state::State;
use pinion_agent::{Content, Image};

/// Longer lines are cut.
const MAX_LINE_BYTES: usize = 4096;

impl progress::Host for State {
    fn report(&mut self, message: String) -> wasmtime::Result<()> {
        let line = clip(&message, MAX_LINE_BYTES).to_owned();
        if self.spend_output(line.len()).is_ok() {
            self.call.progress.report(line);
        }
        Ok(())
    }

    fn update(&mut self, partial: Vec<types::Content>) -> wasmtime::Result<()> {
        let size = partial.iter().map(content_bytes).sum();
        if self.spend_output(size).is_ok() {
            self.call.progress.update(partial.into_iter().map(content).collect());
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

pub(crate) fn content_bytes(part: &types::Content) -> usize {
    match part {
        types::Content::Text(text) => text.len(),
        types::Content::Image(image) => image.data.len(),
    }
}
