//! The system's resolver and sockets, behind a trait that tests replace.

use futures_util::future::BoxFuture;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpStream, lookup_host};

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
