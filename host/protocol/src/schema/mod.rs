//! Bounds on tool schemas, and on the work of validating arguments against them; repairs of both.
//!
//! `pinion-agent` compiles the schemas and validates arguments, within these bounds.

mod admission;
mod arguments;
mod lenient;
mod work;

pub use admission::{Measure, SchemaError, check_schema, compilable, measure};
pub use arguments::{followed_by_nothing_new, repaired, without_nulls};
pub use lenient::build_leniently;
pub use work::{MAX_NESTING, Size, is_bearable, is_plain, is_small};
