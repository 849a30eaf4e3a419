//! Information about models and spending, for plugins with the capability `catalog`.

use crate::model::Chosen;
use crate::model::plugin_budgets::PluginBudgets;
use pinion_agent::delegation::AgentKind;
use pinion_agent::spend_meter::SpendMeter;
use pinion_agent::{Agent, Message};
use pinion_plugin_runtime::{ActionInfo, AgentInfo, HostInfo, ModelInfo, Spent};
use pinion_providers::ModelTable;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The known models, the one in use, and the agent that accounts for spending.
pub struct SessionInfo {
    models: Arc<ModelTable>,
    agents: Vec<AgentInfo>,
    current: Mutex<String>,
    /// The models that may answer instead, `PROVIDER/MODEL`.
    fallbacks: Vec<String>,
    agent: OnceLock<Weak<Agent>>,
    actions: OnceLock<Vec<ActionInfo>>,
    budgets: PluginBudgets,
}

impl SessionInfo {
    /// Describes a session with this model.
    pub fn new(models: Arc<ModelTable>, kinds: &[AgentKind], chosen: &Chosen) -> Self {
        let info = |kind: &AgentKind| AgentInfo { name: kind.name.clone(), description: kind.description.clone() };
        let agents = kinds.iter().map(info).collect();
        let (current, fallbacks) = (Mutex::new(chosen.label.clone()), chosen.fallbacks.clone());
        Self {
            models,
            agents,
            current,
            fallbacks,
            agent: OnceLock::new(),
            actions: OnceLock::new(),
            budgets: PluginBudgets::default(),
        }
    }

    /// Sets the limits on the spend of plugins.
    #[must_use]
    pub(crate) fn with_budgets(self, budgets: PluginBudgets) -> Self {
        Self { budgets, ..self }
    }

    /// Sets the agent that accounts for spending. It is created after this, because its tools need this.
    pub fn watch(&self, agent: &Arc<Agent>) {
        // Set once, when a run is set up.
        let _ = self.agent.set(Arc::downgrade(agent));
    }

    /// Sets the actions that slash commands may name, in this form of conversation.
    pub fn offer(&self, actions: Vec<ActionInfo>) {
        // Set once, when a conversation begins.
        let _ = self.actions.set(actions);
    }

    /// Sets the label of the model after a change.
    pub fn set_model(&self, label: String) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = label;
    }

    /// `PROVIDER/MODEL`.
    pub fn model(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SessionInfo {
    /// Returns the model that wrote the last of these messages: a fallback, or else the one in use.
    pub fn answering(&self, messages: &[Arc<Message>]) -> String {
        let last = messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant(reply) => Some(reply.model.as_str()),
            _ => None,
        });
        // Vendors report different names, and replies of fallbacks have the names here.
        let fallback = self.fallbacks.iter().find(|label| Some(label.as_str()) == last);
        fallback.cloned().unwrap_or_else(|| self.model())
    }
}

impl HostInfo for SessionInfo {
    fn models(&self) -> Vec<ModelInfo> {
        let current = self.model();
        let mut names: Vec<String> =
            self.models.iter().map(|model| format!("{}/{}", model.provider, model.id)).collect();
        if !names.contains(&current) {
            names.insert(0, current.clone());
        }
        names.into_iter().map(|name| ModelInfo { current: name == current, name }).collect()
    }

    fn agents(&self) -> Vec<AgentInfo> {
        self.agents.clone()
    }

    fn actions(&self) -> Vec<ActionInfo> {
        self.actions.get().cloned().unwrap_or_default()
    }

    fn meters(&self, plugin: &str) -> Vec<Arc<dyn SpendMeter>> {
        self.budgets.meters(plugin)
    }

    fn spent(&self) -> Spent {
        let totals = self.agent.get().and_then(Weak::upgrade).map(|agent| agent.totals()).unwrap_or_default();
        Spent { requests: totals.requests, usage: totals.spend.usage, cost: totals.spend.cost }
    }
}
