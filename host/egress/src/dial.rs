//! Connections to addresses that were checked.
//!
//! A name is resolved once per connection, every address is checked, and the connection goes to one of these addresses.
//! Nothing resolves the name again, so that its answer cannot change between check and connection. `localhost` and the
//! names below it are not resolved at all: they are `127.0.0.1` and `::1`.

use crate::error::ExchangeFailure;
use crate::limits::Clock;
use crate::network::Network;
use crate::policy::Denial;
use crate::target::{RequestTarget, TargetHost, is_localhost};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpStream;

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

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
