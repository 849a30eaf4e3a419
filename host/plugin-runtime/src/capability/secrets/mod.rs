//! The capability `secrets`: credentials that a plugin uses by name and never reads.
//!
//! The application defines secrets ([`SecretSource`]), and the user grants their names. `has` is all that the import
//! `secrets` offers; the imports `process` and `http` insert the values, which they get from the [`SecretsGrant`] of the
//! call.

pub(crate) mod import;
pub(crate) mod source;

pub use self::source::{NoSecrets, SecretError, SecretPlacement, SecretRequests, SecretSource};

use super::authority::CallAuthority;
use super::definition::{Capability, GrantContext};
use crate::capability::Denied;
use pinion_protocol::text::one_line;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the longest name.
const MAX_NAME: usize = 64;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// The names of the secrets.
pub(crate) type Entry = BTreeSet<String>;
/// The secrets; `None` when there are none.
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
            authority.not_granted(&format!("use the secret `{name}`"), &format!("secrets = [{name:?}]"))
        })
    }
}

impl Capability for Secrets {
    const NAME: &'static str = "secrets";
    const INTERFACES: &'static [&'static str] = &["secrets"];
    const FORMS: &'static [&'static str] = &["secrets=NAME"];
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = SecretsGrant;
    type Account = ();

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        let name = value.filter(|name| !name.is_empty() && name.len() <= MAX_NAME)?;
        Some(BTreeSet::from([name.to_owned()]))
    }

    fn ask_for(entry: &Entry) -> Ask {
        !entry.is_empty()
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

    fn line(_ask: Ask) -> String {
        "secrets = [\"NAME\"]".to_owned()
    }

    fn ask_word(ask: Ask) -> Option<String> {
        ask.then(|| "secrets=NAME".to_owned())
    }

    fn words(entry: &Entry) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::GrantTable;

    #[test]
    fn names_are_granted_and_revoked_one_by_one() {
        let mut table: GrantTable = toml::from_str("secrets = [\"github\"]").unwrap();
        table.add(&["secrets=npm".to_owned()], Path::new("/w")).unwrap();
        assert_eq!(table.words(), ["secrets=github", "secrets=npm"]);
        let mut less = GrantTable::default();
        less.add(&["secrets=github".to_owned()], Path::new("/w")).unwrap();
        table.remove(&less);
        assert_eq!(table.words(), ["secrets=npm"]);
        assert!(table.asks().secrets && toml::from_str::<GrantTable>("secrets = true").is_err());
        assert!(GrantTable::default().add(&["secrets".to_owned()], Path::new("/w")).is_err());
    }
}
