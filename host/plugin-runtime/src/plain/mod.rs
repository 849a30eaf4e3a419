//! Components without an interface of `pinion:plugin`, whose functions of plain WIT types become tools.
//!
//! [`manifest`] stands in for the manifest that such a component lacks: its name is the name of its file, and [`asks`]
//! derives its capabilities from the functions of WASI that it imports. `pinion-plugin-functions` describes its functions
//! as tools, and converts arguments and results. [`call`] calls them.

pub(crate) mod asks;
pub(crate) mod call;
pub(crate) mod manifest;
