//! The credentials of requests: secrets that the plugin was granted and that the user meant for servers.

use crate::capability::authority::CallAuthority;
use crate::capability::secrets::{SecretRequests, Secrets, SecretsGrant};
use pinion_egress::{Credential, Credentials};
use pinion_protocol::text::one_line;
use secrecy::SecretString;

/// Bytes of the name of a credential that are shown.
const MAX_NAME: usize = 64;

/// Returns the credentials that a request may use: all that the plugin was granted. Those that may be sent to a server are
/// redacted from its responses, because it can keep one and return it later.
///
/// # Errors
/// The call may not use the one that the request names, or that one is unusable; the text is for the guest.
pub(super) async fn credentials(authority: &CallAuthority, named: Option<&str>) -> Result<Credentials, String> {
    if let Some(name) = named {
        Secrets::granted(authority, name).map_err(|denied| denied.to_string())?;
    }
    let Ok(grant) = authority.check::<Secrets>() else { return Ok(Credentials::default()) };
    let mut credentials = Vec::new();
    for name in &grant.names {
        match credential(grant, name).await {
            Ok(credential) => credentials.push(credential),
            Err(problem) if named == Some(name) => return Err(problem),
            // It cannot be sent, so no server knows it.
            Err(_) => {}
        }
    }
    Ok(Credentials::new(credentials))
}

async fn credential(grant: &SecretsGrant, name: &str) -> Result<Credential, String> {
    let requests = grant.source.requests(name).ok_or_else(|| {
        let name = one_line(name, MAX_NAME);
        format!(
            "the secret `{name}` is for no server\nhint: the user can name its servers: [secrets.{name}] hosts = […]"
        )
    })?;
    let value = grant.source.value(name).await.map_err(|error| error.to_string())?;
    convert(name, value, requests)
}

fn convert(name: &str, value: SecretString, requests: SecretRequests) -> Result<Credential, String> {
    let rules = requests.rules().map_err(|error| error.to_string())?;
    Credential::new(name, value, requests.placement.into(), rules).map_err(|error| error.to_string())
}
