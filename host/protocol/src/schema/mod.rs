//! Bounds on the schemas of tools, and on the work of checking arguments against them.
//!
//! Compiling a schema and validating against it is the loop's: `pinion-agent` does that with these bounds.

mod admission;
mod work;

pub use admission::{Measure, SchemaError, check_schema, compilable, measure};
pub use work::{MAX_NESTING, Size, is_bearable};
