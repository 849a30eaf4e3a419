//! `offers-host`: the sign that a plugin would list other tools or commands.

use crate::bindings::pinion::plugin::offers_host;
use crate::calls::state::State;

impl offers_host::Host for State {
    fn changed(&mut self) -> wasmtime::Result<()> {
        // At most one sign waits. The sign of a plugin that does not export `offers` is never awaited.
        self.changed.notify_one();
        Ok(())
    }
}
