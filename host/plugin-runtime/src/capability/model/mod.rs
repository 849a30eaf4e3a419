//! The capability `model`: completions by a model, within the limits of the run.

pub(crate) mod import;

use super::definition::{Capability, GrantContext, Switch};
use pinion_plugin_limits::Limits;
use pinion_protocol::{Authority, Ledger};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the models and the limit.
pub(crate) type Entry = Switch<ModelEntry>;
/// The models that may be asked; `None` when no models may.
pub(crate) type Grant = Option<ModelGrant>;

/// The narrowing form of the entry in a grants table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelEntry {
    /// Models besides the conversation's model, as `--model` accepts them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub models: BTreeSet<String>,
    /// Tokens that the plugin may use while the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// The models that a plugin may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelGrant {
    /// Models besides the conversation's model.
    pub models: BTreeSet<String>,
    /// Tokens that the plugin may use while the program runs; `None` for the limits of the run alone.
    pub max_tokens: Option<u64>,
}

/// The capability.
pub(crate) struct Model;

impl Capability for Model {
    const NAME: &'static str = "model";
    const INTERFACES: &'static [&'static str] = &["model"];
    const EFFECT: &'static str = "delegates";
    const FOR_COMMANDS: bool = false;
    const FOR_COMPLETIONS: bool = false;
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ModelGrant;
    type Account = ModelAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(Switch::Plain(true))
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        match entry {
            Switch::Plain(false) => None,
            Switch::Plain(true) => Some(ModelGrant::default()),
            Switch::With(ModelEntry { models, max_tokens }) => {
                Some(ModelGrant { models: models.clone(), max_tokens: *max_tokens })
            }
        }
    }

    fn held(grant: &Grant) -> Option<&ModelGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "ask models"
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { delegates: grant.is_some(), ..Authority::default() }
    }

    fn extent(grant: &Grant) -> Option<String> {
        grant.as_ref().map(|grant| {
            let models = match grant.models.is_empty() {
                true => String::new(),
                false => format!(": also {}", grant.models.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
            };
            let tokens = grant.max_tokens.map(|tokens| format!(", up to {tokens} tokens")).unwrap_or_default();
            format!("{models}{tokens}")
        })
    }
}

/// Requests that a call has made.
pub(crate) struct ModelAccount {
    requests: u64,
}

impl super::definition::CapabilityAccount for ModelAccount {
    fn open(_limits: &Limits) -> Self {
        Self { requests: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.requests > 0 {
            ledger.counts.insert("completion".to_owned(), self.requests);
        }
    }
}

/// Tokens that plugins have used, by name, while the program runs: a reload does not give any back.
#[derive(Debug, Default)]
pub(crate) struct UsedTokens(Mutex<HashMap<String, u64>>);

impl UsedTokens {
    /// Reserves up to `wanted` tokens within `limit`; `None` when no tokens are left.
    pub(crate) fn reserve(&self, plugin: &str, wanted: u64, limit: Option<u64>) -> Option<u64> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(plugin.to_owned()).or_default();
        let reserved = wanted.min(limit.map_or(u64::MAX, |limit| limit.saturating_sub(*used)));
        *used = used.saturating_add(reserved);
        (reserved > 0).then_some(reserved)
    }

    /// Replaces a reservation by the actual use.
    pub(crate) fn settle(&self, plugin: &str, reserved: u64, used_now: u64) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(plugin.to_owned()).or_default();
        *used = used.saturating_sub(reserved).saturating_add(used_now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_reserved_before_they_are_used() {
        let used = UsedTokens::default();
        assert_eq!(used.reserve("p", 60, Some(100)), Some(60));
        assert_eq!(used.reserve("p", 60, Some(100)), Some(40));
        assert_eq!(used.reserve("p", 60, Some(100)), None);
        assert_eq!(used.reserve("q", 60, Some(100)), Some(60));
        used.settle("p", 60, 10);
        assert_eq!(used.reserve("p", 90, Some(100)), Some(50));
        assert_eq!(used.reserve("p", 9, None), Some(9));
    }

    #[test]
    fn entry_names_models_and_tokens() {
        let entry = |text: &str| toml::from_str::<Table>(text).map(|table| table.model);
        let with = entry("model = { models = [\"a/b\"], max-tokens = 7 }").unwrap();
        assert!(matches!(with, Switch::With(ModelEntry { max_tokens: Some(7), .. })) && with.is_on());
        assert_eq!(entry("model = true").unwrap(), Switch::Plain(true));
        assert!(entry("model = { modles = [] }").is_err());
    }

    #[derive(Deserialize)]
    struct Table {
        model: Entry,
    }
}
