//! The capability `session`: the conversation that a call belongs to.

pub(crate) mod import;

use super::definition::{Capability, GrantContext};
use pinion_plugin_limits::Limits;
use pinion_protocol::Ledger;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The access that a manifest asks for.
pub(crate) type Ask = SessionAccess;
/// The access that the user grants.
pub(crate) type Entry = SessionAccess;
/// The access that is granted.
pub(crate) type Grant = SessionAccess;

/// Access to the conversation. Later ones include earlier ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionAccess {
    /// No access.
    #[default]
    None,
    /// Reading the entries and the title.
    Read,
    /// Adding entries of the plugin's own and setting the title, too.
    Write,
}

/// Titles that one call may set, because each is kept.
const MAX_TITLES: u64 = 20;

/// The capability.
pub(crate) struct Session;

impl Capability for Session {
    const NAME: &'static str = "session";
    const INTERFACES: &'static [&'static str] = &["session"];
    const FORMS: &'static [&'static str] = &["session=read", "session=write"];
    const FOR_COMPLETIONS: bool = false;
    const MOST: Ask = SessionAccess::Write;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = SessionAccess;
    type Account = SessionAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        match value {
            Some("read") => Some(SessionAccess::Read),
            Some("write") => Some(SessionAccess::Write),
            _ => None,
        }
    }

    fn ask_for(entry: &Entry) -> Ask {
        *entry
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        *entry
    }

    fn held(grant: &Grant) -> Option<&SessionAccess> {
        (*grant != SessionAccess::None).then_some(grant)
    }

    fn phrase(ask: Ask) -> &'static str {
        match ask {
            SessionAccess::None | SessionAccess::Read => "read the conversation",
            SessionAccess::Write => "read the conversation and add entries to it",
        }
    }

    fn line(ask: Ask) -> String {
        format!("session = \"{}\"", word(ask))
    }

    fn ask_word(ask: Ask) -> Option<String> {
        (ask != SessionAccess::None).then(|| format!("session={}", word(ask)))
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        Self::ask_word(*entry).into_iter().collect()
    }

    fn extent(grant: &Grant) -> Option<String> {
        match grant {
            SessionAccess::None => None,
            SessionAccess::Read => Some(": reading".to_owned()),
            SessionAccess::Write => Some(String::new()),
        }
    }

    fn widen(grant: &mut Grant, more: Grant) {
        if more > *grant {
            *grant = more;
        }
    }

    fn cut(grant: &mut Grant, ask: Ask) {
        if *grant > ask {
            *grant = ask;
        }
    }
}

/// Titles that a call has set.
pub(crate) struct SessionAccount {
    titles: u64,
}

impl super::definition::CapabilityAccount for SessionAccount {
    fn open(_limits: &Limits) -> Self {
        Self { titles: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.titles > 0 {
            ledger.counts.insert("title".to_owned(), self.titles);
        }
    }
}

fn word(access: SessionAccess) -> &'static str {
    match access {
        SessionAccess::None => "none",
        SessionAccess::Read => "read",
        SessionAccess::Write => "write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_is_cut_to_reading_for_a_plugin_that_asks_to_read() {
        let mut grant = SessionAccess::Write;
        Session::cut(&mut grant, SessionAccess::Read);
        assert_eq!(grant, SessionAccess::Read);
        Session::widen(&mut grant, SessionAccess::None);
        assert_eq!((grant, Session::held(&SessionAccess::None)), (SessionAccess::Read, None));
        assert_eq!(Session::line(SessionAccess::Read), "session = \"read\"");
    }
}
