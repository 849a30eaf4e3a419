//! The journal of component calls: each call of an export, with every import that the component called meanwhile and the
//! value that the import returned. A component has no other input, so the journal is enough to repeat the calls offline.
//!
//! [`event`] has the entries, [`writer`] writes them on a separate thread, [`reader`] reads them, and [`difference`] names
//! the first difference between a recorded and a repeated call. The crate knows neither wasmtime nor plugins: values are
//! bytes, which the runtime encodes and decodes by the types of a component's imports. Values that the session's file has
//! are references into it (`session_references.rs`).

pub mod difference;
pub mod event;
mod long_matches;
pub mod reader;
mod session_references;
mod session_text;
#[cfg(test)]
mod tests;
pub mod writer;
