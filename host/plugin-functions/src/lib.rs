//! Plain WIT functions as tools: types as JSON Schemas, arguments and results as JSON, signatures, doc comments.
//!
//! [`functions`] finds the exported functions in a compiled component and describes each as a tool, with a `schema` and a
//! `signature` of its types and the text that [`documentation`] has for it. [`arguments`] converts JSON into values of
//! the component model, and [`results`] converts values into JSON.
//!
//! A function whose types have no form in JSON, such as a resource, is skipped by name; its neighbours stay. Nothing here
//! calls a function or decides which capabilities a component gets.

pub mod arguments;
pub mod documentation;
pub mod functions;
pub mod results;
mod schema;
mod signature;
