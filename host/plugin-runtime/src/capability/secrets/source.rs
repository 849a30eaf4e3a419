//! The source of secrets: the application, which knows the user's definitions.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_egress::{InvalidRule, Placement, Rule};
use secrecy::SecretString;
use std::fmt;

/// The secrets that the user defined. Implemented by the application.
pub trait SecretSource: Send + Sync + fmt::Debug {
    /// Returns whether a secret of this name is defined and has a value, to the extent that is known without running a
    /// program.
    fn has(&self, name: &str) -> bool;

    /// Returns the value of a secret. Before it does, it adds the value to everything that redacts output. May read files
    /// and wait for programs, in bounded time; dropping the future stops both.
    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, SecretError>>;

    /// Returns the HTTP requests that may carry a secret; `None` if the user named no hosts.
    fn requests(&self, name: &str) -> Option<SecretRequests>;
}

/// The HTTP requests that may carry a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRequests {
    /// The URLs that they begin with, such as `https://api.github.com/`.
    pub hosts: Vec<String>,
    /// The part of the request that contains the secret.
    pub placement: SecretPlacement,
}

impl SecretRequests {
    /// Parses the URLs as rules of requests.
    ///
    /// # Errors
    /// One of them is not a rule.
    pub fn rules(&self) -> Result<Vec<Rule>, InvalidRule> {
        self.hosts.iter().map(|host| host.parse()).collect()
    }
}

/// The part of an HTTP request that contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretPlacement {
    /// A header field.
    Header {
        /// The name, such as `authorization`.
        name: String,
        /// The word before the secret, such as `Bearer`; `None` if the secret is the whole value.
        scheme: Option<String>,
    },
    /// The password of `authorization: Basic`.
    Basic {
        /// The user name.
        user: String,
    },
    /// A parameter of the query.
    Query {
        /// The name of the parameter.
        parameter: String,
    },
}

impl From<SecretPlacement> for Placement {
    fn from(placement: SecretPlacement) -> Self {
        match placement {
            SecretPlacement::Header { name, scheme } => {
                Self::Header { name, prefix: scheme.map_or_else(String::new, |scheme| format!("{scheme} ")) }
            }
            SecretPlacement::Basic { user } => Self::Basic { user },
            SecretPlacement::Query { parameter } => Self::Query { parameter },
        }
    }
}

/// A secret has no value. The text never contains one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: {hint}")]
pub struct SecretError {
    /// The failure, with the name of the secret.
    pub what: String,
    /// The remedy.
    pub hint: String,
}

/// Defines no secrets: for applications and tests without any.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn has(&self, _name: &str) -> bool {
        false
    }

    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, SecretError>> {
        let what = format!("no secret `{name}` is defined");
        futures_util::future::err(SecretError { what, hint: "this host defines none".to_owned() }).boxed()
    }

    fn requests(&self, _name: &str) -> Option<SecretRequests> {
        None
    }
}
