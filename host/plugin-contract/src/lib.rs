//! The host's side of the contract `pinion:plugin`: bindings, conversions of their types, and versions.
//!
//! [`bindings`] are generated from `wit/`. [`convert`] and [`workspace`] convert their types from and to the types of the
//! host, with the bounds that results of guests must keep, as `programs`, `questions` and `storage` do by implementing
//! `From`; `encoding` lets a journal contain them. [`version`] decides which versions of the contract this host speaks.
//!
//! The imports themselves are implemented by the runtime, which checks the authority of each call.

pub mod bindings;
pub mod convert;
mod encoding;
mod programs;
mod questions;
mod storage;
pub mod version;
pub mod workspace;
