//! The imports: what the host does when a plugin calls it.
//!
//! Each file is one interface of `wit/`. Nothing here decides what is allowed: that is [`crate::capability`].

pub(crate) mod agents;
pub(crate) mod cancellation;
pub(crate) mod catalog;
pub(crate) mod files;
pub(crate) mod log;
pub(crate) mod log_line;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod stdio;
pub(crate) mod workspace;
pub(crate) mod written;

use crate::bindings::pinion::plugin as wit;
use crate::calls::state::State;
use crate::engine::Engine;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::filesystem as wasi_files;

/// All imports that there are. Whether one may be used is asked when it is called.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine.wasmtime());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    // Files once more, this time through the account.
    linker.allow_shadowing(true);
    wasi_files::types::add_to_linker::<State, files::Files<'_>>(&mut linker, files::Files::of)?;
    wasi_files::preopens::add_to_linker::<State, files::Files<'_>>(&mut linker, files::Files::of)?;
    linker.allow_shadowing(false);

    wit::types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::progress::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::cancellation::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::workspace::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::process::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::catalog::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::agents::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

impl wit::types::Host for State {}
