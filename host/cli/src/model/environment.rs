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

/// Where the provider is, as its vendor's tools are told.
pub(super) fn base_url_variable(provider: &str) -> Option<String> {
    match provider {
        "azure" => variable(&["AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"]),
        "bedrock" => variable(&["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"]),
        "ollama" => variable(&["OLLAMA_HOST"]).map(|host| ollama_url(&host)),
        "proxy" => variable(&["PINION_PROXY_URL"]),
        _ => None,
    }
}

/// Ollama's variable is meant for its server too: it may have no scheme, and an address that means all of them.
pub(super) fn ollama_url(host: &str) -> String {
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let url = url.replace("://0.0.0.0", "://127.0.0.1");
    let has_port = url.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port || host.contains("://") { url } else { format!("{}:11434", url.trim_end_matches('/')) }
}

pub(super) fn region_variable(provider: &str) -> Option<String> {
    match provider {
        "bedrock" => variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]),
        "vertex" => variable(&["GOOGLE_CLOUD_LOCATION"]),
        _ => None,
    }
}

pub(super) fn project_variable(provider: &str) -> Option<String> {
    (provider == "vertex").then(|| variable(&["GOOGLE_CLOUD_PROJECT"])).flatten()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_variable_is_read_as_ollama_does() {
        assert_eq!(ollama_url("0.0.0.0"), "http://127.0.0.1:11434");
        assert_eq!(ollama_url("box:8080"), "http://box:8080");
        assert_eq!(ollama_url("https://ollama.example"), "https://ollama.example");
    }
}
