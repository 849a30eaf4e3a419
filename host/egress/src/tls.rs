//! TLS with the system's certificate authorities.

use crate::error::ExchangeFailure;
use crate::limits::Clock;
use crate::target::{RequestTarget, TargetHost};
use pinion_protocol::text::with_causes;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// The protocol of all connections, by its name in ALPN.
pub(crate) const HTTP_1: &[u8] = b"http/1.1";

/// A connection, with or without TLS.
pub(crate) trait ConnectionStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ConnectionStream for T {}

/// The additional certificate authorities are not PEM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the certificates are not PEM: {0}")]
pub struct InvalidCertificates(String);

/// Encrypts connections to servers that have a valid certificate.
pub(crate) struct Tls {
    roots: Vec<CertificateDer<'static>>,
    /// Set by the first connection.
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// Uses the certificate authorities in `pem` besides the system's.
    pub(crate) fn new(pem: &[u8]) -> Result<Self, InvalidCertificates> {
        let roots = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let roots = roots.map_err(|error| InvalidCertificates(error.to_string()))?;
        if roots.is_empty() && !pem.trim_ascii().is_empty() {
            return Err(InvalidCertificates("no certificate found".to_owned()));
        }
        Ok(Self { roots, ..Self::of_system() })
    }

    /// Uses the system's certificate authorities.
    pub(crate) fn of_system() -> Self {
        Self { roots: Vec::new(), config: OnceCell::new() }
    }

    /// Performs the handshake with the server of `target` on a connection to it.
    pub(crate) async fn connect(
        &self,
        target: &RequestTarget,
        stream: TcpStream,
        clock: &Clock,
    ) -> Result<Box<dyn ConnectionStream>, ExchangeFailure> {
        let config = clock.run(self.config()).await??;
        let name = match target.target_host() {
            TargetHost::Address(address) => ServerName::from(*address),
            TargetHost::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| ExchangeFailure::Failed(format!("`{name}` cannot be the name of a TLS server")))?,
        };
        match clock.run(TlsConnector::from(config).connect(name, stream)).await? {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => {
                Err(ExchangeFailure::Failed(format!("no TLS connection to `{target}`: {}", with_causes(&error))))
            }
        }
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, ExchangeFailure> {
        let failed = |error: String| ExchangeFailure::Failed(format!("could not set up TLS: {error}"));
        let config = self.config.get_or_try_init(|| async {
            let roots = self.roots.clone();
            let built = tokio::task::spawn_blocking(move || config(&roots)).await;
            let built = built.map_err(|error| failed(error.to_string()))?;
            built.map(Arc::new).map_err(|error| failed(error.to_string()))
        });
        config.await.cloned()
    }
}

/// Configures TLS for HTTP/1.1. Reads the system's certificate authorities, which blocks for some milliseconds.
fn config(roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match roots {
        [] => config.with_platform_verifier()?.with_no_client_auth(),
        roots => {
            let verifier = Verifier::new_with_extra_roots(roots.iter().cloned(), provider)?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}
