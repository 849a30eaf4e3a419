//! Which model is asked, and what is known of it.

use crate::usage::PriceList;
use std::sync::Arc;

/// A model.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Its name, as the provider knows it.
    pub name: String,
    /// What its tokens cost, where that is known.
    pub prices: Option<Arc<dyn PriceList>>,
    /// How many tokens it can look at, where that is known.
    pub context_window: Option<u64>,
}
