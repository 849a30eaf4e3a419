//! Hooks are exports, so there is nothing to import.

use crate::calls::state::State;
use wasmtime::component::Linker;

pub(crate) fn link(_linker: &mut Linker<State>) -> wasmtime::Result<()> {
    Ok(())
}
