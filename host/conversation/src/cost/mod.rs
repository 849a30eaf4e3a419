//! The cost of turns: a line after each, and the pages of `/cost` and `pinion session cost`.

mod reasons;
mod tables;
mod turn_line;
mod warnings;

pub(crate) use self::reasons::reasons;
pub use self::tables::{CostGroup, cost_json, cost_table};
pub(crate) use self::turn_line::TurnMeter;
