//! Decisions: whether rules cover a request, and whether they cover the address that it would connect to.
//!
//! A request is allowed if a rule covers its method and URL, and if the rules that cover it admit every address of the
//! host. Both are checked for the first request and for each redirect.

mod hosts;
mod parse;
mod rule;

pub use hosts::{HostRule, Hosts};
pub use parse::InvalidRule;
pub(crate) use parse::is_method;
pub use rule::Rule;

use crate::address::AddressClass;
use crate::target::RequestTarget;
use std::net::IpAddr;

/// Maximum number of rules in a message.
const MAX_NAMED: usize = 3;

/// The rules of a plugin. The empty policy denies everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// The rules that cover one request; never empty.
#[derive(Debug)]
pub(crate) struct Covering<'a>(Vec<&'a Rule>);

/// The reason why the policy refuses a request. No text contains a path, a query or a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// No rule covers the method and URL.
    #[error("no network rule covers `{method} {origin}`{}", hint(.granted))]
    NotCovered {
        /// The method of the request.
        method: String,
        /// Scheme, host and port of the URL.
        origin: String,
        /// Rules for the same origin with other methods or paths.
        granted: Vec<String>,
    },
    /// Programs may not connect to the host.
    #[error("`{host}:{port}` is not an allowed host")]
    Host {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// A rule denies the host, even if another rule allows it.
    #[error("`{host}:{port}` is denied by a rule")]
    Denied {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The host has an address that needs a special rule.
    #[error("`{host}` is at {address}, {class} address, which its network rule does not include")]
    Address {
        /// The host of the URL.
        host: String,
        /// The first address that was refused.
        address: IpAddr,
        /// The purpose of the address.
        class: AddressClass,
    },
    /// No such credential was granted.
    #[error("the credential `{name}` is not granted")]
    UnknownCredential {
        /// The handle in the request.
        name: String,
    },
    /// The credential is for other URLs.
    #[error("the credential `{name}` must not be sent to `{origin}`")]
    Credential {
        /// The handle in the request.
        name: String,
        /// Scheme, host and port of the URL.
        origin: String,
    },
    /// A server tried to pass a credential on to another one.
    #[error("the redirect to `{origin}` contains a credential")]
    CredentialInRedirect {
        /// Scheme, host and port of the URL, without the credential.
        origin: String,
    },
}

impl Policy {
    /// Creates a policy that allows requests that any of these rules covers.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Checks the method and URL of a request. The addresses of the host remain to be checked when it is resolved.
    ///
    /// # Errors
    /// No rule covers the request.
    pub fn check(&self, method: &str, target: &RequestTarget) -> Result<(), Denial> {
        self.covering(method, target).map(drop)
    }

    pub(crate) fn covering(&self, method: &str, target: &RequestTarget) -> Result<Covering<'_>, Denial> {
        let covering: Vec<&Rule> = self.rules.iter().filter(|rule| rule.covers(method, target)).collect();
        if covering.is_empty() {
            let granted = self.rules.iter().filter(|rule| rule.covers_origin(target)).take(MAX_NAMED);
            return Err(Denial::NotCovered {
                method: method.to_owned(),
                origin: target.to_string(),
                granted: granted.map(Rule::to_string).collect(),
            });
        }
        Ok(Covering(covering))
    }
}

impl Covering<'_> {
    /// Checks one address of the host.
    pub(crate) fn check(&self, target: &RequestTarget, address: IpAddr) -> Result<(), Denial> {
        let class = AddressClass::from_address(address);
        match self.0.iter().any(|rule| rule.admits(class)) {
            true => Ok(()),
            false => Err(Denial::Address { host: target.host().to_owned(), address, class }),
        }
    }
}

fn hint(granted: &[String]) -> String {
    match granted {
        [] => String::new(),
        rules => format!("\nhint: this origin is limited to `{}`", rules.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> Policy {
        Policy::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn describe_check(policy: &Policy, method: &str, url: &str) -> String {
        policy
            .check(method, &RequestTarget::parse(url).unwrap())
            .map_or_else(|denial| denial.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn denial_names_the_rules_of_the_origin_and_no_path() {
        let policy = policy(&["GET https://a.example/v1", "POST https://a.example/v2", "https://b.example"]);
        assert_eq!(describe_check(&policy, "GET", "https://a.example/v1/x?key=1"), "ok");
        assert_eq!(
            describe_check(&policy, "DELETE", "https://a.example/v1/secret?key=secret"),
            "no network rule covers `DELETE https://a.example`\n\
             hint: this origin is limited to `GET https://a.example/v1/*`, `POST https://a.example/v2/*`"
        );
        assert_eq!(
            describe_check(&policy, "GET", "http://b.example/"),
            "no network rule covers `GET http://b.example`"
        );
        assert!(describe_check(&Policy::default(), "GET", "https://a.example/").starts_with("no network rule"));
    }

    #[test]
    fn addresses_need_a_rule_that_admits_them() {
        let checked = |rules: &[&str], url: &str, address: &str| {
            let (policy, target) = (policy(rules), RequestTarget::parse(url).unwrap());
            let covering = policy.covering("GET", &target).unwrap();
            covering.check(&target, address.parse().unwrap()).map_err(|denial| denial.to_string())
        };
        let public = ["https://a.example"];
        assert_eq!(checked(&public, "https://a.example/", "1.1.1.1"), Ok(()));
        let refused = "`a.example` is at 10.0.0.1, a private address, which its network rule does not include";
        assert_eq!(checked(&public, "https://a.example/", "10.0.0.1"), Err(refused.to_owned()));
        let private = ["private https://a.example"];
        for (address, is_admitted) in [
            ("1.1.1.1", true),
            ("10.0.0.1", true),
            ("127.0.0.1", true),
            ("fd00::1", true),
            ("100.64.0.1", true),
            ("169.254.0.1", false),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("100.100.100.200", false),
            ("fd00:ec2::254", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
        ] {
            assert_eq!(checked(&private, "https://a.example/", address).is_ok(), is_admitted, "{address}");
        }
        // Rules add up.
        assert_eq!(checked(&["https://a.example", "private https://a.example"], "https://a.example/", "::1"), Ok(()));
        let named = ["http://169.254.169.254", "http://localhost:3000"];
        assert_eq!(checked(&named, "http://169.254.169.254/latest", "169.254.169.254"), Ok(()));
        assert_eq!(checked(&named, "http://localhost:3000/", "127.0.0.1"), Ok(()));
        assert!(checked(&named, "http://localhost:3000/", "10.0.0.1").is_err());
    }
}
