//! Network access on behalf of plugins: the one place that decides on it and performs it.
//!
//! A plugin names a URL, and a credential by its handle. [`Client::send`] checks the request against the [`Policy`],
//! resolves the host itself, checks every address ([`AddressClass`]), connects to exactly these addresses, inserts the
//! credential, follows redirects with the same checks, and returns a [`Response`] that contains no secret and stays
//! within the [`RequestLimits`]. The crate reads no environment and no file, except for the certificate authorities of the
//! system, and keeps no cookies, no cache and no connections.
//!
//! A [`Proxy`] does the same for programs that speak HTTP or SOCKS to it: it checks host, port and every address against
//! its [`Hosts`], and moves bytes that it does not see. At the hosts of [`ProxyCredentials`] it reads the requests, and puts
//! secrets in place of the placeholders that programs have.

mod address;
mod client;
mod credential;
mod decode;
mod dial;
mod error;
mod limits;
mod observer;
mod policy;
mod proxy;
mod request;
mod response;
mod target;
mod tls;

pub use address::AddressClass;
pub use client::{Client, ClientSettings, RequestAccess};
pub use credential::{Credential, CredentialError, Credentials, Placement};
pub use dial::{Connecting, Network, Resolving, SystemNetwork};
pub use error::{Limit, SendError};
pub use limits::RequestLimits;
pub use observer::{Exchange, ExchangeOutcome, Observer};
pub use policy::{Denial, HostRule, Hosts, InvalidRule, Policy, Rule};
pub use proxy::{AuthorityError, CredentialValues, Proxy, ProxyCredential, ProxyCredentials, ProxySettings};
pub use request::{Redirects, Request};
pub use response::Response;
pub use target::{InvalidUrl, RequestTarget, Scheme};
pub use tls::InvalidCertificates;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
