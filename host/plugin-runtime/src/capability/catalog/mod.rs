//! The capability `catalog`: the loaded plugins and the usage of the session.

pub(crate) mod import;

use super::definition::{Capability, GrantContext};
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// True if the user grants it.
pub(crate) type Entry = bool;
/// True if it is granted.
pub(crate) type Grant = bool;

/// The capability.
pub(crate) struct Catalog;

impl Capability for Catalog {
    const NAME: &'static str = "catalog";
    const INTERFACES: &'static [&'static str] = &["catalog"];
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ();
    type Account = ();

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
        "see what is loaded and spent"
    }
}
