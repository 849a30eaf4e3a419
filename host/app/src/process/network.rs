//! The network of the programs that the agent starts: off, on, or allowed hosts through a proxy of this process.
//!
//! The state belongs to the session and takes effect at once: programs that run keep their way to the proxy, which looks at
//! the present hosts for each request.

use crate::approve::audit::Audit;
use crate::config::sandbox::SandboxSettings;
use crate::output::count;
use crate::process::credentials::ProgramCredentials;
use pinion_egress::{
    AddressClass, Denial, Exchange, ExchangeOutcome, HostRule, Hosts, Observer, Proxy, ProxySettings, SystemNetwork,
};
use pinion_sandbox::{Network, PROXY_PORT, ProxySocket};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Rules of one session.
const MAX_RULES: usize = 500;
/// Refusals of one program that the model reads.
const MAX_REFUSALS: usize = 8;
/// Attempts of one program in the audit log.
const MAX_LOGGED: usize = 1_000;
/// Longest wait for handshakes of a program that has ended.
const SETTLE: Duration = Duration::from_secs(5);
/// Refused hosts that wait for a question.
const MAX_WAITING: usize = 8;
/// Ports that need not be named.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// Variables that name the proxy. `ALL_PROXY` has an HTTP URL, too: libraries without SOCKS fail on another one.
const PROXY_VARIABLES: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Variables that name the hosts to connect to directly: those in the sandbox.
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Makes Node.js use the proxy.
const NODE_VARIABLE: &str = "NODE_USE_ENV_PROXY";

/// Variables that name the `ssh` of git.
const SSH_VARIABLES: [&str; 2] = ["GIT_SSH_COMMAND", "GIT_SSH"];

/// The reach of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkReach {
    /// No host.
    Nothing,
    /// Hosts that the user allowed.
    AllowedHosts,
    /// Every host.
    Everything,
}

/// The network of all programs of a session.
pub struct ProgramNetwork {
    state: Mutex<NetworkState>,
    /// The hosts that are allowed now.
    hosts: watch::Sender<Arc<Hosts>>,
    credentials: ProgramCredentials,
    audit: Arc<Audit>,
    /// Hosts that programs were refused and that the user can allow.
    refused: Arc<Mutex<Vec<HostRule>>>,
}

struct NetworkState {
    reach: NetworkReach,
    rules: Vec<HostRule>,
    /// Hosts that rules deny.
    denied: Vec<HostRule>,
}

impl ProgramNetwork {
    /// Begins with the settings of the config and the command line.
    /// No host that is `denied` is reached through the proxy.
    pub fn new(
        settings: &SandboxSettings,
        denied: Vec<HostRule>,
        credentials: ProgramCredentials,
        audit: Arc<Audit>,
    ) -> Self {
        let rules = settings.hosts.clone();
        let reach = match settings.network {
            Network::On => NetworkReach::Everything,
            _ if rules.is_empty() => NetworkReach::Nothing,
            _ => NetworkReach::AllowedHosts,
        };
        let state = NetworkState { reach, rules, denied };
        Self {
            hosts: watch::Sender::new(state.hosts()),
            state: Mutex::new(state),
            credentials,
            audit,
            refused: Arc::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, NetworkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the credentials that programs use through placeholders.
    pub fn credentials(&self) -> &ProgramCredentials {
        &self.credentials
    }

    /// Returns the hosts that programs reach now.
    pub fn reach(&self) -> NetworkReach {
        self.state().reach
    }

    /// Returns all rules, also those that have no effect now.
    pub fn rules(&self) -> Vec<HostRule> {
        self.state().rules.clone()
    }

    /// Returns the reach in a few words; `None` if it is nothing.
    pub fn summary(&self) -> Option<String> {
        let state = self.state();
        match state.reach {
            NetworkReach::Nothing => None,
            NetworkReach::AllowedHosts => Some(count(state.rules.len() as u64, "host")),
            NetworkReach::Everything => Some("network on".to_owned()),
        }
    }

    /// Changes the reach for the rest of the session. Without network or with all of it, connections of the proxy end.
    pub fn set(&self, reach: NetworkReach) {
        let mut state = self.state();
        state.reach = reach;
        self.hosts.send_replace(state.hosts());
    }

    /// Allows a host for the rest of the session, and programs to reach the allowed hosts.
    ///
    /// # Errors
    /// There are too many.
    pub fn allow(&self, rule: HostRule) -> Result<(), String> {
        let mut state = self.state();
        if !state.rules.contains(&rule) {
            if state.rules.len() >= MAX_RULES {
                return Err(format!("{MAX_RULES} hosts are allowed already"));
            }
            state.rules.push(rule);
        }
        if state.reach == NetworkReach::Nothing {
            state.reach = NetworkReach::AllowedHosts;
        }
        self.hosts.send_replace(state.hosts());
        Ok(())
    }

    /// Remembers a host that a program could not reach, because programs have no network.
    pub fn was_missed(&self, host: &str) {
        host.parse().into_iter().for_each(|rule| wait(&self.refused, rule));
    }

    /// Returns the hosts that programs were refused since the last call of this.
    pub fn take_refused(&self) -> Vec<HostRule> {
        std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the network of the policy of a program that starts now.
    pub fn for_program(&self) -> Network {
        match self.reach() {
            NetworkReach::Nothing => Network::Off,
            NetworkReach::AllowedHosts => Network::Proxied,
            NetworkReach::Everything => Network::On,
        }
    }

    /// Returns whether programs reach only hosts that the user has chosen.
    pub fn is_limited(&self) -> bool {
        let state = self.state();
        match state.reach {
            NetworkReach::Nothing => true,
            NetworkReach::AllowedHosts => !state.rules.iter().any(HostRule::is_for_any_host),
            NetworkReach::Everything => false,
        }
    }

    /// Starts the proxy of one program. It ends when the result is dropped.
    ///
    /// # Errors
    /// No runtime is there to run it, or its credentials cannot be used.
    pub fn serve(&self, socket: ProxySocket) -> Result<ProgramProxy, String> {
        let runtime = Handle::try_current().map_err(|error| format!("could not start the proxy: {error}"))?;
        let attempts = Arc::new(NetworkAttempts {
            audit: self.audit.clone(),
            refused: self.refused.clone(),
            seen: Mutex::default(),
        });
        let settings = ProxySettings {
            network: Arc::new(SystemNetwork),
            hosts: self.hosts.subscribe(),
            observer: Some(attempts.clone()),
            advice,
            credentials: self.credentials.proxy()?,
        };
        let proxy = Proxy::new(settings);
        let handshakes = proxy.handshakes();
        let task = runtime.spawn(async move {
            let received = tokio::task::spawn_blocking(move || socket.listener()).await;
            let listener = received.map_err(std::io::Error::other).flatten().and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            match listener {
                Ok(listener) => proxy.serve(listener).await,
                // Also the end of a program that did not start, which is reported elsewhere.
                Err(error) => tracing::debug!(%error, "a program has no proxy"),
            }
        });
        Ok(ProgramProxy { task, attempts, handshakes })
    }
}

impl NetworkState {
    /// Returns the hosts for the proxy.
    fn hosts(&self) -> Arc<Hosts> {
        Arc::new(match self.reach {
            NetworkReach::AllowedHosts => Hosts::new(self.rules.clone()).denying(self.denied.clone()),
            NetworkReach::Nothing | NetworkReach::Everything => Hosts::default(),
        })
    }
}

/// Adds a rule to those that wait for a question.
fn wait(refused: &Mutex<Vec<HostRule>>, rule: HostRule) {
    let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
    if refused.len() < MAX_WAITING && !refused.contains(&rule) {
        refused.push(rule);
    }
}

/// Returns the rule that allows a refused connection, if the user can allow it.
fn remedy(denial: &Denial) -> Option<String> {
    match denial {
        Denial::Host { host, port } if USUAL_PORTS.contains(port) => Some(host.clone()),
        Denial::Host { host, port } => Some(format!("{host}:{port}")),
        Denial::Address {
            host, class: AddressClass::Loopback | AddressClass::Private | AddressClass::Shared, ..
        } => Some(format!("private {host}")),
        _ => None,
    }
}

/// Returns the hint for a refusal that the user can change.
fn advice(denial: &Denial) -> Option<String> {
    let rule = remedy(denial)?;
    let option = if rule.contains(' ') { String::new() } else { format!(" or `--net {rule}`") };
    Some(format!("the user can allow it with `/net allow {rule}`{option}"))
}

/// The proxy of one program.
pub struct ProgramProxy {
    task: JoinHandle<()>,
    attempts: Arc<NetworkAttempts>,
    handshakes: watch::Receiver<usize>,
}

impl ProgramProxy {
    /// Returns lines for the reader of the output of a program that has ended: the hosts that were refused.
    pub fn lines(&self) -> Vec<String> {
        self.settle();
        let seen = self.attempts.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = seen.refused.iter().map(|reason| format!("sandbox: {reason}"));
        // A reason may end with a hint in a separate line.
        let mut lines: Vec<String> =
            reasons.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        if seen.more_refused {
            lines.push("sandbox: more hosts were refused".to_owned());
        }
        lines
    }
}

impl ProgramProxy {
    /// Waits until the proxy has seen how the handshakes of a program ended: one that does not trust a certificate is
    /// often gone before.
    fn settle(&self) {
        let mut handshakes = self.handshakes.clone();
        let handle = Handle::try_current().ok().filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if let Some(handle) = handle.filter(|_| *handshakes.borrow() > 0) {
            let settled = async { timeout(SETTLE, handshakes.wait_for(|count| *count == 0)).await.is_ok() };
            let _ = tokio::task::block_in_place(|| handle.block_on(settled));
        }
    }
}

impl Drop for ProgramProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The attempts of one program, for the log and for the reader of its output.
struct NetworkAttempts {
    audit: Arc<Audit>,
    refused: Arc<Mutex<Vec<HostRule>>>,
    seen: Mutex<SeenAttempts>,
}

#[derive(Default)]
struct SeenAttempts {
    refused: Vec<String>,
    more_refused: bool,
    logged: usize,
}

impl Observer for NetworkAttempts {
    fn denied(&self, denial: &Denial) {
        // The user is not asked about private addresses, because other people's names may lead there.
        if let (Denial::Host { .. }, Some(rule)) = (denial, remedy(denial)) {
            rule.parse().into_iter().for_each(|rule| wait(&self.refused, rule));
        }
    }

    fn exchange_ended(&self, exchange: &Exchange) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_allowed, is_shown, why) = match &exchange.outcome {
            ExchangeOutcome::Denied(reason) => (false, true, Some(reason)),
            // Programs say little about certificates.
            ExchangeOutcome::Handshake(reason) => (true, true, Some(reason)),
            ExchangeOutcome::Failed(reason) => (true, false, Some(reason)),
            _ => (true, false, None),
        };
        if let Some(reason) = why.filter(|_| is_shown)
            && !seen.refused.contains(reason)
        {
            match seen.refused.len() < MAX_REFUSALS {
                true => seen.refused.push(reason.clone()),
                false => seen.more_refused = true,
            }
        }
        seen.logged += 1;
        let is_last = seen.logged == MAX_LOGGED;
        if seen.logged > MAX_LOGGED {
            return;
        }
        drop(seen);
        let first_line = why.and_then(|reason| reason.lines().next());
        self.audit.add(json!({
            "time": null, "event": "network", "host": exchange.host, "port": exchange.port, "method": exchange.method,
            "allowed": is_allowed, "why": first_line, "address": exchange.address.map(|address| address.to_string()),
            "credential": exchange.credential, "sent": exchange.bytes_sent, "received": exchange.bytes_received, "last_of_program": is_last,
        }));
    }
}

/// Returns the environment of a program with the variables that lead to its proxy. `ssh` is a command for git that uses
/// the proxy; it is added if the environment names no such command.
pub fn with_proxy(environment: &[(String, String)], ssh: Option<String>) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let added: Vec<(&str, &str)> = PROXY_VARIABLES
        .iter()
        .map(|name| (*name, proxy.as_str()))
        .chain(DIRECT_VARIABLES.iter().map(|name| (*name, "localhost,127.0.0.1,::1")))
        .chain([(NODE_VARIABLE, "1")])
        .collect();
    let kept = environment.iter().filter(|(name, _)| !added.iter().any(|(added, _)| added == name)).cloned();
    let has_ssh = environment.iter().any(|(name, _)| SSH_VARIABLES.contains(&name.as_str()));
    let ssh = ssh.filter(|_| !has_ssh).map(|ssh| (SSH_VARIABLES[0].to_owned(), ssh));
    kept.chain(added.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).chain(ssh).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::files::paths::Paths;
    use crate::plugins::secrets::PluginSecrets;
    use crate::process::key_commands::KeyCommandSandbox;
    use pinion_agent::secrets::Secrets;
    use std::collections::BTreeMap;

    pub(crate) fn network(config: &str) -> ProgramNetwork {
        let directory = tempfile::tempdir().unwrap();
        let audit = Arc::new(Audit::new(directory.path().join("audit.jsonl"), Secrets::default()));
        let path = directory.path().to_owned();
        let paths = Paths { config: path.clone(), data: path.clone(), cache: path };
        let sandbox = KeyCommandSandbox::without_sandbox();
        let secrets = Arc::new(PluginSecrets::new(&paths, &BTreeMap::new(), &Secrets::default(), sandbox));
        let credentials = ProgramCredentials::new(Vec::new(), secrets);
        ProgramNetwork::new(
            &SandboxSettings::from_text(config, &crate::options::RunOptions::default()),
            Vec::new(),
            credentials,
            audit,
        )
    }

    #[test]
    fn network_is_off_until_a_host_is_allowed() {
        let network = network("");
        assert!(network.for_program() == Network::Off && network.is_limited());
        network.allow("crates.io".parse().unwrap()).unwrap();
        network.allow("crates.io".parse().unwrap()).unwrap();
        assert!(network.for_program() == Network::Proxied && network.is_limited());
        assert_eq!((network.rules().len(), network.hosts.borrow().rules().len()), (1, 1));
        network.set(NetworkReach::Nothing);
        assert!(network.for_program() == Network::Off && network.hosts.borrow().rules().is_empty());
    }

    #[test]
    fn every_host_is_as_unlimited_as_the_whole_network() {
        let all = network("hosts = [\"*\"]");
        assert!(all.for_program() == Network::Proxied && !all.is_limited());
        let on = network("network = true\nhosts = [\"crates.io\"]");
        assert!(on.for_program() == Network::On && !on.is_limited());
        on.allow("docs.rs".parse().unwrap()).unwrap();
        assert_eq!(on.reach(), NetworkReach::Everything);
    }

    #[test]
    fn number_of_hosts_is_bounded() {
        let network = network("");
        for number in 0..MAX_RULES {
            network.allow(format!("h{number}.example").parse().unwrap()).unwrap();
        }
        assert!(network.allow("one.example".parse().unwrap()).is_err());
    }

    #[test]
    fn variables_of_the_user_do_not_lead_elsewhere() {
        let environment = [("HTTPS_PROXY", "http://corp:1"), ("no_proxy", "*"), ("PATH", "/bin")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = with_proxy(&environment, Some("ssh -o x".to_owned()));
        let value = |name: &str| {
            let mut values = found.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
            (values.next(), values.next())
        };
        assert_eq!(value("HTTPS_PROXY"), (Some("http://127.0.0.1:3128"), None));
        assert_eq!(value("no_proxy"), (Some("localhost,127.0.0.1,::1"), None));
        assert_eq!(value("PATH"), (Some("/bin"), None));
        assert_eq!(value("GIT_SSH_COMMAND"), (Some("ssh -o x"), None));
        let own = [("GIT_SSH".to_owned(), "mine".to_owned())];
        let has_command = |(name, _): &(String, String)| name == "GIT_SSH_COMMAND";
        assert!(!with_proxy(&own, Some("ssh -o x".to_owned())).iter().any(has_command));
    }

    #[test]
    fn refusals_are_bounded_and_name_the_way_to_allow_them() {
        let denial = Denial::Host { host: "evil.example".to_owned(), port: 8443 };
        assert!(advice(&denial).unwrap().contains("`/net allow evil.example:8443`"));
        let metadata = Denial::Address {
            host: "evil.example".to_owned(),
            address: "169.254.169.254".parse().unwrap(),
            class: AddressClass::Metadata,
        };
        assert_eq!(advice(&metadata), None);
        let network = network("");
        let attempts =
            NetworkAttempts { audit: network.audit.clone(), refused: network.refused.clone(), seen: Mutex::default() };
        let private = Denial::Address {
            host: "intranet.example".to_owned(),
            address: "10.0.0.1".parse().unwrap(),
            class: AddressClass::Private,
        };
        let by_rule = Denial::Denied { host: "denied.example".to_owned(), port: 443 };
        [&denial, &denial, &metadata, &private, &by_rule].iter().for_each(|denial| attempts.denied(denial));
        assert_eq!(network.take_refused(), ["evil.example:8443".parse().unwrap()]);
        assert!(network.take_refused().is_empty());
    }
}
