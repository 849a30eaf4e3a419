//! The import `secrets`.

use super::Secrets;
use crate::bindings::pinion::plugin::secrets;
use crate::calls::state::State;
use pinion_plugin_journal::linker::Linker;
use wasmtime::component::HasSelf;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    secrets::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl secrets::Host for State {
    async fn has(&mut self, name: String) -> wasmtime::Result<bool> {
        Ok(self.call.authority.check::<Secrets>().is_ok_and(|grant| grant.has(&name)))
    }
}
