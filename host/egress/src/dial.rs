//! Connections to addresses that were checked, and the resolver and sockets behind them, which tests replace.
//!
//! A name is resolved once per connection, every address is checked, and the connection goes to one of these addresses.
//! Nothing resolves the name again, so that its answer cannot change between check and connection. `localhost` and the
//! names below it are not resolved at all: they are `127.0.0.1` and `::1`.

use crate::error::ExchangeFailure;
use crate::limits::Clock;
use crate::policy::Denial;
use crate::target::{RequestTarget, TargetHost, is_localhost};
use futures_util::future::BoxFuture;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::{TcpStream, lookup_host};

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// The addresses of a name.
pub type Resolving<'a> = BoxFuture<'a, io::Result<Vec<IpAddr>>>;

/// A connection being opened.
pub type Connecting<'a> = BoxFuture<'a, io::Result<TcpStream>>;

/// Resolves names and opens connections. It decides nothing: the client checks every address in between, and connects
/// to the addresses that it has checked. Dropping a future abandons the attempt.
pub trait Network: Send + Sync {
    /// Returns all addresses of a name, in the order of preference. Called once per request and redirect, and not for
    /// addresses and `localhost`.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;

    /// Connects to exactly this address.
    fn connect(&self, address: SocketAddr) -> Connecting<'_>;
}

/// The network of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move { Ok(lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    }

    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        Box::pin(TcpStream::connect(address))
    }
}

/// Connects to the host of `target`, if `check` admits all of its addresses.
pub(crate) async fn dial(
    network: &dyn Network,
    target: &RequestTarget,
    check: impl Fn(IpAddr) -> Result<(), Denial>,
    clock: &Clock,
) -> Result<(TcpStream, SocketAddr), ExchangeFailure> {
    let addresses = resolve(network, target, clock).await?;
    for address in &addresses {
        check(*address)?;
    }
    let (stream, address) = connect(network, target, &addresses, clock).await?;
    // Requests are written at once; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    Ok((stream, address))
}

async fn resolve(network: &dyn Network, target: &RequestTarget, clock: &Clock) -> Result<Vec<IpAddr>, ExchangeFailure> {
    let name = match target.target_host() {
        TargetHost::Address(address) => return Ok(vec![*address]),
        TargetHost::Name(name) if is_localhost(name) => {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        TargetHost::Name(name) => name,
    };
    match clock.run(network.resolve(name)).await? {
        Ok(addresses) if addresses.is_empty() => Err(ExchangeFailure::Failed(format!("`{name}` has no address"))),
        Ok(addresses) => Ok(addresses),
        Err(error) => Err(ExchangeFailure::Failed(format!("could not find an address of `{name}`: {error}"))),
    }
}

/// Tries the addresses in order. Each has an equal share of the remaining time.
async fn connect(
    network: &dyn Network,
    target: &RequestTarget,
    addresses: &[IpAddr],
    clock: &Clock,
) -> Result<(TcpStream, SocketAddr), ExchangeFailure> {
    let count = addresses.len().min(MAX_ADDRESSES);
    let mut failure = ExchangeFailure::Failed(format!("`{}` has no address", target.host()));
    for (tried, address) in addresses.iter().take(count).enumerate() {
        let address = SocketAddr::new(*address, target.port());
        let left = u32::try_from(count - tried).unwrap_or(1);
        let clock = if left == 1 { clock.clone() } else { clock.within(clock.remaining() / left) };
        failure = match clock.run(network.connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => ExchangeFailure::Failed(format!("could not connect to `{target}`: {error}")),
            Err(ExchangeFailure::TimedOut(after)) => ExchangeFailure::TimedOut(after),
            Err(failure) => return Err(failure),
        };
    }
    Err(failure)
}
