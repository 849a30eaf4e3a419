//! Recording calls in a journal.
//!
//! Two places see everything that a component can observe. [`linker`] stands between the generated bindings and wasmtime's
//! linker, so that each import of the contract is recorded without code for it; [`wasi`] and [`wasi_files`] wrap
//! WASI's imports, whose bindings belong to wasmtime. Both demand [`value::EncodeValue`] of all arguments and results: an
//! import whose values cannot be recorded does not compile. [`recorder`] collects the imports of a call.
//! [`crate::replay`] repeats calls from a journal, by the types in the component alone.

pub(crate) mod linker;
pub(crate) mod recorder;
pub(crate) mod value;
pub(crate) mod wasi;
pub(crate) mod wasi_files;

/// The crate that the generated bindings use in place of `wasmtime`: the same with a linker that records.
pub(crate) mod wasmtime_crate {
    pub(crate) use wasmtime::*;

    pub(crate) mod component {
        pub(crate) use crate::journal::linker::{Linker, LinkerInstance};
        pub(crate) use wasmtime::component::*;
    }
}
