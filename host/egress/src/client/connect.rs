//! Connections to addresses that were checked.
//!
//! A name is resolved once per request, every address is checked, and the connection goes to one of these addresses.
//! Nothing resolves the name again, so that its answer cannot change between check and connection. `localhost` and the
//! names below it are not resolved at all: they are `127.0.0.1` and `::1`.

use crate::client::metered::Metered;
use crate::client::tls;
use crate::error::Failure;
use crate::limits::Clock;
use crate::network::Network;
use crate::observer::Report;
use crate::policy::Covering;
use crate::target::{Scheme, Target, TargetHost, is_localhost};
use pinion_protocol::text::with_causes;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

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
        let addresses = self.resolve(target, clock).await?;
        for address in &addresses {
            covering.check(target, *address)?;
        }
        let (stream, address) = self.dial(target, &addresses, clock).await?;
        report.exchange.address = Some(address);
        // Requests are written at once; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Transport> = match target.scheme() {
            Scheme::Http => Box::new(stream),
            Scheme::Https => self.encrypt(target, stream, clock).await?,
        };
        Ok(Metered::new(stream, report.meter.clone()))
    }

    async fn resolve(&self, target: &Target, clock: &Clock) -> Result<Vec<IpAddr>, Failure> {
        let name = match target.target_host() {
            TargetHost::Address(address) => return Ok(vec![*address]),
            TargetHost::Name(name) if is_localhost(name) => {
                return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
            }
            TargetHost::Name(name) => name,
        };
        match clock.run(self.network.resolve(name)).await? {
            Ok(addresses) if addresses.is_empty() => Err(Failure::Failed(format!("`{name}` has no address"))),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(Failure::Failed(format!("could not find an address of `{name}`: {error}"))),
        }
    }

    /// Tries the addresses in order. Each has an equal share of the remaining time.
    async fn dial(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        clock: &Clock,
    ) -> Result<(TcpStream, SocketAddr), Failure> {
        let count = addresses.len().min(MAX_ADDRESSES);
        let mut failure = Failure::Failed(format!("`{}` has no address", target.host()));
        for (tried, address) in addresses.iter().take(count).enumerate() {
            let address = SocketAddr::new(*address, target.port());
            let left = u32::try_from(count - tried).unwrap_or(1);
            let clock = if left == 1 { clock.clone() } else { clock.within(clock.remaining() / left) };
            failure = match clock.run(self.network.connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => Failure::Failed(format!("could not connect to `{target}`: {error}")),
                Err(Failure::TimedOut(after)) => Failure::TimedOut(after),
                Err(failure) => return Err(failure),
            };
        }
        Err(failure)
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
