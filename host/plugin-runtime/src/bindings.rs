//! The host's side of the contract, generated from `wit/` when this crate is compiled.

#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::unwrap_used, clippy::expect_used)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "host",
    imports: {
        default: trappable,
        "pinion:plugin/workspace": async | trappable,
        "pinion:plugin/process": async | trappable,
        "pinion:plugin/agents": async | trappable,
    },
    exports: { default: async },
    require_store_data_send: true,
});
