//! The last contact with a server, for lists of servers in later processes.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pinion_protocol::text::one_line;
use serde::{Deserialize, Serialize};

use super::cache::{file, read_text, replace};
use crate::limits::MAX_QUOTED;

/// Maximum bytes of a file.
const MAX_FILE: u64 = 16 << 10;
const EXTENSION: &str = "contact";

/// Outcome of the last contact with a server, in this process or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The outcome.
    pub outcome: ContactOutcome,
    /// The reason of a failure, as one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time, in seconds since the epoch.
    pub at: u64,
}

/// Outcomes of a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContactOutcome {
    /// The server connected and listed its offer.
    Ready,
    /// It could not be reached, or ended by itself.
    Failed,
    /// It wants a login.
    LoginRequired,
}

/// Writes the outcome of a contact that has just ended.
///
/// # Errors
/// The directory cannot be created or written.
pub(crate) fn write(
    directory: &Path,
    identity: &str,
    outcome: ContactOutcome,
    problem: Option<&str>,
) -> io::Result<()> {
    let path = file(directory, identity, EXTENSION).ok_or_else(|| io::Error::other("the identity is not a digest"))?;
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let contact = Contact { outcome, problem: problem.map(str::to_owned), at };
    replace(directory, &path, &serde_json::to_vec(&contact)?)
}

/// Reads the last contact; `None` if there was no contact, or the file is damaged.
pub(crate) fn read(directory: &Path, identity: &str) -> Option<Contact> {
    let text = read_text(&file(directory, identity, EXTENSION)?, MAX_FILE).ok()?;
    let contact: Contact = serde_json::from_str(&text).ok()?;
    // Someone may have changed the file.
    Some(Contact { problem: contact.problem.map(|problem| one_line(&problem, 2 * MAX_QUOTED)), ..contact })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn last_contact_replaces_the_one_before_and_is_read_cleaned() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("mcp");
        assert_eq!(read(&cache, IDENTITY), None);
        write(&cache, IDENTITY, ContactOutcome::Ready, None).unwrap();
        write(&cache, IDENTITY, ContactOutcome::Failed, Some("is not\u{1b}[2J reachable")).unwrap();
        let contact = read(&cache, IDENTITY).unwrap();
        assert_eq!(
            (contact.outcome, contact.problem.as_deref()),
            (ContactOutcome::Failed, Some("is not␛[2J reachable"))
        );
        std::fs::write(cache.join(format!("{IDENTITY}.contact")), "{").unwrap();
        assert_eq!(read(&cache, IDENTITY), None);
        assert!(write(&cache, "../x", ContactOutcome::Ready, None).is_err() && read(&cache, "../x").is_none());
    }
}
