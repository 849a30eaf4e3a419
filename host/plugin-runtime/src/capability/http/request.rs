//! The parts of a request that both imports share: its credentials, the words of its refusal, and its traffic.

use super::{Http, HttpAsk};
use crate::capability::authority::CallAuthority;
use crate::capability::definition::Capability as _;
use crate::capability::secrets::{SecretRequests, Secrets, SecretsGrant};
use pinion_egress::{Credential, Credentials, Denial, Exchange, Observer};
use pinion_protocol::Ledger;
use pinion_protocol::text::one_line;
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Bytes of the name of a credential that are shown.
const MAX_NAME: usize = 64;
/// Maximum number of hosts in a ledger.
const MAX_HOSTS: usize = 16;

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

/// Words a refusal. If the user could grant the request, it names the line of the config.
pub(super) fn denied(denial: &Denial, request_sent: bool, authority: &CallAuthority) -> String {
    let redirected = if request_sent { ", to which the server redirected it" } else { "" };
    match denial {
        Denial::NotCovered { method, origin, granted } => {
            let only = if granted.is_empty() { String::new() } else { format!(" beyond `{}`", granted.join("`, `")) };
            let what = format!("send `{method}` to `{origin}`{only}{redirected}");
            let ask = format!("{method} {origin}").parse().map(|rule| HttpAsk::from_rules(vec![rule]));
            match ask {
                Ok(ask) if granted.is_empty() && ask <= authority.asks().http => {
                    authority.not_granted(&what, &Http::line(ask)).to_string()
                }
                _ if granted.is_empty() => authority.denied(&what, "its manifest does not ask for it").to_string(),
                _ => authority.denied(&what, "other methods and paths need a rule of their own").to_string(),
            }
        }
        Denial::Address { .. } => format!(
            "{denial}{redirected}\nhint: the user can grant the address itself or, in a private network, \
             the name after the word `private`"
        ),
        other => format!("{other}{redirected}"),
    }
}

/// Counts requests, redirects included, that sent at least one byte.
#[derive(Debug, Default)]
pub(super) struct Traffic(Mutex<HttpTrafficCounts>);

#[derive(Debug, Default)]
struct HttpTrafficCounts {
    requests: u64,
    sent: u64,
    received: u64,
    hosts: BTreeSet<String>,
}

impl Traffic {
    pub(super) fn enter(&self, ledger: &mut Ledger) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (ledger.requests, ledger.hosts) = (counts.requests, counts.hosts.clone());
        (ledger.bytes_sent, ledger.bytes_received) = (counts.sent, counts.received);
    }
}

impl Observer for Traffic {
    fn exchange_ended(&self, exchange: &Exchange) {
        if exchange.bytes_sent == 0 {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.requests += 1;
        counts.sent += exchange.bytes_sent;
        counts.received += exchange.bytes_received;
        if counts.hosts.len() < MAX_HOSTS {
            counts.hosts.insert(exchange.host.clone());
        }
    }
}
