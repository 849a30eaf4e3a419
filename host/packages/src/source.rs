//! Sources of packages, as the user writes them and as the lock file records them.

use crate::oci::OciReference;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use url::{Host, Url};

/// The source of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageSource {
    /// A file or directory on this machine.
    Path(PathBuf),
    /// A file or archive on a web server.
    Web(Url),
    /// An artifact in a registry.
    Oci(OciReference),
    /// An entry of a `marketplace.json`: its file, directory or address, and the name of the entry.
    Marketplace(String, String),
    /// The name of a package in the configured indexes, and a version.
    Indexed(String, Option<String>),
}

impl PackageSource {
    /// Parses a source. Relative paths begin at `directory`.
    ///
    /// # Errors
    /// The address is not one that packages may come from.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        if text.is_empty() || text.contains(char::is_control) {
            return Err("the source is empty or contains invisible characters".to_owned());
        }
        if let Some((marketplace, name)) = text.rsplit_once('#') {
            if marketplace.contains("://") {
                checked_url(marketplace)?;
            }
            return Ok(Self::Marketplace(marketplace.to_owned(), name.to_owned()));
        }
        if let Some(reference) = text.strip_prefix("oci://") {
            return OciReference::parse(reference).map(Self::Oci);
        }
        if text.contains("://") {
            return checked_url(text).map(Self::Web);
        }
        let path = directory.join(text);
        let is_path = text.contains(['/', '\\']) || text.ends_with(".wasm") || text.starts_with('.') || path.exists();
        if is_path {
            return Ok(Self::Path(path));
        }
        Ok(match text.split_once('@') {
            Some((name, version)) => Self::Indexed(name.to_owned(), Some(version.to_owned())),
            None => Self::Indexed(text.to_owned(), None),
        })
    }
}

impl fmt::Display for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Web(url) => write!(f, "{url}"),
            Self::Oci(reference) => write!(f, "oci://{reference}"),
            Self::Marketplace(place, name) => write!(f, "{place}#{name}"),
            Self::Indexed(name, None) => f.write_str(name),
            Self::Indexed(name, Some(version)) => write!(f, "{name}@{version}"),
        }
    }
}

/// Parses an address that packages may come from: HTTPS, or HTTP on this machine; without a user name or a fragment.
///
/// # Errors
/// The address is another one.
pub(crate) fn checked_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&url)) {
        return Err(format!("`{}` is not an HTTPS address", shown_source(text)));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("an address of a package has no user name and no fragment".to_owned());
    }
    Ok(url)
}

/// Returns whether a text is an address of this machine, also one of a registry (`oci://`).
pub fn is_on_this_machine(address: &str) -> bool {
    // Only hosts of web addresses are parsed as numbers.
    let address = address.strip_prefix("oci://").map_or_else(|| address.to_owned(), |rest| format!("https://{rest}"));
    Url::parse(&address).is_ok_and(|url| is_loopback(&url))
}

/// Returns whether an address is one of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns a source without the query of its address, which may contain a token.
pub fn shown_source(source: &str) -> Cow<'_, str> {
    match source.split_once('?').filter(|_| source.contains("://")) {
        Some((address, _)) => format!("{address}?…").into(),
        None => source.into(),
    }
}
