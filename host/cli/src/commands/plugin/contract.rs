//! The contract with plugins and the templates of projects, which this program embeds.

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

/// The world of a new project.
pub(crate) const WORLD: &str = include_str!("../../../templates/world.wit");

/// The reference of the contract, which is generated from it.
pub(crate) const REFERENCE: &str = include_str!("../../../../../plugin-sdk/REFERENCE.md");
