//! Calls of plugins in the journal: a linker that records them, and their repetition without a host.
//!
//! Two places see everything that a component can observe. [`linker`] stands between the generated bindings and wasmtime's
//! linker, so that each import of the contract is recorded without code for it; [`wasi`] and `wasi_files` wrap
//! WASI's imports, whose bindings belong to wasmtime. Both demand [`value::EncodeValue`] of all arguments and results: an
//! import whose values cannot be recorded does not compile. [`recorder`] collects the imports of a call.
//! [`replay`] repeats calls from a journal, by the types in the component alone.
//!
//! `pinion-journal` has the entries, their writer and their reader; this crate fills them. It does not know which imports a
//! host has, and decides about no call.

pub mod linker;
pub mod recorder;
pub mod replay;
pub mod value;
pub mod wasi;
mod wasi_files;

/// The crate that the generated bindings use in place of `wasmtime`: the same with a linker that records.
pub mod wasmtime_crate {
    pub use wasmtime::*;

    /// The component model, with the linker that records.
    pub mod component {
        pub use crate::linker::{Linker, LinkerInstance};
        pub use wasmtime::component::*;
    }
}
