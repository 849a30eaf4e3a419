//! The imports that use files: `wasi:filesystem`, held to the grants, and `workspace`.

use crate::bindings::pinion::plugin::workspace;
use crate::calls::state::State;
use crate::host::files::WasiFiles;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::filesystem;

/// Replaces WASI's own files, which must be linked before.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    filesystem::types::add_to_linker::<State, WasiFiles<'_>>(linker, WasiFiles::for_state)?;
    filesystem::preopens::add_to_linker::<State, WasiFiles<'_>>(linker, WasiFiles::for_state)?;
    linker.allow_shadowing(false);
    workspace::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}
