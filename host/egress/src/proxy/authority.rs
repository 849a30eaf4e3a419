//! The certificate authority of one process, for the hosts whose traffic the proxy reads.
//!
//! Its key stays in the memory of the process. Its certificate names the hosts that it may issue certificates for, so
//! that a program that trusts it cannot be deceived about any other host.

use crate::policy::Rule;
use crate::target::{RequestTarget, TargetHost};
use crate::tls::HTTP_1;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CidrSubnet, DistinguishedName, DnType, Error,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Validity before the present, for programs with another clock.
const BEFORE: Duration = HOUR;
/// Validity of the authority: longer than a process lives.
const AUTHORITY: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Validity of a certificate. Each connection gets a new one.
const CERTIFICATE: Duration = Duration::from_secs(24 * 60 * 60);
/// The name of the authority in the messages of programs.
const NAME: &str = "Pinion credentials of programs";

/// Issues certificates for the hosts that some rules cover.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority with a new key. Without rules it can certify nothing.
    pub(super) fn new<'a>(rules: impl Iterator<Item = &'a Rule>) -> Result<Self, Error> {
        let mut params = params(NAME, AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(constraints(rules));
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Returns the certificate of the authority.
    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Configures a server that is the host of `target`, and speaks HTTP/1.1 only.
    pub(super) fn server(&self, target: &RequestTarget) -> Result<ServerConfig, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let mut params = params(target.host(), CERTIFICATE);
        params.subject_alt_names = vec![match target.target_host() {
            TargetHost::Address(address) => SanType::IpAddress(*address),
            TargetHost::Name(name) => {
                SanType::DnsName(name.as_str().try_into().map_err(|error: Error| error.to_string())?)
            }
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key));
        let mut config = config.map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        Ok(config)
    }
}

fn params(name: &str, valid: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - BEFORE).into(), (now + valid).into());
    params.distinguished_name = DistinguishedName::new();
    // Longer names are not allowed there, and clients look at the alternative names.
    let name = if name.len() <= 64 { name } else { "host" };
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Permits the hosts of the rules. A kind of name without a permitted name is excluded as a whole.
fn constraints<'a>(rules: impl Iterator<Item = &'a Rule>) -> NameConstraints {
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for host in rules.filter_map(Rule::encrypted_host) {
        match host {
            TargetHost::Name(name) => drop(names.insert(name)),
            TargetHost::Address(address) => drop(addresses.insert(address)),
        }
    }
    let mut excluded = Vec::new();
    if names.is_empty() {
        excluded.push(GeneralSubtree::DnsName(String::new()));
    }
    let every = |address: IpAddr| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, 0));
    if !addresses.iter().any(IpAddr::is_ipv4) {
        excluded.push(every(Ipv4Addr::UNSPECIFIED.into()));
    }
    if !addresses.iter().any(IpAddr::is_ipv6) {
        excluded.push(every(Ipv6Addr::UNSPECIFIED.into()));
    }
    let one = |address: IpAddr| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits))
    };
    let permitted = names.into_iter().map(GeneralSubtree::DnsName).chain(addresses.into_iter().map(one));
    NameConstraints { permitted_subtrees: permitted.collect(), excluded_subtrees: excluded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// Returns whether a client that trusts the authority accepts its certificate for a host.
    async fn is_accepted(rules: &[&str], host: &str) -> Result<(), String> {
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let authority = Authority::new(rules.iter()).unwrap();
        let server = authority.server(&RequestTarget::parse(&format!("https://{host}/")).unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.issuer.der().to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).unwrap();
        let (near, far) = tokio::io::duplex(1 << 16);
        let (client, _server) = tokio::join!(
            TlsConnector::from(Arc::new(config)).connect(name, near),
            TlsAcceptor::from(Arc::new(server)).accept(far),
        );
        client.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn authority_certifies_the_hosts_of_its_rules_and_no_other() {
        let rules = ["api.example.com/v1", "*.example.net", "https://10.0.0.5:8443", "http://localhost:3000"];
        for host in ["api.example.com", "a.example.net", "10.0.0.5"] {
            assert_eq!(is_accepted(&rules, host).await, Ok(()), "{host}");
        }
        for host in ["example.com", "evil.example", "10.0.0.6", "[::1]", "localhost"] {
            let refused = is_accepted(&rules, host).await.unwrap_err();
            assert!(refused.contains("NameConstraint") || refused.contains("constraint"), "{host}: {refused}");
        }
        assert_eq!(is_accepted(&["https://[::1]:8443"], "[::1]").await, Ok(()));
        for host in ["a.example", "127.0.0.1"] {
            assert!(is_accepted(&["https://[::1]:8443"], host).await.is_err(), "{host}");
        }
    }

    #[test]
    fn certificates_are_valid_for_a_short_time_and_name_their_host() {
        let now = SystemTime::now();
        let is_near = |time: SystemTime| {
            let difference = time.duration_since(now).unwrap_or_else(|early| early.duration());
            difference < Duration::from_secs(60)
        };
        let valid = Duration::from_secs(3 * 24 * 60 * 60);
        let made = params("api.example.com", valid);
        assert!(
            is_near(SystemTime::from(made.not_before) + BEFORE) && is_near(SystemTime::from(made.not_after) - valid)
        );
        let named = |name: &str| params(name, valid).distinguished_name.get(&DnType::CommonName).cloned();
        assert_eq!(named("api.example.com"), Some("api.example.com".into()));
        assert_eq!(named(&"x".repeat(65)), Some("host".into()));
    }
}
