//! The capability `ui`: dialogs, notices, a segment of the status line, and drawings of calls.

pub(crate) mod import;

use super::definition::{Capability, GrantContext};
use pinion_plugin_limits::Limits;
use pinion_protocol::Ledger;
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// True if the user grants it.
pub(crate) type Entry = bool;
/// True if it is granted.
pub(crate) type Grant = bool;

/// Dialogs that one call may open.
const MAX_DIALOGS: u64 = 20;

/// The capability.
pub(crate) struct Ui;

impl Capability for Ui {
    const NAME: &'static str = "ui";
    const INTERFACES: &'static [&'static str] = &["ui"];
    const FOR_COMPLETIONS: bool = false;
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ();
    type Account = DialogAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(true)
    }

    fn ask_for(entry: &Entry) -> Ask {
        *entry
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        *entry
    }

    fn held(grant: &Grant) -> Option<&()> {
        grant.then_some(&())
    }

    fn phrase(_ask: Ask) -> &'static str {
        "ask and notify you"
    }
}

/// Dialogs that a call has opened.
pub(crate) struct DialogAccount {
    dialogs: u64,
}

impl DialogAccount {
    /// Takes back the count of a dialog that was not opened.
    pub(crate) fn give_back(&mut self) {
        self.dialogs = self.dialogs.saturating_sub(1);
    }
}

impl super::definition::CapabilityAccount for DialogAccount {
    fn open(_limits: &Limits) -> Self {
        Self { dialogs: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        if self.dialogs > 0 {
            ledger.counts.insert("dialog".to_owned(), self.dialogs);
        }
    }
}
