//! The money that the sub-agents and the model requests of each plugin may cost.

use crate::config::file::FilePlugin;
use crate::model::daily_spend::{DIRECTORY, add_to_day};
use crate::model::exchanges::Exchanges;
use crate::workspace_base::Base;
use pinion_agent::outcome::Limit;
use pinion_agent::spend_meter::{CappedSpend, MeterLimit, SpendMeter};
use pinion_agent::usage::Spend;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The meters of the plugins that have a limit in the config.
#[derive(Default)]
pub(crate) struct PluginBudgets(BTreeMap<String, Vec<Arc<dyn SpendMeter>>>);

impl PluginBudgets {
    pub(crate) fn from_config(base: &Base) -> Self {
        let meters = |(name, section): (&String, &FilePlugin)| (name.clone(), meters(base, name, section));
        Self(base.config.plugins.iter().map(meters).filter(|(_, meters)| !meters.is_empty()).collect())
    }

    /// Returns the meters of a plugin.
    pub(crate) fn meters(&self, plugin: &str) -> Vec<Arc<dyn SpendMeter>> {
        self.0.get(plugin).cloned().unwrap_or_default()
    }
}

fn meters(base: &Base, name: &str, section: &FilePlugin) -> Vec<Arc<dyn SpendMeter>> {
    let mut meters: Vec<Arc<dyn SpendMeter>> = Vec::new();
    if let Some(max) = section.max_cost {
        meters.push(Arc::new(CappedSpend::new(Limit::Cost(max), format!("plugins.{name}.max-cost"))));
    }
    // No plugin has another name, and this one becomes a directory.
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if let Some(limit) = section.max_cost_per_day.filter(|_| is_name) {
        let directory = base.paths.data.join(DIRECTORY).join(name);
        let (setting, exchanges) = (format!("plugins.{name}.max-cost-per-day"), base.exchanges.clone());
        meters.push(Arc::new(DayMeter { limit, setting, directory, exchanges }));
    }
    meters
}

/// The sum of each day in all processes, in a file.
struct DayMeter {
    /// US dollars.
    limit: f64,
    setting: String,
    directory: PathBuf,
    exchanges: Exchanges,
}

impl fmt::Debug for DayMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DayMeter").field("setting", &self.setting).finish_non_exhaustive()
    }
}

impl DayMeter {
    fn sum(&self, dollars: f64) -> std::io::Result<f64> {
        add_to_day(&self.directory, &self.exchanges.date().to_string(), dollars)
    }
}

impl SpendMeter for DayMeter {
    fn add(&self, spend: Spend) {
        if spend.dollars() > 0.0
            && let Err(error) = self.sum(spend.dollars())
        {
            tracing::warn!(%error, setting = self.setting, "the money that a plugin spent is not counted");
        }
    }

    fn reached(&self) -> Option<MeterLimit> {
        let setting = match self.sum(0.0) {
            Ok(sum) if sum < self.limit => return None,
            Ok(_) => self.setting.clone(),
            // Without the sum, nothing more is spent.
            Err(error) => format!("{}; cannot read the sum: {error}", self.setting),
        };
        Some(MeterLimit { limit: Limit::Cost(self.limit), setting })
    }
}
