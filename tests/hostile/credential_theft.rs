//! Plugins and servers that work together to steal a credential: for all answers of a server, targets of a request and
//! failures, a plugin that may use a secret does not see it, through either of the two imports that send requests.

mod command;
mod echoes;
mod elsewhere;
mod failures;
pub(crate) mod guesses;

use super::rebinding::{CLIENTS, Client, send};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::secrecy::SecretString;
use pinion_agent::tool::Ledger;
use pinion_plugin_runtime::{SecretError, SecretPlacement, SecretRequests, SecretSource, SecretsGrant};
use pinion_tests::{Sandbox, SandboxBuilder, TestNetwork};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";

/// The URLs that may receive the secrets of most tests. Names below `localhost` mean this machine, without TLS.
const HOSTS: [&str; 2] = ["https://api.example.com/v1", "http://localhost:3000/v1"];

/// The secrets that a user defined. All have the same value.
#[derive(Debug)]
struct Vault {
    value: &'static str,
    by_name: BTreeMap<String, SecretRequests>,
}

impl Default for Vault {
    fn default() -> Self {
        Self { value: SECRET, by_name: BTreeMap::new() }
    }
}

impl Vault {
    /// Defines a secret for these URLs.
    fn with(mut self, name: &str, placement: SecretPlacement, hosts: &[&str]) -> Self {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.by_name.insert(name.to_owned(), SecretRequests { hosts, placement });
        self
    }

    /// A secret for each place in a request.
    fn of_all_placements() -> Self {
        let basic = SecretPlacement::Basic { user: "me".to_owned() };
        let key = SecretPlacement::Header { name: "x-key".to_owned(), scheme: None };
        let vault = Self::default().with("bearer", bearer(), &HOSTS).with("basic", basic, &HOSTS);
        vault.with("key", key, &HOSTS).with("query", query(), &HOSTS)
    }
}

impl SecretSource for Vault {
    fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, SecretError>> {
        assert!(self.has(name), "`{name}` was looked up");
        async { Ok(SecretString::from(self.value)) }.boxed()
    }

    fn requests(&self, name: &str) -> Option<SecretRequests> {
        self.by_name.get(name).cloned()
    }
}

fn bearer() -> SecretPlacement {
    SecretPlacement::Header { name: "authorization".to_owned(), scheme: Some("Bearer".to_owned()) }
}

fn query() -> SecretPlacement {
    SecretPlacement::Query { parameter: "key".to_owned() }
}

/// A sandbox with both guests, which may use all secrets of a vault and send the requests that these rules cover.
fn builder(network: &Arc<TestNetwork>, vault: Vault, rules: &[&str]) -> SandboxBuilder {
    let names = vault.by_name.keys().cloned().collect();
    let grant = SecretsGrant { names, source: Arc::new(vault) };
    let builder = SandboxBuilder::default().network(network).watched();
    CLIENTS.iter().fold(builder, |builder, (guest, _)| {
        let builder = builder.guest(guest).http(guest, rules);
        builder.grant(guest, |grants| grants.secrets = Some(grant.clone()))
    })
}

/// A request with a secret, in the form of a guest.
fn with(client: Client, secret: &str, url: &str) -> Value {
    match client.0 {
        "fetcher" => json!({ "url": url, "credential": secret }),
        _ => json!({ "url": url, "headers": [["pinion-credential", secret]] }),
    }
}

/// Sends requests in one call; another plugin is served afterwards. The plugin has seen nothing of the secret, and
/// neither has the ledger of the call.
async fn attempts(sandbox: &Sandbox, client: Client, requests: &[Value]) -> (Vec<Value>, Ledger) {
    let (outcomes, ledger) = send(sandbox, client, json!({ "requests": requests })).await;
    assert_eq!(outcomes.len(), requests.len());
    requests.iter().zip(&outcomes).for_each(|(request, outcome)| assert_hidden(&outcome.to_string(), request));
    assert_hidden(&format!("{ledger:?}"), "the ledger");
    (outcomes, ledger)
}

async fn attempt(sandbox: &Sandbox, client: Client, request: Value) -> Value {
    attempts(sandbox, client, &[request]).await.0.remove(0)
}

/// Returns the text of a request that failed or was refused.
fn error(outcome: &Value) -> &str {
    if outcome["too-large"].is_number() {
        return "too large";
    }
    let cases = ["denied", "invalid", "failed", "timed-out", "error"];
    cases.iter().find_map(|case| outcome[case].as_str()).unwrap_or_else(|| panic!("{outcome}"))
}

/// Reversible forms of a whole secret.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let each = |form: &dyn Fn(char) -> String| secret.chars().map(form).collect::<String>();
    vec![
        ("plain", secret.to_owned()),
        ("lower case", secret.to_lowercase()),
        ("upper case", secret.to_uppercase()),
        ("reversed", secret.chars().rev().collect()),
        ("base64", STANDARD.encode(secret)),
        ("base64 after one byte", STANDARD.encode(format!(":{secret}"))),
        ("base64 after two bytes", STANDARD.encode(format!("a:{secret}"))),
        ("hex", each(&|c| format!("{:02x}", u32::from(c)))),
        ("hex in upper case", each(&|c| format!("{:02X}", u32::from(c)))),
        ("escaped for a URL", each(&|c| format!("%{:02X}", u32::from(c)))),
    ]
}

/// Asserts that a text has no eight consecutive characters of the secret, in any of its forms.
fn assert_hidden(text: &str, of: impl std::fmt::Display) {
    let text = text.to_ascii_lowercase().replace("\\\\", "\\");
    let escaped = |text: &str, form: &dyn Fn(u8) -> String| text.bytes().map(form).collect::<String>();
    for at in 0..=SECRET.len() - 8 {
        let window = &SECRET.to_ascii_lowercase()[at..at + 8];
        // Letters in the other case have another code.
        let exact = &SECRET[at..at + 8];
        let windows = [
            window.to_owned(),
            window.chars().rev().collect(),
            escaped(exact, &|byte| format!("{byte:02x}")),
            escaped(exact, &|byte| format!("%{byte:02x}")),
            escaped(exact, &|byte| format!("\\u{byte:04x}")),
        ];
        windows.iter().for_each(|form| assert!(!text.contains(form), "`{form}` in {text}, of {of}"));
    }
    for before in ["", "a", "ab"] {
        let encoded = STANDARD.encode(format!("{before}{SECRET}")).to_ascii_lowercase();
        for at in 4..=encoded.len() - 16 {
            let form = &encoded[at..at + 12];
            assert!(!text.contains(form), "`{form}` in {text}, of {of}");
        }
    }
}

/// Returns the characters of a text in a form that no redaction recognizes.
fn dotted(text: &str) -> String {
    text.chars().fold(String::new(), |mut dotted, character| {
        write!(dotted, "{character}.").unwrap();
        dotted
    })
}

#[test]
fn check_finds_every_form_of_the_secret() {
    for (form, text) in forms(SECRET) {
        let found = std::panic::catch_unwind(|| assert_hidden(&json!(text).to_string(), form));
        assert!(found.is_err(), "{form}: {text}");
    }
    assert_hidden("Zq7Xw3V b9Nm2Kp 5Ld8RtH j4G", "pieces");
}
