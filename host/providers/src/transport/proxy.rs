//! The choice of a proxy for a URL, by curl's rules.
//!
//! `http_proxy` is for `http` URLs, `https_proxy` for `https` URLs, and `all_proxy` for URLs without a separate proxy.
//! A request without TLS therefore never passes through a proxy that was meant for tunnels, which could read its key.
//! As in Go, requests to this machine are sent directly; [`ProxySettings::for_loopback`] includes them.

use percent_encoding::percent_decode_str;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::net::IpAddr;

/// The schemes of proxies.
const SCHEMES: &[&str] = &["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// The proxies to use. Defaults to no proxies.
#[derive(Debug, Clone, Default)]
pub struct ProxySettings {
    /// The proxy for `http` URLs, as in `http_proxy`.
    pub http: Option<ProxyUrl>,
    /// The proxy for `https` URLs, as in `HTTPS_PROXY`.
    pub https: Option<ProxyUrl>,
    /// The proxy for URLs without a separate one, as in `ALL_PROXY`.
    pub all: Option<ProxyUrl>,
    /// Hosts to reach directly, as in `NO_PROXY`: names with their subdomains, addresses, networks such as
    /// `10.0.0.0/8`, any of them with a port, or `*`.
    pub except: Option<String>,
    /// Uses the proxies for requests to this machine too.
    pub for_loopback: bool,
}

/// A proxy as the user wrote it.
#[derive(Debug, Clone)]
pub struct ProxyUrl {
    /// The URL, which may contain a password and may lack `http://`.
    pub url: SecretString,
    /// The variable or the key of the config that contains the URL, for messages.
    pub origin: String,
}

/// A proxy is unusable. The message does not repeat its URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid proxy in `{origin}`: {problem}")]
pub struct ProxyError {
    origin: String,
    problem: String,
}

/// The proxy of a request. Its text shows neither user nor password.
#[derive(Clone)]
pub struct ChosenProxy {
    /// The URL with its password.
    pub url: Url,
    origin: String,
}

impl ChosenProxy {
    /// Returns whether the URL contains a user or a password.
    pub(super) fn has_user(&self) -> bool {
        !self.url.username().is_empty() || self.url.password().is_some()
    }
}

impl fmt::Display for ChosenProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}://{}", self.url.scheme(), self.url.host_str().unwrap_or_default())?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        write!(f, "` ({})", self.origin)
    }
}

impl ProxyUrl {
    /// Returns the user and password in the URL in the forms that a server may repeat.
    pub fn credentials(&self) -> Vec<SecretString> {
        let url = self.url.expose_secret().trim();
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let Some((user, _)) = authority.rsplit_once('@') else { return Vec::new() };
        let password = user.split_once(':').map_or(user, |(_, password)| password);
        let decoded = percent_decode_str(password).decode_utf8_lossy().into_owned();
        [user.to_owned(), password.to_owned(), decoded].into_iter().filter(|s| !s.is_empty()).map(Into::into).collect()
    }

    fn parse(&self) -> Result<ChosenProxy, ProxyError> {
        let error = |problem: String| ProxyError { origin: self.origin.clone(), problem };
        let text = self.url.expose_secret().trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&text).map_err(|problem| error(problem.to_string()))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(error(format!("unknown scheme `{}`, expected one of {}", url.scheme(), SCHEMES.join(", "))));
        }
        match url.host_str() {
            None | Some("") => Err(error("it names no host".to_owned())),
            Some(_) => Ok(ChosenProxy { url, origin: self.origin.clone() }),
        }
    }
}

impl ProxySettings {
    /// A proxy for all URLs, including URLs of this machine.
    pub fn always(proxy: ProxyUrl) -> Self {
        Self { all: Some(proxy), for_loopback: true, ..Self::default() }
    }

    /// Returns the user names and passwords of all proxies.
    pub fn credentials(&self) -> Vec<SecretString> {
        self.urls().flat_map(ProxyUrl::credentials).collect()
    }

    /// Returns whether a connection to one of the proxies uses TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.urls().any(|proxy| proxy.url.expose_secret().trim().starts_with("https:"))
    }

    fn urls(&self) -> impl Iterator<Item = &ProxyUrl> {
        [&self.http, &self.https, &self.all].into_iter().flatten()
    }

    /// Checks the proxy for requests to `url`.
    ///
    /// # Errors
    /// The proxy is not a URL, or has an unknown scheme.
    pub(crate) fn check(&self, url: &Url) -> Result<(), ProxyError> {
        self.choose(url).map(drop)
    }

    /// Returns the proxy for requests to `url`; `None` when they are sent directly.
    ///
    /// # Errors
    /// The proxy is not a URL, or has an unknown scheme.
    pub fn choose(&self, url: &Url) -> Result<Option<ChosenProxy>, ProxyError> {
        let host = host(url);
        if (!self.for_loopback && is_loopback(&host)) || self.excepts(&host, url.port_or_known_default()) {
            return Ok(None);
        }
        let own = if url.scheme() == "https" { &self.https } else { &self.http };
        own.as_ref().or(self.all.as_ref()).map(ProxyUrl::parse).transpose()
    }

    fn excepts(&self, host: &str, port: Option<u16>) -> bool {
        let entries = self.except.as_deref().unwrap_or_default().split([',', ' ']).map(str::trim);
        entries.filter(|entry| !entry.is_empty()).any(|entry| matches(entry, host, port))
    }
}

/// Returns the host of a URL in lower case, without brackets and without a final dot.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().to_lowercase();
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_owned()
}

/// Returns whether a host without brackets is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// Returns whether an entry of `NO_PROXY` covers a host.
fn matches(entry: &str, host: &str, port: Option<u16>) -> bool {
    if entry == "*" {
        return true;
    }
    let (name, wanted) = split_port(entry);
    if wanted.is_some() && wanted != port {
        return false;
    }
    let name = name.to_lowercase();
    let name = name.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
    if let Ok(address) = host.parse::<IpAddr>() {
        return in_network(name, address);
    }
    !name.is_empty() && (host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
}

/// Splits `host:port`, `[address]:port` and `[address]`.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[')
        && let Some((address, after)) = rest.split_once(']')
    {
        return (address, after.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':') {
        // An address of version 6 without brackets has several colons.
        Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
        _ => (entry, None),
    }
}

/// Returns whether `network`, an address with or without a prefix length, contains `address`.
fn in_network(network: &str, address: IpAddr) -> bool {
    let (base, length) = network.split_once('/').map_or((network, None), |(base, length)| (base, Some(length)));
    let Ok(base) = base.parse::<IpAddr>() else { return false };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let (base, address) = (base.to_canonical(), address.to_canonical());
    let ((base_bits, size), (address_bits, _)) = (bits(base), bits(address));
    let length = match length.map(str::parse::<u32>) {
        None => size,
        Some(Ok(length)) if length <= size => length,
        Some(_) => return false,
    };
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or_default();
    base.is_ipv4() == address.is_ipv4() && base_bits & mask == address_bits & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(origin: &str, url: &str) -> Option<ProxyUrl> {
        Some(ProxyUrl { url: SecretString::from(url), origin: origin.to_owned() })
    }

    fn chosen(settings: &ProxySettings, url: &str) -> String {
        match settings.choose(&Url::parse(url).unwrap()) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn scheme_of_the_url_selects_the_proxy() {
        let only_https = ProxySettings { https: proxy("HTTPS_PROXY", "http://u:secret@p:3128"), ..Default::default() };
        assert_eq!(chosen(&only_https, "https://api.example/v1"), "`http://p:3128` (HTTPS_PROXY)");
        assert_eq!(chosen(&only_https, "http://api.example/v1"), "direct");
        let all = ProxySettings { all: proxy("ALL_PROXY", "socks5h://s"), ..only_https };
        assert_eq!(chosen(&all, "https://api.example/v1"), "`http://p:3128` (HTTPS_PROXY)");
        assert_eq!(chosen(&all, "http://api.example/v1"), "`socks5h://s` (ALL_PROXY)");
        let http = ProxySettings { http: proxy("http_proxy", "p:80"), ..Default::default() };
        assert_eq!(chosen(&http, "http://api.example/v1"), "`http://p` (http_proxy)");
        assert_eq!(chosen(&http, "https://api.example/v1"), "direct");
    }

    #[test]
    fn this_machine_is_reached_directly_unless_requested() {
        let mut settings = ProxySettings { all: proxy("all_proxy", "p"), ..Default::default() };
        let local =
            ["http://127.0.0.1:1/", "https://localhost", "http://[::1]:2", "http://a.localhost", "http://127.9.9.9"];
        for url in local {
            assert_eq!(chosen(&settings, url), "direct", "{url}");
        }
        assert_eq!(chosen(&settings, "http://10.0.0.1/"), "`http://p` (all_proxy)");
        settings.for_loopback = true;
        for url in local {
            assert_eq!(chosen(&settings, url), "`http://p` (all_proxy)", "{url}");
        }
    }

    #[test]
    fn exceptions_match_names_addresses_networks_and_ports() {
        let direct = |except: &str, url: &str| {
            let settings =
                ProxySettings { all: proxy("x", "p"), except: Some(except.to_owned()), ..Default::default() };
            chosen(&settings, url) == "direct"
        };
        for (except, url) in [
            ("*", "https://10.1.2.3"),
            ("a.example, b.example", "https://B.example."),
            ("b.example", "https://x.b.example:8443/v1"),
            (".b.example", "https://b.example"),
            ("*.b.example", "https://x.b.example"),
            ("10.0.0.0/8", "http://10.200.0.1"),
            ("x 192.168.7.9", "http://192.168.7.9:11434"),
            ("192.168.7.9:11434", "http://192.168.7.9:11434"),
            ("b.example:443", "https://b.example"),
            ("fe80::/10", "http://[fe90::1]"),
            ("[fd00::1]:80", "http://[fd00::1]"),
            ("fd00::1", "http://[fd00::1]:9"),
            ("0.0.0.0/0", "http://8.8.8.8"),
        ] {
            assert!(direct(except, url), "{except} {url}");
        }
        for (except, url) in [
            ("b.example", "https://ab.example"),
            ("b.example:8443", "https://b.example"),
            ("10.0.0.0/8", "http://11.0.0.1"),
            ("10.0.0.0/99", "http://10.0.0.1"),
            ("192.168.7.9:1", "http://192.168.7.9:2"),
            ("fe80::/10", "http://10.0.0.1"),
            ("0.0.0.0/0", "http://[fd00::1]"),
            (",, .", "https://b.example"),
        ] {
            assert!(!direct(except, url), "{except} {url}");
        }
    }

    #[test]
    fn unusable_proxy_is_named_without_its_password() {
        let said =
            |url: &str| chosen(&ProxySettings { https: proxy("HTTPS_PROXY", url), ..Default::default() }, "https://h");
        assert_eq!(said("::garbage::"), "invalid proxy in `HTTPS_PROXY`: empty host");
        assert!(said("ftp://me:hunter22@h").starts_with("invalid proxy in `HTTPS_PROXY`: unknown scheme `ftp`"));
        assert!(!said("ftp://me:hunter22@h").contains("hunter22") && !said("http://me:hunter22@").contains("hunter22"));
    }

    #[test]
    fn credentials_are_found_without_the_host() {
        let of = |url: &str| {
            let found = proxy("x", url).unwrap().credentials();
            found.iter().map(|secret| secret.expose_secret().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("http://me:p%40ss@proxy:3128"), ["me:p%40ss", "p%40ss", "p@ss"]);
        assert_eq!(of("token@proxy"), ["token", "token", "token"]);
        assert!(of("http://proxy:3128/@x").is_empty() && of("").is_empty());
    }
}
