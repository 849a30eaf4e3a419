//! Settings of providers in the environment, as the vendors' own tools read them.

use crate::process::hardening;
use pinion_providers::ProxySettings;
use secrecy::SecretString;
use std::path::PathBuf;

/// The proxy that the environment names, as curl and others take it.
pub(super) fn proxy() -> Option<ProxySettings> {
    let url = variable(&["https_proxy", "HTTPS_PROXY"])?;
    Some(ProxySettings { url: SecretString::from(url), except: variable(&["no_proxy", "NO_PROXY"]) })
}

/// Where `gcloud auth application-default login` puts what it got.
pub(super) fn gcloud_credentials() -> Option<PathBuf> {
    let folder = std::env::var_os("CLOUDSDK_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config/gcloud")))?;
    Some(folder.join("application_default_credentials.json"))
}

/// The first of these variables that is set.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| hardening::variable(name).filter(|value| !value.is_empty()))
}
