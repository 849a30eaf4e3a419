//! The normalized URL of a request: the only form that rules see and that is sent.
//!
//! Text that parsers read in different ways is refused rather than repaired: control characters, spaces, backslashes,
//! user names, port 0, and hosts with empty labels or a final dot. Everything else is normalized by the WHATWG rules
//! of the `url` crate: hosts become ASCII (IDNA) in lower case, addresses get one spelling (`0x7f.1` is `127.0.0.1`),
//! and dot segments are resolved.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use url::{Host, Url};

/// Maximum length of a URL: 8 KiB.
const MAX_URL: usize = 8 << 10;

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// Returns the name, as in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of URLs without one.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A normalized URL.
///
/// `Debug` and `Display` show only the origin: path and query may contain credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestTarget {
    url: Url,
    scheme: Scheme,
    host: TargetHost,
    port: u16,
}

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TargetHost {
    /// A name in ASCII and lower case.
    Name(String),
    Address(IpAddr),
}

/// A URL is malformed, or two parsers could read it differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL: {0}")]
pub struct InvalidUrl(pub(crate) Cow<'static, str>);

impl RequestTarget {
    /// Parses and normalizes an absolute URL.
    ///
    /// # Errors
    /// The text is not a URL, is longer than 8 KiB, has another scheme than `http` and `https`, contains a user name or
    /// password, or is ambiguous in one of the ways that the module names.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        check_text(text)?;
        let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl("it has no scheme".into()))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(InvalidUrl("its scheme is neither `http` nor `https`".into())),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return Err(InvalidUrl("it has no host".into()));
        }
        if authority.contains('@') {
            return Err(InvalidUrl("it contains a user name or password".into()));
        }
        let mut url = Url::parse(text).map_err(|error| InvalidUrl(error.to_string().into()))?;
        url.set_fragment(None);
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or(InvalidUrl("its port is 0".into()))?;
        let host = TargetHost::from_url(&url)?;
        Ok(Self { url, scheme, host, port })
    }

    /// Resolves the target of a redirect, which may be relative.
    pub(crate) fn join(&self, location: &str) -> Result<Self, InvalidUrl> {
        check_text(location)?;
        let url = self.url.join(location).map_err(|error| InvalidUrl(error.to_string().into()))?;
        Self::parse(url.as_str())
    }

    /// Returns the normalized URL.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host: a name in ASCII and lower case, or an address; IPv6 addresses are in brackets.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn target_host(&self) -> &TargetHost {
        &self.host
    }

    /// Returns the decoded segments of the path; `None` when servers may resolve the path in different ways.
    pub(crate) fn segments(&self) -> Option<Vec<Vec<u8>>> {
        path_segments(self.url.path())
    }

    pub(crate) fn has_origin_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Returns whether the URL names this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match &self.host {
            TargetHost::Name(name) => is_localhost(name),
            TargetHost::Address(address) => address.is_loopback(),
        }
    }
}

/// Shows the origin.
impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host())?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

impl fmt::Debug for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl TargetHost {
    pub(crate) fn from_url(url: &Url) -> Result<Self, InvalidUrl> {
        match url.host() {
            None => Err(InvalidUrl("it has no host".into())),
            Some(Host::Ipv4(address)) => Ok(Self::Address(address.into())),
            Some(Host::Ipv6(address)) => Ok(Self::Address(address.into())),
            Some(Host::Domain(name)) => {
                check_name(name)?;
                Ok(Self::Name(name.to_owned()))
            }
        }
    }
}

/// Returns whether a name is reserved for this machine (RFC 6761).
pub(crate) fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn check_text(text: &str) -> Result<(), InvalidUrl> {
    if text.len() > MAX_URL {
        return Err(InvalidUrl("it is longer than 8 KiB".into()));
    }
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(InvalidUrl("it contains a control character, a space or a backslash".into()));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), InvalidUrl> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if name.ends_with('.') {
        Err(InvalidUrl("its host ends with a dot".into()))
    } else if name.len() > 253 || name.split('.').any(|label| label.is_empty() || label.len() > 63) {
        Err(InvalidUrl("its host has a label that is empty or too long".into()))
    } else if !name.chars().all(is_plain) {
        Err(InvalidUrl("its host contains a character that is not allowed in names".into()))
    } else {
        Ok(())
    }
}

// Segments of paths, for rules that are limited to a part of a server.
//
// Servers disagree on `%2e%2e%2f`, `..;`, backslashes and double encodings. If any of them could resolve to a parent
// directory, the path has no segments, so that no rule with a path covers it.

/// Splits a path that starts with `/` and percent-decodes its segments. A final `/` adds an empty segment.
///
/// Returns `None` for paths that are malformed or ambiguous: an incomplete or doubled percent encoding, bytes that are
/// not UTF-8, control characters, or a segment that some server reads as `.` or `..`.
pub(crate) fn path_segments(path: &str) -> Option<Vec<Vec<u8>>> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    // Encoded percent signs may be decoded twice, and incomplete encodings are left as they are.
    if decoded.contains('%') || decoded.contains(char::is_control) {
        return None;
    }
    if decoded.split(['/', '\\']).any(may_be_dots) {
        return None;
    }
    let segments = path.strip_prefix('/')?.split('/');
    Some(segments.map(|segment| percent_decode_str(segment).collect()).collect())
}

/// Returns whether a server may read a segment as `.` or `..`: some cut off parameters (`..;x`), others the spaces and
/// dots at the end.
fn may_be_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default().trim();
    !name.is_empty() && name.chars().all(|c| c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalized(text: &str) -> String {
        RequestTarget::parse(text).map_or_else(|error| error.to_string(), |target| target.as_str().to_owned())
    }

    #[test]
    fn urls_are_normalized() {
        for (text, expected) in [
            ("HTTPS://API.Example.COM:443/a/../b?q#f", "https://api.example.com/b?q"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0177.0.0.1/", "http://127.0.0.1/"),
            ("http://127。0。0。1/", "http://127.0.0.1/"),
            ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
            ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
            ("https://ex%61mple.com/", "https://example.com/"),
            ("https://аpple.com/", "https://xn--pple-43d.com/"),
            ("https://ｅxample.com/", "https://example.com/"),
            ("https://a.example/%2e%2E/b", "https://a.example/b"),
        ] {
            assert_eq!(normalized(text), expected, "{text}");
        }
    }

    #[test]
    fn ambiguous_urls_are_refused() {
        for text in [
            "https://a.example\\@evil.example/",
            "https://a.example/\r\nhost: evil",
            "https://a.example/ b",
            "ht\ttps://a.example/",
            "https://me@a.example/",
            "https://me:pw@a.example/",
            "https://@a.example/",
            "https:///a.example/",
            "https:a.example",
            "//a.example/",
            "ftp://a.example/",
            "file:///etc/passwd",
            "data:text/plain,x",
            "https://a.example:0/",
            "https://a.example:65536/",
            "https://a.example./",
            "https://a..example/",
            "https://*.example/",
            "https://a.example%00.evil/",
            "https://a!b.example/",
            "https://1.2.3.4.5/",
            "https://[fe80::1%25eth0]/",
            "https://",
            "",
        ] {
            assert!(RequestTarget::parse(text).is_err(), "{text}");
        }
        assert!(RequestTarget::parse(&format!("https://a.example/{}", "x".repeat(MAX_URL))).is_err());
    }

    #[test]
    fn target_is_shown_without_path_and_query() {
        let target = RequestTarget::parse("https://a.example:8443/secret?key=secret").unwrap();
        assert_eq!(format!("{target} {target:?}"), "https://a.example:8443 Target(https://a.example:8443)");
        assert_eq!(target.join("//b.example/x").unwrap().as_str(), "https://b.example/x");
    }

    proptest! {
        #[test]
        fn normalization_is_stable(text in "(https?://)?[a-zA-Z0-9.%:@\\[\\]\\\\/?#*;é。-]{0,40}") {
            if let Ok(target) = RequestTarget::parse(&text) {
                prop_assert_eq!(RequestTarget::parse(target.as_str()), Ok(target.clone()));
                prop_assert!(!target.host().is_empty() && target.port() != 0);
            }
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in any::<String>()) {
            let _ = RequestTarget::parse(&text);
            let _ = RequestTarget::parse(&format!("https://{text}"));
        }
    }

    #[test]
    fn segments_are_decoded_once() {
        let texts =
            |path| path_segments(path).map(|all| all.into_iter().map(|s| String::from_utf8(s).unwrap()).collect());
        assert_eq!(texts("/v1/caf%C3%A9"), Some(vec!["v1".to_owned(), "café".to_owned()]));
        assert_eq!(texts("/group%2Fproject/"), Some(vec!["group/project".to_owned(), String::new()]));
        assert_eq!(texts("/"), Some(vec![String::new()]));
        assert_eq!(texts("/...x/.git"), Some(vec!["...x".to_owned(), ".git".to_owned()]));
    }

    #[test]
    fn ambiguous_paths_have_no_segments() {
        for path in [
            "/v1/..%2fadmin",
            "/v1/%2e%2e%2fadmin",
            "/v1/..%5cadmin",
            "/v1/..;/admin",
            "/v1/..;x=1/admin",
            "/v1/%252e%252e%252fadmin",
            "/v1/%c0%ae%c0%ae/admin",
            "/v1/%u002e%u002e/admin",
            "/v1/..%00/admin",
            "/v1/..%20/admin",
            "/v1/.../admin",
            "/v1/x%0d%0aHost:evil",
            "/v1/100%",
            "no-slash",
        ] {
            assert_eq!(path_segments(path), None, "{path}");
        }
    }
}
