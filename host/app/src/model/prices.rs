//! The prices of replies, for the accounts of a run.

use pinion_agent::Usage;
use pinion_agent::usage::{Cost, PriceList};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prices of the model that answered: the first one or a fallback.
#[derive(Debug)]
pub(super) struct FallbackPrices {
    pub(super) first: Option<Arc<dyn PriceList>>,
    /// Prices of the fallbacks, by the model's name in a reply.
    pub(super) others: BTreeMap<String, Option<Arc<dyn PriceList>>>,
}

impl PriceList for FallbackPrices {
    fn cost(&self, model: &str, usage: &Usage) -> Option<Cost> {
        self.others.get(model).unwrap_or(&self.first).as_ref()?.cost(model, usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_is_charged_its_own_price() {
        use pinion_agent::usage::Prices;
        let prices = |input| -> Option<Arc<dyn PriceList>> { Some(Arc::new(Prices { input, ..Prices::default() })) };
        let others = BTreeMap::from([("b/small".to_owned(), prices(1.0)), ("c/free".to_owned(), None)]);
        let list = FallbackPrices { first: prices(10.0), others };
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let cost = |model| list.cost(model, &usage).map(|cost| cost.total());
        assert_eq!(["a-2026-01-01", "b/small", "c/free"].map(cost), [Some(10.0), Some(1.0), None]);
    }
}
