//! A proxy, and the requests that programs send to it.

use crate::support::Reports;
use crate::support::network::TestNetwork;
use pinion_egress::{Denial, ExchangeOutcome, Hosts, Proxy, ProxyCredentials, ProxySettings};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A proxy that ends when it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) hosts: watch::Sender<Arc<Hosts>>,
    pub(crate) reports: Arc<Reports>,
    _task: JoinSet<()>,
}

pub(crate) fn hosts(rules: &[&str]) -> Arc<Hosts> {
    Arc::new(Hosts::new(rules.iter().map(|rule| rule.parse().unwrap()).collect()))
}

fn advice(denial: &Denial) -> Option<String> {
    match denial {
        Denial::Host { host, .. } => Some(format!("allow {host}")),
        _ => None,
    }
}

impl Running {
    pub(crate) async fn start(network: &Arc<TestNetwork>, rules: &[&str]) -> Self {
        Self::start_with(network, rules, None).await
    }

    pub(crate) async fn start_with(
        network: &Arc<TestNetwork>,
        rules: &[&str],
        credentials: Option<Arc<ProxyCredentials>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hosts = watch::Sender::new(hosts(rules));
        let reports = Arc::new(Reports::default());
        let proxy = Proxy::new(ProxySettings {
            network: network.clone(),
            hosts: hosts.subscribe(),
            observer: Some(reports.clone()),
            advice,
            credentials,
        });
        let mut task = JoinSet::new();
        task.spawn(async move { proxy.serve(listener).await });
        Self { address, hosts, reports, _task: task }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and returns all that comes back until the proxy closes the connection.
    pub(crate) async fn says(&self, bytes: impl AsRef<[u8]>) -> String {
        Self::rest(self.sends(bytes.as_ref()).await).await
    }

    /// Sends bytes and nothing after them, and waits until the proxy closes the connection.
    pub(crate) async fn hangs_up_after(&self, bytes: &[u8]) {
        let mut stream = self.sends(bytes).await;
        let _ = stream.shutdown().await;
        Self::rest(stream).await;
    }

    /// Returns whether a tunnel is opened.
    pub(crate) async fn opens(&self, authority: &str) -> bool {
        head(&mut self.sends(connect_to(authority).as_bytes()).await).await.starts_with("HTTP/1.1 200")
    }

    pub(crate) async fn sends(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        // The proxy may close the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        stream
    }

    pub(crate) async fn rest(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn outcomes(&self) -> Vec<(String, u16, ExchangeOutcome)> {
        let reports = self.reports.0.lock().unwrap();
        reports.iter().map(|report| (report.host.clone(), report.port, report.outcome.clone())).collect()
    }
}

pub(crate) fn connect_to(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
}

pub(crate) fn socks(name: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat()
}

pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
