//! HTTP for logins: bounded, and only to addresses that a server may name.
//!
//! A server names the addresses of its authorization server. Without a limit, a hostile one could make this machine ask
//! services of the local network. Addresses of a private network are allowed only to servers that are in one
//! themselves.

use std::collections::HashSet;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use pinion_egress::AddressClass;
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::{Host, Url};

use super::answer::repaired;
use crate::error::causes;
use crate::http::Http;

/// Maximum bytes of a response.
const MAX_BODY: usize = 1 << 20;
/// Limit on one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Limit on resolving the server's own name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the requests of logins.
pub(super) struct OAuthHttp {
    http: Arc<Http>,
    direct: Client,
    /// Built for the first request through a proxy, which resolves names itself.
    proxied: OnceLock<Result<Client, String>>,
    reach: Arc<AllowedAddresses>,
}

/// Classes of addresses that may be asked.
#[derive(Debug)]
struct AllowedAddresses(HashSet<AddressClass>);

impl AllowedAddresses {
    /// Returns the classes for a server: the global one, and the classes of the server's addresses.
    async fn for_server(server: &Url) -> Self {
        let own: Vec<IpAddr> = match server.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            Some(Host::Domain(name)) => {
                let found = timeout(RESOLVE_TIMEOUT, lookup_host((name, 0))).await;
                found.ok().and_then(Result::ok).map(|found| found.map(|a| a.ip()).collect()).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let own = own.into_iter().map(AddressClass::from_address);
        let may_open = |class: &AddressClass| {
            matches!(class, AddressClass::Loopback | AddressClass::Private | AddressClass::Shared)
        };
        Self(own.filter(may_open).chain([AddressClass::Global]).collect())
    }

    fn check(&self, address: IpAddr) -> Result<(), String> {
        let class = AddressClass::from_address(address);
        match self.0.contains(&class) {
            true => Ok(()),
            false => Err(format!("the login leads to {address}, which is {class} address")),
        }
    }

    fn check_url(&self, url: &Url) -> Result<(), String> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) => Ok(()),
            None => Err("the login leads to an address without a host".to_owned()),
        }
    }
}

/// Resolves names to addresses within the reach.
struct Resolver(Arc<AllowedAddresses>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                reach.check(address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl OAuthHttp {
    pub(super) async fn new(server: &Url, http: &Arc<Http>) -> Result<Self, String> {
        let reach = Arc::new(AllowedAddresses::for_server(server).await);
        let direct = http.builder(true)?.dns_resolver(Arc::new(Resolver(reach.clone()))).timeout(TIMEOUT).build();
        let direct = direct.map_err(|error| causes(&error))?;
        Ok(Self { http: http.clone(), direct, proxied: OnceLock::new(), reach })
    }

    /// Returns the client for an address that is within the reach.
    async fn client(&self, url: &Url) -> Result<Client, String> {
        self.reach.check_url(url)?;
        if self.http.proxy(url)?.is_none() {
            return Ok(self.direct.clone());
        }
        // Behind a proxy, this machine may know no names of the web. Those that it knows are checked.
        if let Some(Host::Domain(name)) = url.host()
            && let Ok(Ok(found)) = timeout(RESOLVE_TIMEOUT, lookup_host((name, 0))).await
        {
            found.into_iter().try_for_each(|address| self.reach.check(address.ip()))?;
        }
        let build = || {
            let builder = self.http.proxied(self.http.builder(true)?).timeout(TIMEOUT);
            builder.build().map_err(|error| causes(&error))
        };
        self.proxied.get_or_init(build).clone()
    }

    pub(super) async fn send(
        &self,
        request: ::http::Request<Vec<u8>>,
    ) -> Result<::http::Response<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        // Redirects are never followed: the client's secret or a code could reach a stranger. rmcp itself follows
        // redirects of discovery within one origin.
        let request = reqwest::Request::try_from(request)?;
        let response = self.client(request.url()).await?.execute(request).await?;
        let mut answer = ::http::Response::builder().status(response.status()).version(response.version());
        for (name, value) in response.headers() {
            answer = answer.header(name, value);
        }
        let mut body = Vec::new();
        let mut packets = response.bytes_stream();
        while let Some(packet) = packets.next().await {
            let packet = packet?;
            if body.len() + packet.len() > MAX_BODY {
                return Err(format!("a response has more than {MAX_BODY} bytes").into());
            }
            body.extend_from_slice(&packet);
        }
        Ok(answer.body(repaired(body))?)
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { self.send(request.request).await.map_err(|error| -> OAuthHttpClientError { error }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_servers_of_a_private_network_may_name_its_addresses() {
        let public = AllowedAddresses::for_server(&Url::parse("https://93.184.216.34/mcp").unwrap()).await;
        let local = AllowedAddresses::for_server(&Url::parse("http://127.0.0.1:3000/mcp").unwrap()).await;
        let private = AllowedAddresses::for_server(&Url::parse("http://10.0.0.7/mcp").unwrap()).await;
        let allows = |reach: &AllowedAddresses, url: &str| reach.check_url(&Url::parse(url).unwrap()).is_ok();
        for (url, by_public, by_local, by_private) in [
            ("https://8.8.8.8/token", true, true, true),
            ("http://127.0.0.1/token", false, true, false),
            ("http://[::1]/token", false, true, false),
            ("http://192.168.1.1/token", false, false, true),
            ("http://169.254.169.254/latest/meta-data", false, false, false),
            ("http://0.0.0.0/token", false, false, false),
            ("http://[::ffff:10.0.0.1]/token", false, false, true),
        ] {
            assert_eq!(allows(&public, url), by_public, "{url}");
            assert_eq!(allows(&local, url), by_local, "{url}");
            assert_eq!(allows(&private, url), by_private, "{url}");
        }
    }

    #[tokio::test]
    async fn names_that_resolve_to_private_addresses_are_refused() {
        let reach = Arc::new(AllowedAddresses::for_server(&Url::parse("https://93.184.216.34/mcp").unwrap()).await);
        let resolved = Resolver(reach).resolve("localhost".parse().unwrap()).await;
        assert!(resolved.err().unwrap().to_string().contains("loopback"));
    }
}
