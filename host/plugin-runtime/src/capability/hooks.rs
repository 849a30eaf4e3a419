//! The capability `hooks`: to be called before and after actions of the agent.
//!
//! It is the only capability without an import: the host checks it before it calls an export of the plugin.

use super::definition::{Capability, GrantContext, Switch};
use pinion_protocol::HookPoint;
use std::collections::BTreeSet;
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// `true`, `false`, or the points that call the plugin.
pub(crate) type Entry = Switch<BTreeSet<HookPoint>>;
/// The points that call the plugin; empty when it is not called.
pub(crate) type Grant = BTreeSet<HookPoint>;

/// The capability.
pub(crate) struct Hooks;

impl Capability for Hooks {
    const NAME: &'static str = "hooks";
    const INTERFACES: &'static [&'static str] = &[];
    const FORMS: &'static [&'static str] = &["hooks", "hooks=POINT,…"];
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = Grant;
    type Account = ();

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        let Some(value) = value else { return Some(Switch::Plain(true)) };
        value.split(',').map(|name| HookPoint::named(name.trim())).collect::<Option<_>>().map(Switch::With)
    }

    fn ask_for(entry: &Entry) -> Ask {
        entry.is_on()
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        match entry {
            Switch::Plain(false) => Grant::new(),
            Switch::Plain(true) => usual_points(),
            Switch::With(points) => points.clone(),
        }
    }

    fn held(grant: &Grant) -> Option<&Grant> {
        (!grant.is_empty()).then_some(grant)
    }

    fn phrase(_ask: Ask) -> &'static str {
        "see and restrict what the agent does: all tool calls with their input and results, your prompts, and the session"
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        match entry {
            Switch::Plain(false) => Vec::new(),
            Switch::Plain(true) => vec![Self::NAME.to_owned()],
            Switch::With(points) if points.is_empty() => Vec::new(),
            Switch::With(points) => vec![format!("{}={}", Self::NAME, listed(points, ","))],
        }
    }

    fn extent(grant: &Grant) -> Option<String> {
        let is_all = *grant == usual_points();
        Self::held(grant).map(|points| if is_all { String::new() } else { format!(": {}", listed(points, ", ")) })
    }

    fn widen(grant: &mut Grant, more: Grant) {
        grant.extend(more);
    }
}

/// Returns the points that the whole grant covers.
fn usual_points() -> Grant {
    HookPoint::ALL.into_iter().filter(|point| !point.needs_its_name()).collect()
}

fn listed(points: &BTreeSet<HookPoint>, separator: &str) -> String {
    points.iter().map(|point| point.name()).collect::<Vec<_>>().join(separator)
}

/// Hooks are exports, so there is nothing to import.
pub(crate) mod import {
    use crate::calls::state::State;
    use pinion_plugin_journal::linker::Linker;

    pub(crate) fn link(_linker: &mut Linker<State>) -> wasmtime::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_granted_together_or_by_name() {
        let granted = |text: &str| {
            let table: crate::GrantTable = toml::from_str(text).unwrap();
            table.hooks
        };
        assert_eq!(granted("hooks = true"), Switch::Plain(true));
        let some = granted(r#"hooks = ["before-prompt", "before-tool-call"]"#);
        assert_eq!(Hooks::spell_entry(&some), ["hooks=before-tool-call,before-prompt"]);
        assert_eq!(Hooks::parse(Some("before-tool-call,before-prompt"), Path::new("/w")), Some(some));
        assert_eq!(Hooks::parse(Some("before"), Path::new("/w")), None);
        assert!(toml::from_str::<crate::GrantTable>(r#"hooks = ["everything"]"#).is_err());
    }

    #[test]
    fn hook_that_spends_tokens_is_granted_by_its_name_alone() {
        let whole = usual_points();
        assert!(!whole.contains(&HookPoint::BeforeStop) && whole.contains(&HookPoint::AfterReply));
        let named = Hooks::parse(Some("before-stop,after-reply"), Path::new("/w")).unwrap();
        assert_eq!(Hooks::spell_entry(&named), ["hooks=before-stop,after-reply"]);
        assert_eq!(Hooks::extent(&whole), Some(String::new()));
    }

    #[test]
    fn empty_list_grants_nothing() {
        let empty: Grant = BTreeSet::new();
        assert_eq!((Hooks::held(&empty), Hooks::extent(&empty)), (None, None));
        assert!(Hooks::spell_entry(&Switch::With(empty)).is_empty());
    }
}
