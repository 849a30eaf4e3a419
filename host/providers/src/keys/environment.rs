//! Keys in environment variables, and in the files that they name.

use super::auth_file::read_limited;
use super::{KeyError, KeyOrigin};
use crate::auth::Auth;
use crate::vendors::ProviderInfo;
use secrecy::SecretString;
use serde_json::json;
use std::path::PathBuf;

/// What the environment says of a provider's key.
#[derive(Debug)]
pub(super) struct Environment {
    info: &'static ProviderInfo,
    found: Option<(KeyOrigin, SecretString)>,
    /// Files to read the key from, in this order.
    files: Vec<PathBuf>,
}

impl Environment {
    pub(super) fn new(info: &'static ProviderInfo) -> Self {
        Self { info, found: None, files: Vec::new() }
    }

    /// Looks for the provider's own variables, and those that its vendor's tools know.
    pub(super) fn look_up(&mut self, variable: &dyn Fn(&str) -> Option<String>) {
        let plain = |name: &'static str| Some((KeyOrigin::Environment(name), SecretString::from(variable(name)?)));
        self.found = self.info.key_variables().find_map(plain);
        if self.found.is_none() && self.info.auth == Auth::Aws {
            self.found = access_key(variable);
        }
        if self.info.auth == Auth::Google {
            self.files.splice(..0, variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        }
    }

    pub(super) fn google_default(&mut self, path: PathBuf) {
        if self.info.auth == Auth::Google && path.is_file() {
            self.files.push(path);
        }
    }

    /// A file may change between two requests, so it is read before each.
    pub(super) fn key(&self) -> Result<Option<(KeyOrigin, SecretString)>, KeyError> {
        if let Some(found) = &self.found {
            return Ok(Some(found.clone()));
        }
        let Some(path) = self.files.first() else { return Ok(None) };
        let text = read_limited(path).map_err(|source| KeyError::File { path: path.clone(), source })?;
        Ok(Some((KeyOrigin::File(path.clone()), text)))
    }
}

/// AWS' own variables, as the JSON in which an access key is given.
fn access_key(variable: &dyn Fn(&str) -> Option<String>) -> Option<(KeyOrigin, SecretString)> {
    let key = json!({
        "AccessKeyId": variable("AWS_ACCESS_KEY_ID")?,
        "SecretAccessKey": variable("AWS_SECRET_ACCESS_KEY")?,
        "SessionToken": variable("AWS_SESSION_TOKEN"),
    });
    Some((KeyOrigin::Environment("AWS_ACCESS_KEY_ID"), SecretString::from(key.to_string())))
}
