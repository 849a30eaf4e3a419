//! Errors of this crate that several modules share. They depend on nothing that loads or calls plugins.

pub(crate) mod fault;
