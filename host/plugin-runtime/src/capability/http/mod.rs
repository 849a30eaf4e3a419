//! The capability `http`: requests to servers.
//!
//! `pinion_egress` decides on each request by the rules of the grant, and performs it. This module says where the rules
//! come from: those that the user granted, limited to those that the manifest asks for.

mod ask;
pub(crate) mod import;
mod request;
pub(crate) mod wasi;

pub use self::ask::HttpAsk;

use self::request::Traffic;
use self::wasi::OpenRequests;
use super::definition::{Capability, GrantContext};
use super::files::shell_word;
use pinion_egress::{Policy, Rule};
use pinion_plugin_limits::{Exceeded, Limits};
use pinion_protocol::{Authority, Ledger};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the largest body of a request, and of a response.
const MAX_BODY: u32 = 16 << 20;
/// Time of a request unless it says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The requests that a manifest asks for.
pub(crate) type Ask = HttpAsk;
/// The rules of the requests.
pub(crate) type Entry = Vec<Rule>;
/// The same rules; an empty list allows nothing.
pub(crate) type Grant = Policy;

/// The capability.
pub(crate) struct Http;

impl Capability for Http {
    const NAME: &'static str = "http";
    const INTERFACES: &'static [&'static str] = &["http"];
    const FORMS: &'static [&'static str] = &["http=URL", "http='METHOD URL'"];
    const EFFECT: &'static str = "network";
    const MOST: Ask = HttpAsk::Any;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = Policy;
    type Account = HttpAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value?.parse().ok().map(|rule| vec![rule])
    }

    fn problem(value: Option<&str>) -> Option<String> {
        match value {
            Some(value) => value.parse::<Rule>().err().map(|error| error.to_string()),
            None => Some("it names no server\nhint: write `http=https://api.example.com/`".to_owned()),
        }
    }

    fn ask_for(entry: &Entry) -> Ask {
        HttpAsk::from_rules(entry.clone())
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        Policy::new(entry.clone())
    }

    fn held(grant: &Grant) -> Option<&Policy> {
        (!grant.rules().is_empty()).then_some(grant)
    }

    fn phrase(_ask: Ask) -> &'static str {
        "send requests to servers"
    }

    fn detailed(ask: Ask) -> String {
        match ask.rules() {
            [] => "send requests to any server that the user names".to_owned(),
            rules => format!("send requests to {}", listed(rules)),
        }
    }

    fn beyond(known: &Ask, asked: Ask) -> Ask {
        match asked {
            HttpAsk::Rules(rules) => {
                let is_new = |rule: &Rule| !known.rules().iter().any(|known| known.includes(rule));
                HttpAsk::from_rules(rules.into_iter().filter(is_new).collect())
            }
            asked => asked,
        }
    }

    fn needed(ask: Ask, declared: Authority) -> Ask {
        if declared.network { ask } else { HttpAsk::Nothing }
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { network: !grant.rules().is_empty(), ..Authority::default() }
    }

    fn line(ask: Ask) -> String {
        match ask.rules() {
            [] => "http = [\"https://HOST/\"]".to_owned(),
            rules => format!("http = {:?}", rules.iter().map(Rule::to_string).collect::<Vec<_>>()),
        }
    }

    fn ask_word(ask: Ask) -> Option<String> {
        match ask {
            HttpAsk::Nothing => None,
            HttpAsk::Any => Some("http=URL".to_owned()),
            HttpAsk::Rules(rules) => Some(Self::spell_entry(&rules).join(" ")),
        }
    }

    fn spell_entry(entry: &Entry) -> Vec<String> {
        entry.iter().map(|rule| format!("http={}", shell_word(Path::new(&rule.to_string())))).collect()
    }

    fn extent(grant: &Grant) -> Option<String> {
        Self::held(grant).map(|policy| format!(": {}", listed(policy.rules())))
    }

    fn merge(entry: &mut Entry, more: &Entry) {
        let new: Vec<Rule> = more.iter().filter(|rule| !entry.contains(rule)).cloned().collect();
        entry.extend(new);
    }

    fn remove(entry: &mut Entry, less: &Entry) {
        entry.retain(|rule| !less.iter().any(|less| less.includes(rule)));
    }

    fn widen(grant: &mut Grant, more: Grant) {
        let mut rules = grant.rules().to_vec();
        Self::merge(&mut rules, &more.rules().to_vec());
        *grant = Policy::new(rules);
    }

    fn cut(grant: &mut Grant, ask: Ask) {
        *grant = Policy::new(ask.limit(grant.rules()));
    }
}

fn listed(rules: &[Rule]) -> String {
    rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ")
}

/// The requests of a call.
pub(crate) struct HttpAccount {
    requests: u64,
    max: u64,
    traffic: Arc<Traffic>,
    /// Requests through `wasi:http`; `None` before the first one.
    open: Option<OpenRequests>,
}

impl HttpAccount {
    /// Counts a request that is about to be sent.
    fn spend(&mut self) -> Result<(), Exceeded> {
        self.requests += 1;
        if self.requests > self.max { Err(Exceeded::Requests) } else { Ok(()) }
    }

    /// Closes the requests that the guest left open, so that the ledger has them.
    pub(crate) async fn end(&self) {
        if let Some(open) = &self.open {
            open.end().await;
        }
    }
}

impl super::definition::CapabilityAccount for HttpAccount {
    fn open(limits: &Limits) -> Self {
        Self { requests: 0, max: limits.requests, traffic: Arc::default(), open: None }
    }

    fn enter(&self, ledger: &mut Ledger) {
        self.traffic.enter(ledger);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::table::{Asks, GrantTable};

    fn table(text: &str) -> GrantTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn rules_are_granted_and_revoked_as_words() {
        let mut granted = table("http = [\"https://api.example.com/v1/\", \"GET https://x.org\"]");
        granted.add(&["http=http://localhost:3000".to_owned()], Path::new("/w")).unwrap();
        let words = ["http=https://api.example.com/v1/*", "http=GET https://x.org", "http=http://localhost:3000"];
        assert_eq!(granted.http, words.map(|word| word.strip_prefix("http=").unwrap().parse::<Rule>().unwrap()));
        assert_eq!(granted.spell_grants()[1], "http='GET https://x.org'");
        let mut less = GrantTable::default();
        less.add(&["http=https://api.example.com".to_owned()], Path::new("/w")).unwrap();
        granted.remove(&less);
        assert_eq!(granted.http.len(), 2);
    }

    #[test]
    fn invalid_rules_are_refused_with_a_reason() {
        for (text, part) in [
            ("http = [\"ftp://a.example\"]", "unknown scheme `ftp`"),
            ("http = [\"https://me@a.example\"]", "a user name or password"),
            ("http = true", "http"),
        ] {
            let error = toml::from_str::<GrantTable>(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("http ="), "{error}");
        }
        for (word, part) in [("http=ftp://a.example", "hint: use `https://`"), ("http", "it names no server")] {
            let error = GrantTable::default().add(&[word.to_owned()], Path::new("/w")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn name_alone_asks_for_the_servers_of_the_user() {
        let asks = |words: &[&str]| {
            Asks::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), Path::new("/w"))
        };
        assert_eq!(asks(&["http", "files=read"]).unwrap().http, HttpAsk::Any);
        assert_eq!(asks(&["http=https://a.example", "http"]).unwrap().spell_asks(), ["http=URL"]);
        assert_eq!(asks(&["http=https://a.example"]).unwrap().spell_asks(), ["http=https://a.example"]);
        assert!(asks(&["http="]).is_err() && asks(&["https"]).is_err());
    }

    #[test]
    fn grant_is_limited_to_the_ask() {
        let asks = |json: &str| serde_json::from_str::<Asks>(json).unwrap();
        let mut granted = Policy::new(table("http = [\"https://a.example\", \"https://b.example\"]").http);
        Http::cut(&mut granted, asks(r#"{"http":["GET https://b.example/v1","https://c.example"]}"#).http);
        assert_eq!(listed(granted.rules()), "GET https://b.example/v1/*");
        Http::cut(&mut granted, asks("{}").http);
        assert!(Http::held(&granted).is_none());
    }
}
