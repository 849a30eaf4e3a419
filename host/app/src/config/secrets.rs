//! The secrets of this process, collected when it starts.

use crate::config::Config;
use crate::config::plugin_secrets::SecretOrigin;
use crate::files::paths::Paths;
use pinion_agent::secrets::Secrets;
use pinion_providers::{AuthFile, PROVIDERS, ProxyUrl};
use secrecy::SecretString;

/// Variables with credentials besides the key variables of [`PROVIDERS`].
const VARIABLES: &[&str] = &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Variables with URLs that may contain a password. The rest of the URL is not secret, and errors name it.
const PROXIES: &[&str] = &["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Parts of names of other variables whose values are secret if they look like credentials.
const NAMES: &[&str] = &["API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD"];

/// Minimum length in bytes of a value that looks like a credential.
const MIN_LENGTH: usize = 16;

/// Collects the secrets in the environment.
pub fn of_environment() -> Secrets {
    let secrets = Secrets::of_process();
    for (name, value) in
        crate::process::hardening::variables().into_iter().filter(|(name, value)| is_secret(name, value))
    {
        tracing::trace!(name, "a secret of the environment");
        secrets.add(&SecretString::from(value));
    }
    for name in PROXIES {
        let url = crate::process::hardening::variable(name).unwrap_or_default();
        let proxy = ProxyUrl { url: SecretString::from(url), origin: (*name).to_owned() };
        proxy.credentials().iter().for_each(|secret| secrets.add(secret));
    }
    secrets
}

fn is_secret(name: &str, value: &str) -> bool {
    let of_provider = PROVIDERS.iter().any(|info| info.key_variables().any(|variable| variable == name));
    let looks_secret = value.len() >= MIN_LENGTH
        && !value.contains(char::is_whitespace)
        && !value.starts_with(['/', '.', '~'])
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    of_provider
        || VARIABLES.contains(&name)
        || (looks_secret && NAMES.iter().any(|part| name.to_ascii_uppercase().contains(part)))
}

/// Adds the secrets in the user's files. A file that cannot be read is reported where its key is needed.
pub fn add_files(secrets: &Secrets, paths: &Paths, config: &Config) {
    for key in AuthFile::new(paths.auth_file()).keys().unwrap_or_default() {
        secrets.add(&key);
    }
    let variables = config.registry.iter().flat_map(|info| info.key_variables());
    for value in variables.filter_map(crate::process::hardening::variable) {
        secrets.add(&SecretString::from(value));
    }
    for secret in config.secrets.values() {
        if let SecretOrigin::Variable(name) = &secret.origin
            && let Some(value) = crate::process::hardening::variable(name)
        {
            secrets.add(&SecretString::from(value.trim()));
        }
    }
    let proxies = config.providers.values().map(|provider| &provider.proxy).chain([&config.mcp.proxy]);
    for url in proxies.flatten() {
        let proxy = ProxyUrl { url: SecretString::from(url.as_str()), origin: String::new() };
        proxy.credentials().iter().for_each(|secret| secrets.add(secret));
    }
    for (name, value) in config.providers.values().flat_map(|provider| &provider.headers) {
        secrets.add_header(name, &SecretString::from(value.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_secret_by_name_and_shape() {
        assert!(is_secret("ANTHROPIC_API_KEY", "short") && !is_secret("https_proxy", "http://proxy"));
        assert!(is_secret("GITHUB_TOKEN", "ghp_0123456789abcdef"));
        for (name, value) in
            [("MAX_TOKENS", "1000000"), ("TOKEN_FILE", "/run/secrets/token-0123"), ("PATH", "ghp_0123456789abcdef")]
        {
            assert!(!is_secret(name, value), "{name}");
        }
    }
}
