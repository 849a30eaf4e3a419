//! Components without an interface of `pinion:plugin`, whose functions of plain WIT types become tools.
//!
//! [`manifest`] stands in for the manifest that such a component lacks: its name is the name of its file, and [`asks`]
//! derives its capabilities from the functions of WASI that it imports. [`functions`] finds the exported functions in
//! the compiled component and describes each as a tool, with a [`schema`] and a [`signature`] of its types and the text
//! that [`documentation`] has for it. [`call`] converts [`arguments`] into values of the component model, and
//! [`results`] into JSON.
//!
//! A function whose types have no form in JSON, such as a resource, is skipped by name; its neighbours stay.

mod arguments;
mod asks;
pub(crate) mod call;
pub(crate) mod documentation;
pub(crate) mod functions;
pub(crate) mod manifest;
mod results;
mod schema;
mod signature;
