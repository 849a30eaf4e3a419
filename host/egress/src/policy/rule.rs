//! Rules: patterns of methods and URLs.

use super::parse::{self, InvalidRule};
use crate::address::{AddressClass, AddressReach};
use crate::target::{RequestTarget, Scheme, TargetHost, is_localhost};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A pattern of requests that a plugin may send, written as text:
///
/// ```text
/// rule    = ["private "] [methods " "] [scheme "://"] host [":" port] [path]
/// methods = METHOD *("," METHOD)          GET,HEAD     default: all methods
/// scheme  = "http" | "https"                           default: https
/// host    = name                          api.example.com
///         | "*." name                     every name below it, not the name itself
///         | "*"                           every host
///         | IPv4 | "[" IPv6 "]"           10.0.0.5
/// port    = 1 to 65535                                 default: the port of the scheme
/// path    = "/" segments                  /v1/*        default: all paths
/// ```
///
/// A path covers itself and everything below it, by whole segments: `/v1`, `/v1/` and `/v1/*` mean the same and do not
/// cover `/v10`. Queries are not limited.
///
/// A rule covers addresses of the public internet. A rule whose host is an address covers that one, of any kind.
/// `localhost` and the names below it are this machine. A rule marked `private` also covers names that are on a private
/// network or this machine; no mark opens link-local addresses and the addresses of cloud metadata services, which a
/// rule has to name as addresses.
///
/// ```
/// use pinion_egress::Rule;
///
/// let rule: Rule = "GET,HEAD API.example.com/v1".parse()?;
/// assert_eq!(rule.to_string(), "GET,HEAD https://api.example.com/v1/*");
/// # Ok::<(), pinion_egress::InvalidRule>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    pub(super) is_private: bool,
    /// `None` stands for all methods.
    pub(super) methods: Option<BTreeSet<String>>,
    pub(super) scheme: Scheme,
    pub(super) host: HostPattern,
    pub(super) port: u16,
    /// The normalized path without a final `/`; empty for all paths.
    pub(super) path: String,
    /// The decoded segments of `path`.
    pub(super) segments: Vec<Vec<u8>>,
}

/// The hosts of a rule. Names are in ASCII and lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HostPattern {
    Any,
    Name(String),
    Below(String),
    Address(IpAddr),
}

impl Rule {
    /// Returns whether the rule covers a request, apart from the addresses of its host.
    pub fn covers(&self, method: &str, target: &RequestTarget) -> bool {
        self.covers_origin(target)
            && self.methods.as_ref().is_none_or(|methods| methods.contains(method))
            && self.covers_path(target)
    }

    /// Returns whether the rule covers some requests to the same scheme, host and port.
    pub(crate) fn covers_origin(&self, target: &RequestTarget) -> bool {
        self.scheme == target.scheme() && self.port == target.port() && self.host.covers(target.target_host())
    }

    /// Returns whether this rule covers every method and URL that `other` covers. The addresses of hosts do not matter.
    pub fn includes(&self, other: &Self) -> bool {
        let has_methods = |methods: &BTreeSet<String>| other.methods.as_ref().is_some_and(|of| of.is_subset(methods));
        self.scheme == other.scheme
            && self.port == other.port
            && self.host.includes(&other.host)
            && self.methods.as_ref().is_none_or(has_methods)
            && other.segments.starts_with(&self.segments)
    }

    /// Returns the rule for the requests that both rules cover; `None` if there are no such requests. It covers no
    /// address that this rule does not cover, even if `other` covers it.
    #[must_use]
    pub fn limited_to(&self, other: &Self) -> Option<Self> {
        let host = self.host.limited_to(&other.host)?;
        let methods = match (&self.methods, &other.methods) {
            (Some(own), Some(others)) => Some(own & others),
            (own, others) => own.clone().or_else(|| others.clone()),
        };
        let longer = match (self.segments.starts_with(&other.segments), other.segments.starts_with(&self.segments)) {
            (true, _) => self,
            (_, true) => other,
            _ => return None,
        };
        let is_empty = methods.as_ref().is_some_and(BTreeSet::is_empty);
        let is_same_origin = self.scheme == other.scheme && self.port == other.port;
        (is_same_origin && !is_empty).then(|| Self {
            is_private: self.is_private,
            methods,
            scheme: self.scheme,
            host,
            port: self.port,
            path: longer.path.clone(),
            segments: longer.segments.clone(),
        })
    }

    fn covers_path(&self, target: &RequestTarget) -> bool {
        self.segments.is_empty() || target.segments().is_some_and(|segments| segments.starts_with(&self.segments))
    }

    /// Returns whether the rule covers addresses of a class, for the hosts that it covers.
    pub(super) fn admits(&self, class: AddressClass) -> bool {
        self.host.admits(class, self.is_private)
    }

    /// Returns whether everything that the rule covers is encrypted or stays on this machine.
    pub(crate) fn is_confidential(&self) -> bool {
        let is_local = match &self.host {
            HostPattern::Name(name) => is_localhost(name),
            HostPattern::Address(address) => address.is_loopback(),
            HostPattern::Any | HostPattern::Below(_) => false,
        };
        self.scheme == Scheme::Https || is_local
    }

    /// Returns the host of a rule for HTTPS, or the name that is above all of its hosts; `None` for other rules.
    pub(crate) fn encrypted_host(&self) -> Option<TargetHost> {
        match &self.host {
            _ if self.scheme == Scheme::Http => None,
            HostPattern::Any => None,
            HostPattern::Name(name) | HostPattern::Below(name) => Some(TargetHost::Name(name.clone())),
            HostPattern::Address(address) => Some(TargetHost::Address(*address)),
        }
    }

    /// Returns whether the rule covers every host.
    pub(crate) fn is_for_any_host(&self) -> bool {
        self.host == HostPattern::Any
    }
}

impl HostPattern {
    /// Returns whether a rule with this pattern covers addresses of a class. `is_private` if the rule has that mark.
    pub(super) fn admits(&self, class: AddressClass, is_private: bool) -> bool {
        match (self, class.reach()) {
            (_, AddressReach::Never) => false,
            (Self::Address(_), _) | (_, AddressReach::Public) => true,
            (Self::Name(name), AddressReach::Private) if is_localhost(name) => class == AddressClass::Loopback,
            (_, AddressReach::Private) => is_private,
            (_, AddressReach::Literal) => false,
        }
    }

    /// Returns whether this pattern matches every host that `other` matches.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Below(_), Self::Name(name)) => self.covers(&TargetHost::Name(name.clone())),
            (Self::Below(own), Self::Below(parent)) => own == parent || self.covers(&TargetHost::Name(parent.clone())),
            (own, other) => own == other,
        }
    }

    /// Returns the pattern for the hosts that both match. A wildcard does not become the name of this machine or an
    /// address of a special purpose, because a rule that names such a host admits more than a wildcard.
    fn limited_to(&self, other: &Self) -> Option<Self> {
        if other.includes(self) {
            return Some(self.clone());
        }
        let is_special = match other {
            Self::Name(name) => is_localhost(name),
            Self::Address(address) => AddressClass::from_address(*address).reach() != AddressReach::Public,
            Self::Any | Self::Below(_) => false,
        };
        (self.includes(other) && !is_special).then(|| other.clone())
    }

    pub(super) fn covers(&self, host: &TargetHost) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Name(name), TargetHost::Name(host)) => name == host,
            (Self::Below(parent), TargetHost::Name(host)) => {
                host.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Self::Address(address), TargetHost::Address(host)) => address == host,
            _ => false,
        }
    }
}

impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        parse::rule(text)
    }
}

impl TryFrom<String> for Rule {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

/// Writes the rule with its scheme and without defaults.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_private {
            f.write_str("private ")?;
        }
        for (at, method) in self.methods.iter().flatten().enumerate() {
            write!(f, "{}{method}", if at == 0 { "" } else { "," })?;
        }
        let space = if self.methods.is_some() { " " } else { "" };
        write!(f, "{space}{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}/*", self.path)?;
        }
        Ok(())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Below(parent) => write!(f, "*.{parent}"),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(rule: &str, method: &str, url: &str) -> bool {
        rule.parse::<Rule>().unwrap().covers(method, &RequestTarget::parse(url).unwrap())
    }

    #[test]
    fn rules_cover_exactly_their_requests() {
        for (rule, method, url) in [
            ("api.example.com", "DELETE", "https://API.example.com/any?q=1"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v1"),
            ("https://api.example.com/v1", "GET", "https://api.example.com/v1/"),
            ("https://api.example.com/v1/", "GET", "https://api.example.com/v1/a/../b"),
            ("https://a.example/caf%c3%a9", "GET", "https://a.example/café/x"),
            ("https://a.example/api", "GET", "https://a.example/api/group%2Fproject"),
            ("https://a.example", "GET", "https://a.example/..%2f100%25"),
            ("GET,HEAD *.example.com", "HEAD", "https://a.b.example.com/"),
            ("http://localhost:3000", "GET", "http://localhost:3000/x"),
            ("https://bücher.example", "GET", "https://xn--bcher-kva.example/"),
            ("http://10.0.0.5", "GET", "http://0xa000005/"),
            ("http://[::1]:8080", "GET", "http://[0:0:0:0:0:0:0:1]:8080/"),
            ("*", "GET", "https://any.example/"),
        ] {
            assert!(covers(rule, method, url), "{rule} {method} {url}");
        }
        for (rule, method, url) in [
            ("api.example.com", "GET", "http://api.example.com/"),
            ("api.example.com", "GET", "https://api.example.com:8443/"),
            ("api.example.com", "GET", "https://api.example.com.evil.example/"),
            ("api.example.com", "GET", "https://x.api.example.com/"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v10"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v1/../v2"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v1/%2e%2e/v2"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v1/..%2fv2"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/v1/%252e%252e%252fv2"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com//v1/x"),
            ("https://api.example.com/v1/x", "GET", "https://api.example.com/v1//x"),
            ("https://api.example.com/v1/x", "GET", "https://api.example.com/v1%2fx"),
            ("https://api.example.com/v1/*", "GET", "https://api.example.com/V1/x"),
            ("GET api.example.com", "POST", "https://api.example.com/"),
            ("*.example.com", "GET", "https://example.com/"),
            ("*.example.com", "GET", "https://evilexample.com/"),
            ("apple.com", "GET", "https://аpple.com/"),
            ("http://127.0.0.1", "GET", "http://[::ffff:127.0.0.1]/"),
            ("http://127.0.0.1", "GET", "http://localhost/"),
            ("*.10.example", "GET", "http://10.0.0.1/"),
        ] {
            assert!(!covers(rule, method, url), "{rule} {method} {url}");
        }
    }

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn rules_are_limited_to_what_both_cover() {
        for (one, other, both) in [
            ("https://a.example", "https://a.example/v1", "https://a.example/v1/*"),
            ("https://a.example/v1", "GET https://a.example", "GET https://a.example/v1/*"),
            ("GET,POST a.example", "POST,PUT a.example", "POST https://a.example"),
            ("*", "*.x.example", "https://*.x.example"),
            ("*.x.example", "*", "https://*.x.example"),
            ("*.x.example", "*.b.x.example", "https://*.b.x.example"),
            ("private *.corp.example", "x.corp.example", "private https://x.corp.example"),
            ("http://10.0.0.5", "http://10.0.0.5", "http://10.0.0.5"),
            ("*", "https://93.184.215.14", "https://93.184.215.14"),
        ] {
            let limited = rule(one).limited_to(&rule(other)).unwrap();
            assert_eq!(limited.to_string(), both);
            assert!(rule(one).includes(&limited) && rule(other).includes(&limited), "{one} {other}");
        }
        for (one, other) in [
            ("a.example", "b.example"),
            ("a.example", "http://a.example"),
            ("a.example", "a.example:8443"),
            ("https://a.example/v1", "https://a.example/v10"),
            ("GET a.example", "POST a.example"),
            ("*.a.example", "a.example"),
            ("*.a.example", "*.b.example"),
        ] {
            assert_eq!(rule(one).limited_to(&rule(other)), None, "{one} {other}");
            assert!(!rule(one).includes(&rule(other)) && !rule(other).includes(&rule(one)), "{one} {other}");
        }
    }

    #[test]
    fn limiting_a_wildcard_opens_no_special_address() {
        for (one, other) in [
            ("http://*", "http://localhost"),
            ("http://*", "http://127.0.0.1"),
            ("http://*", "http://169.254.169.254"),
            ("http://*", "http://[fd00::1]"),
            ("http://*.a.localhost", "http://b.a.localhost"),
        ] {
            assert_eq!(rule(one).limited_to(&rule(other)), None, "{one} {other}");
        }
        let limited = rule("*.corp.example").limited_to(&rule("private x.corp.example")).unwrap();
        assert_eq!(limited.to_string(), "https://x.corp.example");
    }

    #[test]
    fn rules_are_texts_in_files() {
        let rule: Rule = serde_json::from_str(r#""GET a.example/v1""#).unwrap();
        assert_eq!(serde_json::to_string(&rule).unwrap(), r#""GET https://a.example/v1/*""#);
        assert!(serde_json::from_str::<Rule>(r#""https://me@a.example""#).is_err());
    }
}
