//! The WebAssembly engine of plugins, and compiled code.
//!
//! An [`Engine`] is wasmtime with the settings of Pinion and a clock that interrupts guests. [`read_component`] reads the
//! file of a component. A [`Compiler`] compiles components in a child process within bounds of time and memory, with
//! [`Functions`] of earlier compiles. A [`CodeCache`] keeps compiled code, and the descriptions of plugins next to it,
//! under a seal.
//!
//! The crate links and calls nothing: it turns bytes into a compiled component.

mod cache;
mod compiler;
mod component_file;
mod engine;
mod entries;
mod functions;
mod image;

pub use cache::{CacheKey, CachedContent, CodeCache, CompilePermit, SourceName};
pub use compiler::{CompileError, CompiledCode, Compiler, compile_for_parent};
pub use component_file::{MAX_COMPONENT_BYTES, ReadError, read_component};
pub use engine::{Engine, EngineError, InterruptGuard};
pub use functions::{Functions, Sharing};
pub use image::create_images;
