//! The check of a key that the user entered, before it is stored.

use crate::failure::{Failure, Result};
use crate::model::select::{certificates, provider_config};
use crate::process::hardening;
use crate::workspace_base::Base;
use pinion_agent::provider::ProviderError;
use pinion_providers::{KeyCheck, ProviderConfig, ProviderContext};
use secrecy::SecretString;
use std::time::Duration;
use tokio::time::timeout;

/// Time that the provider has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyVerdict {
    /// The provider accepts the key.
    Accepted,
    /// The provider refuses the key, with its reason.
    Refused(String),
    /// The check failed for another reason, such as a missing network.
    Unknown(String),
}

impl Base {
    /// Asks a provider with this key for its list of models, at most for ten seconds. Stores nothing.
    pub async fn check_key(&self, provider: &str, key: &SecretString) -> KeyVerdict {
        let check = match self.key_check(provider, key) {
            Ok(Some(check)) => check,
            Ok(None) => return KeyVerdict::Unknown("it cannot be tested without a request to a model".to_owned()),
            Err(failure) => return KeyVerdict::Unknown(failure.to_string()),
        };
        let late = || KeyVerdict::Unknown(format!("no answer within {} s", PATIENCE.as_secs()));
        timeout(PATIENCE, check.ask()).await.map_or_else(|_| late(), verdict)
    }

    fn key_check(&self, provider: &str, key: &SecretString) -> Result<Option<KeyCheck>> {
        let info = self.config.registry.provider(provider).map_err(Failure::from)?;
        let said = self.config.providers.get(info.name).cloned().unwrap_or_default();
        let base_url = self.base_url_of(info, None);
        let context = ProviderContext {
            secrets: self.secrets.clone(),
            region: said.region.clone().or_else(|| info.region_from(hardening::variable)),
            project: said.project.clone().or_else(|| info.project_from(hardening::variable)),
            certificates: certificates(&said)?,
            ..ProviderContext::default()
        };
        let config = ProviderConfig { api_key: Some(key.clone()), ..provider_config(info, said, base_url) };
        KeyCheck::from_config(info, config, &context).map_err(Failure::from)
    }
}

/// Returns the meaning of an answer.
fn verdict(answer: std::result::Result<bool, ProviderError>) -> KeyVerdict {
    // For the middle of a sentence.
    let line = |text: String| text.lines().next().unwrap_or_default().trim_end_matches(['.', '?', '!']).to_owned();
    match answer {
        Ok(true) => KeyVerdict::Accepted,
        Ok(false) => KeyVerdict::Unknown("the server answers without a key, too".to_owned()),
        Err(ProviderError::Auth { message }) => KeyVerdict::Refused(line(message)),
        Err(error) => KeyVerdict::Unknown(line(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_key_counts_against_it() {
        let auth = ProviderError::Auth { message: "invalid x-api-key\nhint: log in".into() };
        assert_eq!(verdict(Err(auth)), KeyVerdict::Refused("invalid x-api-key".into()));
        let offline = ProviderError::Unreachable { message: "no route".into() };
        assert_eq!(verdict(Err(offline)), KeyVerdict::Unknown("network: no route".into()));
        let busy = ProviderError::Overloaded { message: "busy".into(), retry_after: None };
        assert!(matches!(verdict(Err(busy)), KeyVerdict::Unknown(_)));
        assert_eq!(verdict(Ok(true)), KeyVerdict::Accepted);
        assert!(matches!(verdict(Ok(false)), KeyVerdict::Unknown(_)));
    }
}
