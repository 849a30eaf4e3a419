//! The capability `secrets`: credentials that a plugin uses by name and never reads.
//!
//! The application defines secrets ([`SecretSource`]), and the user grants their names. `has` is all that the import
//! `secrets` offers; the imports `process` and `http` insert the values, which they get from the [`SecretsGrant`] of the
//! call.

mod ask;
pub(crate) mod import;
pub(crate) mod source;

pub use self::ask::SecretsAsk;
pub use self::source::{NoSecrets, SecretError, SecretPlacement, SecretRequests, SecretSource};

use super::authority::CallAuthority;
use super::definition::{Capability, GrantContext};
use crate::capability::authority::Denied;
use pinion_protocol::text::one_line;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the longest name.
const MAX_NAME: usize = 64;

/// The secrets that a manifest asks for.
pub(crate) type Ask = SecretsAsk;
/// The names of the secrets.
pub(crate) type Entry = BTreeSet<String>;
/// The secrets; `None` without any.
pub(crate) type Grant = Option<SecretsGrant>;

/// The secrets that a plugin may use.
#[derive(Debug, Clone)]
pub struct SecretsGrant {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Their values.
    pub source: Arc<dyn SecretSource>,
}

impl PartialEq for SecretsGrant {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && Arc::ptr_eq(&self.source, &other.source)
    }
}

impl Eq for SecretsGrant {}

impl SecretsGrant {
    /// Returns whether a secret is granted and has a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name) && self.source.has(name)
    }
}

/// The capability.
pub(crate) struct Secrets;

impl Secrets {
    /// Returns the grant of a call if it covers a secret.
    ///
    /// # Errors
    /// The refusal, with a hint that says how the user can grant it.
    pub(crate) fn granted<'a>(authority: &'a CallAuthority, name: &str) -> Result<&'a SecretsGrant, Denied> {
        let granted = authority.check::<Self>().ok().filter(|grant| grant.names.contains(name));
        granted.ok_or_else(|| {
            let name = one_line(name, MAX_NAME);
            // The line replaces the one in the config.
            let mut names = authority.check::<Self>().map(|grant| grant.names.clone()).unwrap_or_default();
            names.insert(name.to_string());
            authority.not_granted(
                &format!("use the secret `{name}`"),
                &format!("secrets = {:?}", names.into_iter().collect::<Vec<_>>()),
            )
        })
    }
}

impl Capability for Secrets {
    const NAME: &'static str = "secrets";
    const INTERFACES: &'static [&'static str] = &["secrets"];
    const FORMS: &'static [&'static str] = &["secrets=NAME"];
    const MOST: Ask = Ask::Any;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = SecretsGrant;
    type Account = ();

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        let names: BTreeSet<String> = value?.split(',').map(str::to_owned).collect();
        names.iter().all(|name| !name.is_empty() && name.len() <= MAX_NAME).then_some(names)
    }

    fn ask_for(entry: &Entry) -> Ask {
        Ask::for_names(entry.clone())
    }

    fn resolve(entry: &Entry, context: &GrantContext<'_>) -> Grant {
        (!entry.is_empty()).then(|| SecretsGrant { names: entry.clone(), source: context.secrets.clone() })
    }

    fn held(grant: &Grant) -> Option<&SecretsGrant> {
        grant.as_ref()
    }

    fn phrase(_ask: Ask) -> &'static str {
        "use secrets"
    }

    fn detailed(ask: Ask) -> String {
        match ask {
            Ask::Names(names) => format!("use the secrets {}", joined(&names, ", ")),
            ask => Self::phrase(ask).to_owned(),
        }
    }

    fn beyond(known: &Ask, asked: Ask) -> Ask {
        match (known, asked) {
            (Ask::Names(known), Ask::Names(asked)) => Ask::for_names(asked.difference(known).cloned().collect()),
            (_, asked) => asked,
        }
    }

    fn line(ask: Ask) -> String {
        match ask {
            Ask::Names(names) => format!("secrets = [\"{}\"]", joined(&names, "\", \"")),
            _ => "secrets = [\"NAME\"]".to_owned(),
        }
    }

    /// A plugin that asks for names gets no others.
    fn cut(grant: &mut Grant, ask: Ask) {
        match ask {
            Ask::Nothing => *grant = None,
            Ask::Any => {}
            Ask::Names(names) => {
                if let Some(granted) = grant {
                    granted.names.retain(|name| names.contains(name));
                }
                *grant = grant.take().filter(|granted| !granted.names.is_empty());
            }
        }
    }

    fn ask_word(ask: Ask) -> Option<String> {
        match ask {
            Ask::Nothing => None,
            Ask::Any => Some("secrets=NAME".to_owned()),
            Ask::Names(names) => Some(format!("secrets={}", joined(&names, ","))),
        }
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        entry.iter().map(|name| format!("secrets={name}")).collect()
    }

    fn extent(grant: &Grant) -> Option<String> {
        let names = grant.as_ref()?.names.iter().map(String::as_str).collect::<Vec<_>>();
        Some(format!(": {}", names.join(", ")))
    }

    fn merge(entry: &mut Entry, more: &Entry) {
        entry.extend(more.iter().cloned());
    }

    fn remove(entry: &mut Entry, less: &Entry) {
        entry.retain(|name| !less.contains(name));
    }

    fn widen(grant: &mut Grant, more: Grant) {
        match (grant, more) {
            (Some(grant), Some(more)) => grant.names.extend(more.names),
            (grant, Some(more)) => *grant = Some(more),
            (_, None) => {}
        }
    }
}

fn joined(names: &BTreeSet<String>, separator: &str) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::table::{Asks, GrantTable};

    #[test]
    fn names_are_granted_and_revoked_one_by_one() {
        let mut table: GrantTable = toml::from_str("secrets = [\"github\"]").unwrap();
        table.add(&["secrets=npm".to_owned()], Path::new("/w")).unwrap();
        assert_eq!(table.spell_grants(), ["secrets=github", "secrets=npm"]);
        let mut less = GrantTable::default();
        less.add(&["secrets=github".to_owned()], Path::new("/w")).unwrap();
        table.remove(&less);
        assert_eq!(table.spell_grants(), ["secrets=npm"]);
        assert!(
            table.asks().secrets == Ask::for_names(table.secrets.clone())
                && toml::from_str::<GrantTable>("secrets = true").is_err()
        );
        assert!(GrantTable::default().add(&["secrets".to_owned()], Path::new("/w")).is_err());
    }

    #[test]
    fn plugin_that_asks_for_names_gets_no_others() {
        let asks = |json: &str| serde_json::from_str::<Asks>(json).unwrap();
        let table = |names: &str| {
            let mut table = GrantTable::default();
            table.add(&[format!("secrets={names}")], Path::new("/w")).unwrap();
            table
        };
        let named = asks("{\"secrets\":[\"npm\",\"github\"]}");
        assert_eq!(named.spell_asks(), ["secrets=github,npm"]);
        assert!(named.covers(&table("github").asks()) && named.covers(&table("github,npm").asks()));
        assert!(!named.covers(&table("aws").asks()) && asks("{\"secrets\":true}").covers(&named));
        assert!(!named.covers(&asks("{\"secrets\":true}")) && asks("{\"secrets\":[]}") == Asks::default());
        assert_eq!(Asks::parse(&["secrets=github,npm".to_owned()], Path::new("/w")).unwrap(), named);
        let source: Arc<dyn SecretSource> = Arc::new(NoSecrets);
        let mut grant = Some(SecretsGrant { names: ["aws", "npm"].map(str::to_owned).into(), source });
        Secrets::cut(&mut grant, named.secrets.clone());
        assert_eq!(grant.as_ref().unwrap().names, ["npm".to_owned()].into());
        Secrets::cut(&mut grant, Ask::for_names(["x".to_owned()].into()));
        assert!(grant.is_none());
        assert_eq!(serde_json::to_string(&named).unwrap(), "{\"secrets\":[\"github\",\"npm\"]}");
        assert_eq!(serde_json::to_string(&asks("{\"secrets\":true}")).unwrap(), "{\"secrets\":true}");
    }
}
