//! The certificate of test servers. The integration tests of the repository include this file, too.

#![allow(unreachable_pub, reason = "public where the support crate of the integration tests includes it")]

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The authority that signed the certificate of [`acceptor`], as PEM.
pub const AUTHORITY: &[u8] = include_bytes!("../../fixtures/tls/authority.pem");

/// Encrypts with a certificate for `api.example.com`, `other.example.net`, `localhost` and `127.0.0.1`.
pub fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../../fixtures/tls/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../fixtures/tls/server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}
