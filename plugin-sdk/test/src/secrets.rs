//! The secrets of a test.

use futures_util::future::BoxFuture;
use pinion_agent::secrecy::{ExposeSecret as _, SecretString};
use pinion_agent::secrets::Secrets;
use pinion_plugin_runtime::{SecretError, SecretPlacement, SecretRequests, SecretSource};
use std::collections::BTreeMap;

/// A secret with the URLs that may receive it.
#[derive(Debug, Clone)]
pub(crate) struct TestSecret {
    pub(crate) value: SecretString,
    pub(crate) hosts: Vec<String>,
    pub(crate) placement: SecretPlacement,
}

/// The secrets by name, and everything that redacts them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestSecrets {
    pub(crate) by_name: BTreeMap<String, TestSecret>,
    pub(crate) redacted: Secrets,
}

impl SecretSource for TestSecrets {
    fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, SecretError>> {
        Box::pin(async move {
            let Some(secret) = self.by_name.get(name) else {
                let what = format!("the test defines no secret `{name}`");
                return Err(SecretError {
                    what,
                    hint: "script it: `Plugin::secret` in Rust, `secret` in a case".to_owned(),
                });
            };
            self.redacted.add(&secret.value);
            Ok(SecretString::from(secret.value.expose_secret().to_owned()))
        })
    }

    fn requests(&self, name: &str) -> Option<SecretRequests> {
        let TestSecret { hosts, placement, .. } = self.by_name.get(name)?;
        (!hosts.is_empty()).then(|| SecretRequests { hosts: hosts.clone(), placement: placement.clone() })
    }
}
