//! The imports that use files: `wasi:filesystem`, held to the grants, and `workspace`.

use crate::bindings::pinion::plugin::workspace;
use crate::calls::state::State;
use crate::journal::linker::Linker;
use crate::journal::wasi_files;
use wasmtime::component::HasSelf;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasi_files::link(linker.unrecorded())?;
    workspace::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}
