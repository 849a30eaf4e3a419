//! Tools and commands that plugins list: their forms, the bounds on them, and the checks before they are used.
//!
//! [`offer`] has a plugin's list as the plugin wrote it, independent of the generated bindings. [`wording`] bounds its
//! texts, [`names`] its names, and `tool_extra` the parts that only clients of a server see. [`extra_members`] names the
//! parts that the published schemas do not have. [`lists`] has the result: tools and commands that can be offered to a
//! model and to the user.
//!
//! Nothing here runs a plugin, or decides about grants: the caller says which of the declared effects a tool may have.

pub mod extra_members;
pub mod lists;
pub mod names;
pub mod offer;
mod tool_extra;
pub mod wording;

pub use tool_extra::Served;
