//! Hosts that programs may connect to with data that Pinion does not see.

use super::parse::{self, InvalidRule};
use super::{Denial, rule::HostPattern};
use crate::address::AddressClass;
use crate::target::RequestTarget;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Ports of a rule without ports.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// A pattern of hosts and ports: `["private "] host [":" port]`, with the hosts of [`Rule`](super::Rule).
///
/// Without a port it covers 80 and 443. It covers the same addresses as a [`Rule`](super::Rule) with that host: public ones
/// unless it is an address itself, `localhost`, or marked `private`.
///
/// ```
/// use pinion_egress::HostRule;
///
/// let rule: HostRule = "*.NPMJS.org:443".parse()?;
/// assert_eq!(rule.to_string(), "*.npmjs.org:443");
/// # Ok::<(), pinion_egress::InvalidRule>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    pub(super) is_private: bool,
    pub(super) host: HostPattern,
    /// `None` stands for the usual ports.
    pub(super) port: Option<u16>,
}

impl HostRule {
    /// Returns whether the rule covers every host of the public internet.
    pub fn is_for_any_host(&self) -> bool {
        self.host == HostPattern::Any
    }

    fn denies(&self, target: &RequestTarget) -> bool {
        self.port.is_none_or(|port| port == target.port()) && self.host.covers(target.target_host())
    }

    fn covers(&self, target: &RequestTarget) -> bool {
        let has_port = match self.port {
            Some(port) => port == target.port(),
            None => USUAL_PORTS.contains(&target.port()),
        };
        has_port && self.host.covers(target.target_host())
    }
}

impl FromStr for HostRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        parse::host_rule(text).map(|parse::HostParts { is_private, host, port }| Self { is_private, host, port })
    }
}

impl TryFrom<String> for HostRule {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        text.parse()
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

/// Shows the canonical form, which parses to the same rule.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_private {
            write!(f, "{} ", parse::PRIVATE)?;
        }
        write!(f, "{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The hosts that programs may connect to. The empty list denies everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    rules: Vec<HostRule>,
    denied: Vec<HostRule>,
}

impl Hosts {
    /// Creates a list that allows hosts that any of these rules covers.
    pub fn new(rules: Vec<HostRule>) -> Self {
        Self { rules, denied: Vec::new() }
    }

    /// Denies hosts that any of these rules covers, even if another rule allows them. A rule without a port covers all
    /// ports.
    #[must_use]
    pub fn denying(mut self, denied: Vec<HostRule>) -> Self {
        self.denied = denied;
        self
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[HostRule] {
        &self.rules
    }

    /// Checks host and port. The addresses of the host remain to be checked when it is resolved.
    pub(crate) fn check(&self, target: &RequestTarget) -> Result<(), Denial> {
        let (host, port) = (target.host().to_owned(), target.port());
        match self.covering(target).next() {
            Some(_) => Ok(()),
            None if self.is_denied(target) => Err(Denial::Denied { host, port }),
            None => Err(Denial::Host { host, port }),
        }
    }

    /// Checks one address of a host.
    pub(crate) fn check_address(&self, target: &RequestTarget, address: IpAddr) -> Result<(), Denial> {
        let class = AddressClass::from_address(address);
        match self.covering(target).any(|rule| rule.host.admits(class, rule.is_private)) {
            true => Ok(()),
            false => Err(Denial::Address { host: target.host().to_owned(), address, class }),
        }
    }

    fn covering<'a>(&'a self, target: &'a RequestTarget) -> impl Iterator<Item = &'a HostRule> {
        let is_denied = self.is_denied(target);
        self.rules.iter().filter(move |rule| !is_denied && rule.covers(target))
    }

    fn is_denied(&self, target: &RequestTarget) -> bool {
        self.denied.iter().any(|rule| rule.denies(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(rules: &[&str]) -> Hosts {
        Hosts::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn target(authority: &str) -> RequestTarget {
        RequestTarget::parse(&format!("http://{authority}/")).unwrap()
    }

    #[test]
    fn denied_host_is_denied_at_every_port_whatever_allows_it() {
        let denied = ["*.a.example", "b.example", "c.example:443"].map(|rule| rule.parse().unwrap()).to_vec();
        let hosts = hosts(&["*", "*:22", "x.a.example", "b.example:22"]).denying(denied);
        for authority in ["x.a.example", "X.A.Example:22", "b.example:443", "b.example:22", "c.example:443"] {
            // The user is not told how to allow it: that would change nothing.
            assert!(matches!(hosts.check(&target(authority)), Err(Denial::Denied { .. })), "{authority}");
        }
        for authority in ["a.example:443", "c.example:80", "d.example:22"] {
            assert_eq!(hosts.check(&target(authority)), Ok(()), "{authority}");
        }
    }

    #[test]
    fn rules_cover_exactly_their_hosts_and_ports() {
        for (rule, covered, others) in [
            ("a.example", "a.example:443 a.example:80 A.example:443", "a.example:22 b.a.example:443 a.example.b:443"),
            ("a.example:22", "a.example:22", "a.example:443"),
            ("*.a.example", "b.a.example:443 c.b.a.example:80", "a.example:443 ba.example:443"),
            ("10.0.0.5:5432", "10.0.0.5:5432 0xa000005:5432", "10.0.0.6:5432 10.0.0.5:443"),
            ("[::1]:80", "[0:0::1]:80", "[::2]:80 127.0.0.1:80"),
            ("*:8443", "x.example:8443", "x.example:443"),
        ] {
            let hosts = hosts(&[rule]);
            for authority in covered.split(' ') {
                assert_eq!(hosts.check(&target(authority)), Ok(()), "{rule} {authority}");
            }
            for authority in others.split(' ') {
                assert!(hosts.check(&target(authority)).is_err(), "{rule} {authority}");
            }
        }
        assert!(Hosts::default().check(&target("a.example:443")).is_err());
    }

    #[test]
    fn private_addresses_need_a_rule_that_admits_them() {
        let admits = |rule: &str, authority: &str, address: &str| {
            hosts(&[rule]).check_address(&target(authority), address.parse().unwrap()).is_ok()
        };
        assert!(admits("a.example", "a.example:443", "1.1.1.1"));
        for address in ["10.0.0.1", "127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0"] {
            assert!(!admits("a.example", "a.example:443", address), "{address}");
        }
        assert!(admits("private a.example", "a.example:443", "10.0.0.1"));
        assert!(!admits("private a.example", "a.example:443", "169.254.169.254"));
        assert!(admits("169.254.169.254", "169.254.169.254:80", "169.254.169.254"));
        assert!(admits("localhost:3000", "localhost:3000", "127.0.0.1"));
    }

    #[test]
    fn texts_that_are_no_hosts_are_refused_with_a_hint() {
        for text in [
            "",
            "https://a.example",
            "a.example/",
            "GET a.example",
            "me@a.example",
            "a.example:0",
            "a.example:",
            "*.com",
            "a*b.example",
            "private *",
            "private 10.0.0.1",
            "0x7f.1",
            "a.example\0.b",
            "a.example?x",
            "a..example",
        ] {
            let error = text.parse::<HostRule>().map(|rule| rule.to_string()).unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn shown_rule_is_the_same_rule(text in "(private )?(\\*\\.)?[a-z0-9.\\[\\]:*-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(rule) = text.parse::<HostRule>() {
                prop_assert_eq!(rule.to_string().parse(), Ok(rule));
            }
        }
    }
}
