//! The sections `[secrets.NAME]`: credentials that plugins use by name, and programs through placeholders.

use crate::config::sandbox::CommandGrants;
use crate::failure::{Failure, Result};
use pinion_plugin_runtime::{SecretPlacement, SecretRequests};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes of the longest name.
const MAX_NAME: usize = 64;

/// A section `[secrets.NAME]`. Without `env` and `command`, its value is the key of `[NAME]` in `auth.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileSecret {
    /// Environment variable with the value.
    env: Option<String>,
    /// Shell command that prints the value.
    command: Option<String>,
    /// Grants of that command in its sandbox.
    command_grants: CommandGrants,
    /// URLs of the HTTP requests that may carry it, such as `https://api.github.com/`.
    hosts: Vec<String>,
    /// Header field of these requests.
    header: Option<String>,
    /// Word before the value in that header; empty if there is no word.
    scheme: Option<String>,
    /// User name, if the value is a password of `authorization: Basic`.
    user: Option<String>,
    /// Parameter of the query, instead of a header.
    query: Option<String>,
    /// Variable with the placeholder, in programs that may use the secret; by default the one of `env`.
    placeholder: Option<String>,
}

/// A secret that the user defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedSecret {
    /// The place of the value.
    pub origin: SecretOrigin,
    /// The HTTP requests that may carry it; `None` if it has no hosts.
    pub requests: Option<SecretRequests>,
    /// The variable of programs with the placeholder; `None` if the section names no variable.
    pub placeholder: Option<String>,
}

/// The place of a secret's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOrigin {
    /// This variable.
    Variable(String),
    /// The output of this shell command, which has these grants.
    Command(String, CommandGrants),
    /// The key of the secret's name in `auth.toml`.
    AuthFile,
}

/// The secrets of a config, by name.
pub type DefinedSecrets = BTreeMap<String, DefinedSecret>;

/// Checks and converts the sections.
///
/// # Errors
/// A section contradicts itself, or its name is unusable.
pub(super) fn defined(sections: BTreeMap<String, FileSecret>) -> Result<DefinedSecrets> {
    let defined = |(name, section): (String, FileSecret)| {
        check_name(&name)?;
        let (origin, requests) = (section.origin(&name)?, section.requests(&name)?);
        let placeholder = section.placeholder.or(section.env);
        Ok((name, DefinedSecret { origin, requests, placeholder }))
    };
    sections.into_iter().map(defined).collect()
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain) {
        return Ok(());
    }
    let hint = format!("use 1 to {MAX_NAME} of a-z, A-Z, 0-9, _ and -");
    Err(Failure::usage(format!("invalid name of a secret: `{name}`")).hint(hint))
}

impl FileSecret {
    fn origin(&self, name: &str) -> Result<SecretOrigin> {
        match (&self.env, &self.command) {
            (Some(_), Some(_)) => Err(contradiction(name, "`env` and `command`")),
            (Some(variable), None) => Ok(SecretOrigin::Variable(variable.clone())),
            (None, Some(command)) => Ok(SecretOrigin::Command(command.clone(), self.command_grants.clone())),
            (None, None) => Ok(SecretOrigin::AuthFile),
        }
    }

    fn requests(&self, name: &str) -> Result<Option<SecretRequests>> {
        let placement = match (&self.query, &self.user) {
            (Some(_), _) if self.header.is_some() || self.scheme.is_some() || self.user.is_some() => {
                return Err(contradiction(name, "`query` and a header"));
            }
            (None, Some(_)) if self.header.is_some() || self.scheme.is_some() => {
                return Err(contradiction(name, "`user` and `header` or `scheme`"));
            }
            (Some(parameter), _) => SecretPlacement::Query { parameter: parameter.clone() },
            (None, Some(user)) => SecretPlacement::Basic { user: user.clone() },
            (None, None) => self.header(),
        };
        let is_placed = [&self.query, &self.user, &self.header, &self.scheme].into_iter().any(Option::is_some);
        match self.hosts.is_empty() {
            true if is_placed => Err(Failure::usage(format!("`[secrets.{name}]` names no `hosts`"))
                .hint("add `hosts = [\"https://…\"]` with the servers that it is for")),
            true => Ok(None),
            false => Ok(Some(SecretRequests { hosts: self.hosts.clone(), placement })),
        }
    }

    /// Returns the header: `authorization: Bearer` unless the section says otherwise. Only `authorization` has a scheme
    /// by default.
    fn header(&self) -> SecretPlacement {
        let name = self.header.clone().unwrap_or_else(|| "authorization".to_owned());
        let usual = || name.eq_ignore_ascii_case("authorization").then(|| "Bearer".to_owned());
        let scheme = self.scheme.clone().or_else(usual).filter(|scheme| !scheme.is_empty());
        SecretPlacement::Header { name, scheme }
    }
}

fn contradiction(name: &str, keys: &str) -> Failure {
    Failure::usage(format!("`[secrets.{name}]` has {keys}")).hint("keep one of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<DefinedSecret> {
        let section = toml::from_str(text).unwrap();
        Ok(defined(BTreeMap::from([("a".to_owned(), section)]))?.remove("a").unwrap())
    }

    fn placement(text: &str) -> SecretPlacement {
        one(&format!("hosts = [\"https://x/\"]\n{text}")).unwrap().requests.unwrap().placement
    }

    #[test]
    fn origin_is_a_variable_a_command_or_the_key_file() {
        assert_eq!(one("env = \"A\"").unwrap().origin, SecretOrigin::Variable("A".to_owned()));
        assert_eq!(
            one("command = \"op read\"").unwrap().origin,
            SecretOrigin::Command("op read".to_owned(), CommandGrants::default())
        );
        let plain = one("").unwrap();
        assert_eq!((plain.origin, plain.requests), (SecretOrigin::AuthFile, None));
        assert!(one("env = \"A\"\ncommand = \"b\"").is_err());
    }

    #[test]
    fn placement_is_a_bearer_token_by_default() {
        let header = |name: &str, scheme: Option<&str>| SecretPlacement::Header {
            name: name.to_owned(),
            scheme: scheme.map(str::to_owned),
        };
        assert_eq!(placement(""), header("authorization", Some("Bearer")));
        assert_eq!(placement("scheme = \"token\""), header("authorization", Some("token")));
        assert_eq!(placement("scheme = \"\""), header("authorization", None));
        assert_eq!(placement("header = \"x-api-key\""), header("x-api-key", None));
        assert_eq!(placement("user = \"me\""), SecretPlacement::Basic { user: "me".to_owned() });
        assert_eq!(placement("query = \"key\""), SecretPlacement::Query { parameter: "key".to_owned() });
    }

    #[test]
    fn contradictions_and_unusable_names_are_errors() {
        for wrong in ["header = \"x\"", "query = \"k\"", "user = \"u\""] {
            assert!(one(wrong).unwrap_err().to_string().contains("hosts"), "{wrong}");
        }
        for wrong in ["query = \"k\"\nuser = \"u\"", "query = \"k\"\nheader = \"h\"", "user = \"u\"\nscheme = \"s\""] {
            assert!(one(&format!("hosts = [\"https://x/\"]\n{wrong}")).is_err(), "{wrong}");
        }
        for name in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(defined(BTreeMap::from([(name.to_owned(), FileSecret::default())])).is_err(), "{name}");
        }
    }
}
