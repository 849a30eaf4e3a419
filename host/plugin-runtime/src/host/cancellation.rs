//! `cancellation`: whether the call was cancelled.

use crate::bindings::pinion::plugin::cancellation;
use crate::calls::state::State;

impl cancellation::Host for State {
    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.call.deadline.token().is_cancelled())
    }
}
