//! Accounts for the requests of all models.

use crate::model::Chosen;
use crate::workspace_base::Base;
use pinion_agent::Agent;
use pinion_attribution::AttributedProvider;
use std::sync::Arc;

impl Base {
    /// Lets the ledger of requests watch a model.
    pub(super) fn attributed(&self, mut chosen: Chosen) -> Chosen {
        let prices = chosen.model.prices.clone();
        chosen.provider = Arc::new(AttributedProvider::new(chosen.provider, self.requests.clone(), prices));
        chosen
    }
}

/// Returns the id by which the ledger of requests knows the conversation of an agent.
pub fn conversation_id(agent: &Agent) -> String {
    agent.config().policy.options.session_id.unwrap_or_default()
}
