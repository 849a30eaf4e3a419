//! The imports that use files: `wasi:filesystem`, held to the grants, and `workspace`.

use crate::bindings::pinion::plugin::workspace;
use crate::calls::state::State;
use crate::host::files::Files;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::filesystem;

/// Replaces WASI's own files, which must be linked before.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    filesystem::types::add_to_linker::<State, Files<'_>>(linker, Files::of)?;
    filesystem::preopens::add_to_linker::<State, Files<'_>>(linker, Files::of)?;
    linker.allow_shadowing(false);
    workspace::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}
