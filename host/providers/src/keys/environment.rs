//! Keys in environment variables, and in the files that variables name.

use super::KeyOrigin;
use super::auth_file::read_limited;
use super::error::KeyError;
use crate::auth::Auth;
use crate::vendors::ProviderInfo;
use secrecy::SecretString;
use serde_json::json;
use std::path::PathBuf;

/// A provider's key in the environment.
#[derive(Debug)]
pub(super) struct Environment {
    info: &'static ProviderInfo,
    found: Option<(KeyOrigin, SecretString)>,
    /// The files that may contain the key, in order of precedence.
    files: Vec<PathBuf>,
}

impl Environment {
    pub(super) fn new(info: &'static ProviderInfo) -> Self {
        Self { info, found: None, files: Vec::new() }
    }

    /// Reads the variables of the provider's row, and the variables of its authentication scheme.
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

    /// Returns the key. A file is read each time, because it may change between requests.
    pub(super) fn key(&self) -> Result<Option<(KeyOrigin, SecretString)>, KeyError> {
        if let Some(found) = &self.found {
            return Ok(Some(found.clone()));
        }
        let Some(path) = self.files.first() else { return Ok(None) };
        let text = read_limited(path).map_err(|source| KeyError::File { path: path.clone(), source })?;
        Ok(Some((KeyOrigin::File(path.clone()), text)))
    }
}

/// Reads the variables of the AWS tools as the JSON form of an access key.
fn access_key(variable: &dyn Fn(&str) -> Option<String>) -> Option<(KeyOrigin, SecretString)> {
    let key = json!({
        "AccessKeyId": variable("AWS_ACCESS_KEY_ID")?,
        "SecretAccessKey": variable("AWS_SECRET_ACCESS_KEY")?,
        "SessionToken": variable("AWS_SESSION_TOKEN"),
    });
    Some((KeyOrigin::Environment("AWS_ACCESS_KEY_ID"), SecretString::from(key.to_string())))
}
