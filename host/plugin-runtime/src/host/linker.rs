//! The linker with all imports. Each import checks the call's authority when it is called.

use crate::bindings::pinion::plugin as wit;
use crate::calls::state::State;
use crate::capability;
use crate::capability::with_capabilities;
use crate::host::{open_interfaces, wasi_config};
use pinion_plugin_engine::Engine;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_journal::wasi::{self, RecordedStore as _};
use wasmtime::component::HasSelf;

/// Links WASI, the interfaces that need no grant, and each capability's interfaces.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<wasmtime::component::Linker<State>> {
    let mut linker = wasmtime::component::Linker::new(engine.wasmtime());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasi::link(&mut linker)?;
    let mut linker = Linker::new(linker, |state: &State| state.recorder());
    wit::types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::progress::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::cancellation::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::settings::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::questions::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wit::offers_host::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wasi_config::link(&mut linker)?;
    open_interfaces::link_wasi_logging(&mut linker)?;
    link_capabilities(&mut linker)?;
    Ok(linker.into_inner())
}

macro_rules! link {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        fn link_capabilities(linker: &mut Linker<State>) -> wasmtime::Result<()> {
            $($(#[$cfg])? capability::$name::import::link(linker)?;)+
            Ok(())
        }
    };
}
with_capabilities!(link);

impl wit::types::Host for State {}
