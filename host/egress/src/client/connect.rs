//! Connections of the client, with TLS if the URL asks for it.

use crate::client::tls;
use crate::dial::dial;
use crate::error::Failure;
use crate::limits::Clock;
use crate::metered::Metered;
use crate::network::Network;
use crate::observer::Report;
use crate::policy::Covering;
use crate::target::{Scheme, Target, TargetHost};
use pinion_protocol::text::with_causes;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// A connection, with or without TLS.
pub(super) type Stream = Metered<Box<dyn Transport>>;

pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

pub(super) struct Connector {
    network: Arc<dyn Network>,
    roots: Vec<CertificateDer<'static>>,
    /// Set by the first request that needs it.
    tls: OnceCell<Arc<ClientConfig>>,
}

impl Connector {
    pub(super) fn new(network: Arc<dyn Network>, roots: Vec<CertificateDer<'static>>) -> Self {
        Self { network, roots, tls: OnceCell::new() }
    }

    /// Connects to the host of `target`, if the rules that cover the request admit all of its addresses.
    pub(super) async fn connect(
        &self,
        target: &Target,
        covering: &Covering<'_>,
        clock: &Clock,
        report: &mut Report,
    ) -> Result<Stream, Failure> {
        let check = |address| covering.check(target, address);
        let (stream, address) = dial(&*self.network, target, check, clock).await?;
        report.exchange.address = Some(address);
        let stream: Box<dyn Transport> = match target.scheme() {
            Scheme::Http => Box::new(stream),
            Scheme::Https => self.encrypt(target, stream, clock).await?,
        };
        Ok(Metered::new(stream, report.meter.clone()))
    }

    async fn encrypt(&self, target: &Target, stream: TcpStream, clock: &Clock) -> Result<Box<dyn Transport>, Failure> {
        let config = clock.run(self.tls()).await??;
        let name = match target.target_host() {
            TargetHost::Address(address) => ServerName::from(*address),
            TargetHost::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| Failure::Failed(format!("`{name}` cannot be the name of a TLS server")))?,
        };
        match clock.run(TlsConnector::from(config).connect(name, stream)).await? {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(Failure::Failed(format!("no TLS connection to `{target}`: {}", with_causes(&error)))),
        }
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        let failed = |error: String| Failure::Failed(format!("could not set up TLS: {error}"));
        let config = self.tls.get_or_try_init(|| async {
            let roots = self.roots.clone();
            let built = tokio::task::spawn_blocking(move || tls::config(&roots)).await;
            let built = built.map_err(|error| failed(error.to_string()))?;
            built.map(Arc::new).map_err(|error| failed(error.to_string()))
        });
        config.await.cloned()
    }
}
