//! TLS with the system's certificate authorities.

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use std::sync::Arc;

/// Configures TLS for HTTP/1.1. Reads the system's certificate authorities, which blocks for some milliseconds.
pub(super) fn config(roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match roots {
        [] => config.with_platform_verifier()?.with_no_client_auth(),
        roots => {
            let verifier = Verifier::new_with_extra_roots(roots.iter().cloned(), provider)?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
