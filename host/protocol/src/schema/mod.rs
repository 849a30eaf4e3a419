//! Bounds on tool schemas, and on the work of validating arguments against them.
//!
//! `pinion-agent` compiles the schemas and validates arguments, within these bounds.

mod admission;
mod plain;
mod work;

pub use admission::{Measure, SchemaError, check_schema, compilable, measure};
pub use plain::is_plain;
pub use work::{MAX_NESTING, Size, is_bearable};
