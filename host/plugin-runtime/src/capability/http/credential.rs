//! The credentials that requests name.

use crate::capability::CallAuthority;
use pinion_egress::Credentials;
use pinion_protocol::text::one_line;

/// Bytes of the name of a credential that are shown.
const MAX_NAME: usize = 64;

/// Returns the credentials that a request may use and that are redacted from its response.
///
/// # Errors
/// The call may not use the one that the request names; the text is for the guest.
pub(super) fn credentials(authority: &CallAuthority, named: Option<&str>) -> Result<Credentials, String> {
    match named {
        None => Ok(Credentials::default()),
        Some(name) => {
            let name = one_line(name, MAX_NAME);
            Err(authority.denied(&format!("use the secret `{name}`"), "this host has none for plugins").to_string())
        }
    }
}
