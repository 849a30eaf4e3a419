//! Provider settings in the environment, under the names that the vendors' own tools use.

use crate::process::hardening;
use pinion_providers::ProxySettings;
use secrecy::SecretString;
use std::path::PathBuf;

/// Reads the proxy variables that curl and other tools use.
pub(super) fn proxy() -> Option<ProxySettings> {
    let url = variable(&["https_proxy", "HTTPS_PROXY"])?;
    Some(ProxySettings { url: SecretString::from(url), except: variable(&["no_proxy", "NO_PROXY"]) })
}

/// Returns the file in which `gcloud auth application-default login` stores credentials.
pub(super) fn gcloud_credentials() -> Option<PathBuf> {
    let directory = std::env::var_os("CLOUDSDK_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config/gcloud")))?;
    Some(directory.join("application_default_credentials.json"))
}

/// Returns the first of these variables that is set.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| hardening::variable(name).filter(|value| !value.is_empty()))
}
