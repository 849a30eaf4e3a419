//! A network with its own names and addresses. The integration tests of the repository include this file, too.

#![allow(unreachable_pub, reason = "public where the support crate of the integration tests includes it")]

use pinion_egress::{Connecting, Network, Resolving};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;

/// The address of the names that tests use.
pub const PUBLIC: &str = "93.184.215.14";

/// Answers for names, servers behind addresses, and everything that was asked for.
#[derive(Default)]
pub struct TestNetwork {
    names: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    servers: Mutex<HashMap<IpAddr, SocketAddr>>,
    /// The names so far, once for each question.
    pub resolved: Mutex<Vec<String>>,
    /// The targets of all attempted connections so far.
    pub connected: Mutex<Vec<SocketAddr>>,
}

impl TestNetwork {
    /// A network without names and servers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Answers the next question for a name with these addresses. The last answer is repeated.
    pub fn answers(&self, name: &str, addresses: &str) {
        let addresses = addresses.split_whitespace().map(|address| address.parse().unwrap()).collect();
        self.names.lock().unwrap().entry(name.to_owned()).or_default().push_back(addresses);
    }

    /// Puts a server behind an address, on every port.
    pub fn serves(&self, address: &str, server: SocketAddr) {
        self.servers.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    /// A network where `api.example.com` is this server.
    pub fn with_api(server: SocketAddr) -> Arc<Self> {
        let network = Self::new();
        network.answers("api.example.com", PUBLIC);
        network.serves(PUBLIC, server);
        network
    }

    /// Returns the addresses of all attempted connections so far, without ports.
    pub fn addresses(&self) -> Vec<String> {
        self.connected.lock().unwrap().iter().map(|address| address.ip().to_string()).collect()
    }
}

impl Network for TestNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.resolved.lock().unwrap().push(name.to_owned());
        let mut names = self.names.lock().unwrap();
        let answer = names.get_mut(name).map(|answers| match answers.len() {
            0 | 1 => answers.front().cloned().unwrap_or_default(),
            _ => answers.pop_front().unwrap_or_default(),
        });
        let answer = answer.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such host"));
        Box::pin(async move { answer })
    }

    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        self.connected.lock().unwrap().push(address);
        let server = self.servers.lock().unwrap().get(&address.ip()).copied();
        Box::pin(async move {
            match server {
                Some(server) => TcpStream::connect(server).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}
