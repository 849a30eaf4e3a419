//! The imports that use files: `wasi:filesystem`, held to the grants, and `workspace`.

use crate::bindings::pinion::plugin::workspace;
use crate::calls::state::State;
use crate::host::files::WasiFiles;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_journal::wasi::{RecordedStore as _, RecordedWasi};
use wasmtime::component::{HasData, HasSelf};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    link_files(linker.unrecorded())?;
    workspace::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

/// Marks the data of WASI's files.
struct RecordedFiles;

impl HasData for RecordedFiles {
    type Data<'a> = RecordedWasi<WasiFiles<'a>>;
}

fn of_state(state: &mut State) -> RecordedWasi<WasiFiles<'_>> {
    let recorder = state.recorder();
    RecordedWasi::new(WasiFiles::for_state(state), recorder)
}

/// Replaces WASI's own files, which must be linked before.
fn link_files(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<State, RecordedFiles>(linker, of_state)?;
    preopens::add_to_linker::<State, RecordedFiles>(linker, of_state)?;
    linker.allow_shadowing(false);
    Ok(())
}
