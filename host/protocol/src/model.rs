//! The model that a run uses.

use crate::usage::PriceList;
use std::sync::Arc;

/// A model, with the facts about it that the agent loop needs.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The provider's name for the model.
    pub name: String,
    /// Price list; `None` when the prices are unknown, so that runs have no cost.
    pub prices: Option<Arc<dyn PriceList>>,
    /// Maximum tokens of a request: the context window, or the limit on input where that is lower; `None` when it is
    /// unknown.
    pub context_window: Option<u64>,
}
