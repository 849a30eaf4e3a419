//! The values of the secrets that the user defined for plugins.

use crate::config::Config;
use crate::config::plugin_secrets::{DefinedSecret, DefinedSecrets, SecretOrigin};
use crate::failure::with_causes;
use crate::files::paths::Paths;
use crate::plugins::file_stamp::Stamp;
use crate::process::hardening;
use crate::process::key_commands::KeyCommandSandbox;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::secrets::Secrets;
use pinion_plugin_runtime::{SecretError, SecretRequests, SecretSource};
use pinion_providers::{AuthFile, KeyCommand};
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The secrets of the user's config, as the file is now. Each value is redacted from all output before a plugin can use it.
pub struct PluginSecrets {
    paths: Paths,
    redacted: Secrets,
    sandbox: KeyCommandSandbox,
    state: Mutex<SecretsState>,
}

struct SecretsState {
    /// The state of the config when it was read.
    stamp: Option<Stamp>,
    entries: BTreeMap<String, Arc<SecretEntry>>,
}

/// A secret, with the command that prints its value.
struct SecretEntry {
    secret: DefinedSecret,
    command: Option<KeyCommand>,
}

impl SecretEntry {
    fn new(name: &str, secret: DefinedSecret, sandbox: &KeyCommandSandbox) -> Arc<Self> {
        let command = match &secret.origin {
            SecretOrigin::Command(line, grants) => {
                Some(sandbox.key_command(line, grants, &format!("`command-grants` of `[secrets.{name}]`")))
            }
            SecretOrigin::Variable(_) | SecretOrigin::AuthFile => None,
        };
        Arc::new(Self { secret, command })
    }
}

impl fmt::Debug for PluginSecrets {
    /// Nothing: definitions may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginSecrets").finish_non_exhaustive()
    }
}

impl PluginSecrets {
    /// Uses the secrets of a config that was just read. Values are added to `redacted`.
    pub fn new(paths: &Paths, defined: &DefinedSecrets, redacted: &Secrets, sandbox: KeyCommandSandbox) -> Self {
        let entry = |(name, secret): (&String, &DefinedSecret)| {
            (name.clone(), SecretEntry::new(name, secret.clone(), &sandbox))
        };
        let entries = defined.iter().map(entry).collect();
        let state = Mutex::new(SecretsState { stamp: Stamp::from_path(&paths.config_file()), entries });
        Self { paths: paths.clone(), redacted: redacted.clone(), sandbox, state }
    }

    /// Returns a secret, reading the config again only if it has changed. An invalid file changes nothing.
    fn entry(&self, name: &str) -> Option<Arc<SecretEntry>> {
        let stamp = Stamp::from_path(&self.paths.config_file());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stamp != stamp {
            match Config::secrets_of_user(&self.paths) {
                Ok(defined) => state.replace(defined, &self.sandbox),
                Err(failure) => tracing::error!(%failure, "the config cannot be read again"),
            }
            state.stamp = stamp;
        }
        state.entries.get(name).cloned()
    }

    async fn read(&self, name: &str) -> Result<SecretString, SecretError> {
        let Some(entry) = self.entry(name) else {
            return Err(error(format!("no secret `{name}` is defined"), format!("add [secrets.{name}] to the config")));
        };
        let value = match &entry.secret.origin {
            SecretOrigin::Variable(variable) => {
                hardening::variable(variable).map(SecretString::from).ok_or_else(|| {
                    error(
                        format!("the secret `{name}` has no value"),
                        format!("set the variable {variable} before the start"),
                    )
                })
            }
            SecretOrigin::AuthFile => self.stored(name),
            SecretOrigin::Command(..) => match &entry.command {
                Some(command) => command.value().await.map_err(|failure| {
                    let what = format!("the command of the secret `{name}` failed: {}", with_causes(&failure));
                    let hint = failure.hint().map_or_else(|| "run it in a shell to see why".to_owned(), str::to_owned);
                    error(what, hint)
                }),
                None => Err(error(format!("the secret `{name}` has no command"), "restart pinion".to_owned())),
            },
        }?;
        let value = SecretString::from(value.expose_secret().trim());
        self.redacted.add(&value);
        let alone = Secrets::default();
        alone.add(&value);
        // A value that cannot be found in output must not get there.
        match alone.are_in(value.expose_secret().as_bytes()) {
            true => Ok(value),
            false => Err(error(
                format!("the secret `{name}` is too short to be redacted from output"),
                "use at least 8 random characters".to_owned(),
            )),
        }
    }

    fn stored(&self, name: &str) -> Result<SecretString, SecretError> {
        let found = AuthFile::new(self.paths.auth_file()).key(name).map_err(|failure| {
            let hint = failure.hint().unwrap_or_else(|| "fix the file".to_owned());
            error(format!("could not read the secret `{name}`: {}", with_causes(&failure)), hint)
        })?;
        found.ok_or_else(|| {
            let hint = format!("add [{name}] with `key` to auth.toml, or `env` or `command` to [secrets.{name}]");
            error(format!("the secret `{name}` has no value"), hint)
        })
    }
}

impl SecretsState {
    /// Takes new definitions. Unchanged ones keep the output of their command.
    fn replace(&mut self, defined: DefinedSecrets, sandbox: &KeyCommandSandbox) {
        let old = std::mem::take(&mut self.entries);
        let entry = |(name, secret): (String, DefinedSecret)| {
            let same = old.get(&name).filter(|old| old.secret == secret).cloned();
            let entry = same.unwrap_or_else(|| SecretEntry::new(&name, secret, sandbox));
            (name, entry)
        };
        self.entries = defined.into_iter().map(entry).collect();
    }
}

impl SecretSource for PluginSecrets {
    fn has(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| match &entry.secret.origin {
            SecretOrigin::Variable(variable) => {
                hardening::variable(variable).is_some_and(|value| !value.trim().is_empty())
            }
            SecretOrigin::AuthFile => self.stored(name).is_ok(),
            SecretOrigin::Command(..) => true,
        })
    }

    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, SecretError>> {
        self.read(name).boxed()
    }

    fn requests(&self, name: &str) -> Option<SecretRequests> {
        self.entry(name)?.secret.requests.clone()
    }
}

fn error(what: String, hint: String) -> SecretError {
    SecretError { what, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn secrets(config: &str) -> (TempDir, PluginSecrets, Secrets) {
        let home = TempDir::new().unwrap();
        let path = home.path().to_owned();
        let paths = Paths { config: path.clone(), data: path.clone(), cache: path };
        std::fs::write(paths.config_file(), config).unwrap();
        let redacted = Secrets::default();
        let defined = Config::secrets_of_user(&paths).unwrap();
        let secrets = PluginSecrets::new(&paths, &defined, &redacted, KeyCommandSandbox::without_sandbox());
        (home, secrets, redacted)
    }

    async fn value(secrets: &PluginSecrets, name: &str) -> Result<String, String> {
        secrets.value(name).await.map(|value| value.expose_secret().to_owned()).map_err(|error| error.to_string())
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn value_of_a_command_is_redacted_before_it_is_used() {
        let (_home, secrets, redacted) = secrets("[secrets.a]\ncommand = \"echo ' Zq7Xw3Vb9Nm2Kp5L'\"\n");
        assert!(secrets.has("a") && redacted.is_empty());
        assert_eq!(value(&secrets, "a").await.unwrap(), "Zq7Xw3Vb9Nm2Kp5L");
        assert_eq!(redacted.clean("it is Zq7Xw3Vb9Nm2Kp5L"), "it is [redacted]");
    }

    #[tokio::test]
    async fn value_of_the_key_file_is_found_by_the_secrets_name() {
        let (home, secrets, _) = secrets("[secrets.a]\n");
        assert!(!secrets.has("a") && value(&secrets, "a").await.unwrap_err().contains("has no value\nhint: add [a]"));
        let file = home.path().join("auth.toml");
        crate::files::private::replace(&file, b"[a]\nkey = \"Zq7Xw3Vb9Nm2\"\n").unwrap();
        assert!(secrets.has("a"));
        assert_eq!(value(&secrets, "a").await.unwrap(), "Zq7Xw3Vb9Nm2");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn unusable_values_are_errors_that_do_not_show_them() {
        let config = "[secrets.short]\ncommand = \"echo hunter2\"\n[secrets.fails]\ncommand = \"echo Zq7Xw3Vb9; exit 3\"\n\
                      [secrets.unset]\nenv = \"PINION_TEST_UNSET\"\n";
        let (_home, secrets, _) = secrets(config);
        let errors = [("short", "too short"), ("fails", "failed: exit status: 3"), ("unset", "PINION_TEST_UNSET")];
        for (name, expected) in errors.into_iter().chain([("other", "no secret `other` is defined")]) {
            let error = value(&secrets, name).await.unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2") && !error.contains("Zq7"), "{error}");
        }
    }

    #[tokio::test]
    async fn changed_config_applies_to_the_next_use() {
        let (home, secrets, _) = secrets("");
        assert!(!secrets.has("a"));
        let file = home.path().join("config.toml");
        std::fs::write(&file, "[secrets.a]\ncommand = \"x\"\nhosts = [\"https://x/\"]\n").unwrap();
        assert!(secrets.has("a") && secrets.requests("a").is_some());
        std::fs::write(&file, "[secrets.a]\nwrong = 1\n").unwrap();
        assert!(secrets.has("a"));
    }
}
