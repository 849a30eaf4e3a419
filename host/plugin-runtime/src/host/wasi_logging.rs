//! The import `wasi:logging`: lines of the plugin's log, under the bounds of `log`.

use crate::bindings::pinion::plugin::log::{Host as _, Level};
use crate::calls::state::State;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_journal::value::EncodeValue;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift};

/// The linked interfaces. The packages are drafts, whose versions are compared exactly.
pub(crate) const INTERFACES: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// The levels of the interface, in its order. Only calls of guests construct them.
#[derive(ComponentType, Lift, Clone, Copy)]
#[allow(dead_code, reason = "lifted from guests")]
#[component(enum)]
#[repr(u8)]
enum WasiLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl EncodeValue for WasiLevel {
    fn encode(&self, out: &mut Vec<u8>) {
        u64::from(*self as u8).encode(out);
    }
}

/// Links the interfaces. They need no grant, as `log`.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for interface in INTERFACES {
        let log = |mut store: StoreContextMut<'_, State>, (level, context, message): (WasiLevel, String, String)| {
            let line = if context.is_empty() { message } else { format!("{context}: {message}") };
            store.data_mut().log(own_level(level), line)
        };
        linker.instance(interface)?.func_wrap("log", log)?;
    }
    Ok(())
}

fn own_level(level: WasiLevel) -> Level {
    match level {
        WasiLevel::Trace => Level::Trace,
        WasiLevel::Debug => Level::Debug,
        WasiLevel::Info => Level::Info,
        WasiLevel::Warn => Level::Warn,
        WasiLevel::Error | WasiLevel::Critical => Level::Error,
    }
}
