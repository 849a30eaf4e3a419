//! Models: the abilities and prices of each.

mod model;
mod table;

pub use model::{Caching, ChatTools, Effort, ModelSpec, ThinkingStyle};
pub(crate) use model::{level_budget, same_model};
pub use table::{ModelTable, ModelTableError};
