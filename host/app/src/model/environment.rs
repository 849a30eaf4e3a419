//! Provider settings in the environment, under the names that the vendors' own tools use.

use crate::process::hardening;
use pinion_providers::{ProxySettings, ProxyUrl};
use secrecy::SecretString;
use std::path::PathBuf;

/// Returns the proxy that a key of the config names, or else the proxies of the environment. An empty value disables
/// the proxy.
pub fn proxies_or(said: Option<&str>, key: &str) -> ProxySettings {
    match said {
        None => proxies(),
        Some(url) if url.trim().is_empty() => ProxySettings::default(),
        Some(url) => ProxySettings::always(ProxyUrl { url: SecretString::from(url), origin: key.to_owned() }),
    }
}

/// Reads the proxy variables as curl does. `HTTP_PROXY` is not one of them: web servers set it from a header of the
/// request when they run a program.
fn proxies() -> ProxySettings {
    let first = |names: &[&str]| {
        let (name, url) = names.iter().find_map(|name| Some((*name, variable(&[name])?)))?;
        Some(ProxyUrl { url: SecretString::from(url), origin: name.to_owned() })
    };
    ProxySettings {
        http: first(&["http_proxy"]),
        https: first(&["https_proxy", "HTTPS_PROXY"]),
        all: first(&["all_proxy", "ALL_PROXY"]),
        except: variable(&["no_proxy", "NO_PROXY"]),
        for_loopback: false,
    }
}

/// Returns a notice for each variable that replaces the platform's certificate authorities by files that do not exist.
pub(super) fn certificate_notices() -> Vec<String> {
    let missing = |name: &&str| {
        let path = variable(&[name])?;
        let is_missing = std::env::split_paths(&path).all(|path| path.metadata().is_err());
        is_missing.then(|| format!("`{path}` ({name}) cannot be read, so the issuers of certificates are unknown"))
    };
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().filter_map(missing).collect()
}

/// Returns the file where `gcloud auth application-default login` stores credentials.
pub(super) fn gcloud_credentials() -> Option<PathBuf> {
    let directory = std::env::var_os("CLOUDSDK_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config/gcloud")))?;
    Some(directory.join("application_default_credentials.json"))
}

/// Returns the first of these variables that is set.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| hardening::variable(name).filter(|value| !value.is_empty()))
}
