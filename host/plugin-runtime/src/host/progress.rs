//! `progress`: messages and partial results of a running call.

use crate::bindings::pinion::plugin::{progress, types};
use crate::calls::state::State;
use crate::convert::{self, MAX_PARTS, clip};

/// Bytes of one line; the rest is cut off.
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
        if self.spend_output(convert::contents_bytes(&partial)).is_ok() {
            let parts = partial.into_iter().filter(|part| !convert::is_empty(part)).take(MAX_PARTS);
            self.call.progress.update(parts.map(convert::content).collect());
        }
        Ok(())
    }
}
