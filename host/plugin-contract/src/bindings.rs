//! The host's side of the contract, generated from `wit/` when this crate is compiled.

#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::unwrap_used, clippy::expect_used)]

wasmtime::component::bindgen!({
    path: "wit",
    world: "plugin",
    imports: {
        default: async | trappable,
        // These never wait, and are called in inner loops.
        "pinion:plugin/log": trappable,
        "pinion:plugin/progress": trappable,
        "pinion:plugin/cancellation": trappable,
        "pinion:plugin/offers-host": trappable,
    },
    exports: { default: async },
    with: {
        "pinion:plugin/child-process.child": pinion_plugin_programs::ChildProgram,
    },
    require_store_data_send: true,
    additional_derives: [serde::Serialize],
    wasmtime_crate: pinion_plugin_journal::wasmtime_crate,
});

/// The host's side of the package `pinion:hooks`, generated from `wit/hooks/`.
pub mod hooks {
    wasmtime::component::bindgen!({
        path: "wit/hooks",
        world: "hooks",
        exports: { default: async },
        require_store_data_send: true,
        additional_derives: [serde::Serialize],
        wasmtime_crate: pinion_plugin_journal::wasmtime_crate,
    });
}
