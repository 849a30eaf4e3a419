//! Credentials that programs use through placeholders, and the certificates that they have to trust for that.
//!
//! A program finds the placeholder in a variable, and never the secret. Only the proxy replaces it, so that the variables
//! are set only where programs reach their hosts through the proxy, and are removed everywhere else.

use crate::config::credentials::{CERTIFICATE_VARIABLES, ProgramCredential};
use crate::files::output_directories::certificates_in;
use crate::files::private;
use crate::plugins::secrets::PluginSecrets;
use crate::process::hardening;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_egress::{CredentialValues, ProxyCredentials};
use pinion_plugin_runtime::{SecretRequests, SecretSource as _};
use rustls_native_certs::{load_certs_from_paths, load_native_certs};
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes of the shortest secret that is looked for in other variables.
const MIN_SECRET: usize = 8;
/// Characters of a line of base64 in PEM.
const LINE: usize = 64;

/// The environment of a program.
type Environment = Vec<(String, String)>;

/// The credentials of the programs of one process.
pub struct ProgramCredentials {
    listed: Vec<ProgramCredential>,
    source: Arc<PluginSecrets>,
    proxy: OnceLock<Result<Arc<ProxyCredentials>, String>>,
    /// The file with the certificates, once it is written.
    certificates: Mutex<Option<PathBuf>>,
}

impl ProgramCredentials {
    /// Uses the credentials of a config. Reads no secret and creates no key until a program starts.
    pub fn new(listed: Vec<ProgramCredential>, source: Arc<PluginSecrets>) -> Self {
        Self { listed, source, proxy: OnceLock::new(), certificates: Mutex::default() }
    }

    /// Returns the credentials for the proxy of a program; `None` if the list is empty.
    ///
    /// # Errors
    /// No certificate authority can be created.
    pub fn proxy(&self) -> Result<Option<Arc<ProxyCredentials>>, String> {
        if self.listed.is_empty() {
            return Ok(None);
        }
        let proxy = self.proxy.get_or_init(|| {
            let all = self.listed.iter().map(|one| one.credential.clone()).collect();
            let requests = self.listed.iter().map(|one| (one.credential.name().to_owned(), one.requests.clone()));
            let values = Values { requests: requests.collect(), source: self.source.clone() };
            ProxyCredentials::new(all, Arc::new(values), b"").map(Arc::new).map_err(|error| error.to_string())
        });
        proxy.clone().map(Some)
    }

    /// Returns the environment of a program that reaches the hosts of the credentials through the proxy: with placeholders,
    /// and with the certificates in a file of `scratch`, the private directory of the session.
    ///
    /// # Errors
    /// No certificate authority can be created, or the file cannot be written.
    pub fn inserted(&self, environment: Environment, scratch: &Path) -> Result<Environment, String> {
        let Some(proxy) = self.proxy()? else { return Ok(environment) };
        let file = self.certificates(&proxy.authority(), scratch).map_err(|error| {
            format!("could not write the certificates for programs to `{}`: {error}", scratch.display())
        })?;
        let file = file.to_string_lossy();
        let placeholders = self.listed.iter().map(|one| (one.variable.as_str(), one.credential.placeholder()));
        let trust = CERTIFICATE_VARIABLES.iter().map(|name| (*name, &*file));
        let added: Vec<(&str, &str)> = placeholders.chain(trust).collect();
        let is_kept = |name: &str| !self.hides(name) && !added.iter().any(|(added, _)| *added == name);
        let kept = environment.into_iter().filter(|(name, _)| is_kept(name));
        let mut environment: Environment = kept.map(|(name, value)| (name, self.without_secrets(value))).collect();
        environment.extend(added.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Ok(environment)
    }

    /// Replaces the secrets of variables in the value of another one.
    fn without_secrets(&self, value: String) -> String {
        self.listed.iter().fold(value, |value, one| match one.secret() {
            Some(secret) => value.replace(secret.expose_secret(), one.credential.placeholder()),
            None => value,
        })
    }

    /// Returns the environment of a program that has no use for placeholders: without the variables that contain secrets.
    pub fn removed(&self, environment: &[(String, String)]) -> Environment {
        let is_kept =
            |(name, value): &&(String, String)| !self.hides(name) && self.without_secrets(value.clone()) == *value;
        environment.iter().filter(is_kept).cloned().collect()
    }

    /// Returns whether programs never see the value that a variable has outside.
    pub fn hides(&self, variable: &str) -> bool {
        self.listed.iter().any(|one| one.variable == variable || one.origin.as_deref() == Some(variable))
    }

    /// Describes each credential: its name, its variable and its hosts.
    pub fn lines(&self) -> Vec<String> {
        let line = |one: &ProgramCredential| {
            let rules: Vec<String> = one.credential.rules().iter().map(ToString::to_string).collect();
            format!("{} in {} for {}", one.credential.name(), one.variable, rules.join(", "))
        };
        self.listed.iter().map(line).collect()
    }

    /// Returns the file with the certificates, and writes it if this process has not done so yet.
    fn certificates(&self, authority: &str, scratch: &Path) -> std::io::Result<PathBuf> {
        let mut written = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let path = certificates_in(scratch);
        if written.as_ref() != Some(&path) {
            private::create_directory(scratch)?;
            private::replace(&path, format!("{authority}{}", trusted()).as_bytes())?;
            *written = Some(path.clone());
        }
        Ok(path)
    }
}

impl ProgramCredential {
    /// Returns the secret if it comes from a variable.
    fn secret(&self) -> Option<SecretString> {
        let value = self.origin.as_deref().and_then(hardening::variable)?;
        // The proxy sends no shorter ones, which could be ordinary words.
        Some(value.trim()).filter(|value| value.len() >= MIN_SECRET).map(SecretString::from)
    }
}

/// Returns the certificates of the system and of the user's variables as PEM, and nothing else of these files.
fn trusted() -> String {
    let mut all: BTreeSet<Vec<u8>> = load_native_certs().certs.iter().map(|one| one.to_vec()).collect();
    for file in CERTIFICATE_VARIABLES.iter().filter_map(|name| hardening::variable(name)) {
        if Path::new(&file).is_file() {
            all.extend(load_certs_from_paths(Some(Path::new(&file)), None).certs.iter().map(|one| one.to_vec()));
        }
    }
    all.iter().map(|certificate| pem(certificate)).collect()
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(LINE) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

/// The values of the secrets, for the requests that the config named when this process started.
struct Values {
    requests: BTreeMap<String, SecretRequests>,
    source: Arc<PluginSecrets>,
}

impl CredentialValues for Values {
    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, String>> {
        async move {
            // The config may have changed. A new secret must not go to the hosts of the old one.
            if self.source.requests(name).as_ref() != self.requests.get(name) {
                return Err(format!("`[secrets.{name}]` has changed\nhint: start pinion again"));
            }
            self.source.value(name).await.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::files::paths::Paths;
    use crate::process::key_commands::KeyCommandSandbox;
    use pinion_agent::secrets::Secrets;
    use tempfile::TempDir;

    const CONFIG: &str = "[secrets.forge]\ncommand = \"echo Zq7Xw3Vb9Nm2Kp5L\"\nplaceholder = \"FORGE\"\n\
                          hosts = [\"forge.example\"]\n[sandbox]\ncredentials = [\"forge\"]\n";

    fn credentials(config: &str) -> (TempDir, ProgramCredentials) {
        let home = TempDir::new().unwrap();
        let path = home.path().to_owned();
        let paths = Paths { config: path.clone(), data: path.clone(), cache: path };
        std::fs::write(paths.config_file(), config).unwrap();
        let config = Config::load(&paths, home.path(), &crate::options::RunOptions::default()).unwrap();
        let off = KeyCommandSandbox::without_sandbox();
        let source = Arc::new(PluginSecrets::new(&paths, &config.secrets, &Secrets::default(), off));
        (home, ProgramCredentials::new(config.credentials, source))
    }

    fn pairs(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn programs_get_placeholders_and_certificates() {
        let (home, credentials) = credentials(CONFIG);
        let outside = pairs(&[("FORGE", "Zq7Xw3Vb9Nm2Kp5L"), ("SSL_CERT_FILE", "/x"), ("PATH", "/bin")]);
        let inside = credentials.inserted(outside.clone(), home.path()).unwrap();
        let value = |name: &str| {
            let found: Vec<&str> =
                inside.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].to_owned()
        };
        assert!(value("FORGE").starts_with("pinion-credential-forge-") && value("PATH") == "/bin");
        let file = value("SSL_CERT_FILE");
        assert!(
            CERTIFICATE_VARIABLES.iter().all(|name| value(name) == file)
                && file.starts_with(&*home.path().to_string_lossy())
        );
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(&credentials.proxy().unwrap().unwrap().authority()) && !text.contains("PRIVATE"));
        assert_eq!(credentials.removed(&outside), pairs(&[("SSL_CERT_FILE", "/x"), ("PATH", "/bin")]));
        assert_eq!(credentials.lines(), ["forge in FORGE for https://forge.example"]);
    }

    #[test]
    fn without_credentials_nothing_changes() {
        let (home, credentials) = credentials("");
        let outside = pairs(&[("SSL_CERT_FILE", "/x")]);
        assert_eq!(credentials.inserted(outside.clone(), home.path()).unwrap(), outside);
        assert!(credentials.proxy().unwrap().is_none() && !certificates_in(home.path()).exists());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn secret_whose_hosts_have_changed_is_not_sent() {
        let (home, credentials) = credentials(CONFIG);
        let requests = [("forge".to_owned(), credentials.listed[0].requests.clone())].into();
        let values = Values { requests, source: credentials.source.clone() };
        assert_eq!(values.value("forge").await.unwrap().expose_secret(), "Zq7Xw3Vb9Nm2Kp5L");
        std::fs::write(home.path().join("config.toml"), CONFIG.replace("forge.example", "other.example")).unwrap();
        assert!(values.value("forge").await.unwrap_err().contains("`[secrets.forge]` has changed\nhint: start"));
    }

    #[test]
    fn certificates_are_written_as_pem() {
        let text = pem(&[0xff; 60]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1].len(), lines[2].len()), (4, 64, 16));
    }
}
