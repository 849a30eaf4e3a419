//! The host's side of the contract `pinion:plugin`: bindings, conversions of their types, and versions.
//!
//! [`bindings`] are generated from `wit/`. [`convert`], [`drawing_blocks`], [`mcp`] and [`workspace`] convert their types
//! from and to the types of the host, with the bounds that data of guests must keep, as `conversions` do
//! by implementing `From`; [`assignment_extra`] reads the settings that came after the contract was settled,
//! and `encoding` lets a journal contain the types. [`version`] decides which versions of the contract this host speaks.
//!
//! The imports themselves are implemented by the runtime, which checks the authority of each call.

pub mod assignment_extra;
pub mod bindings;
mod conversions;
pub mod convert;
pub mod drawing_blocks;
mod encoding;
pub mod mcp;
pub mod version;
pub mod workspace;
