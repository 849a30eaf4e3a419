//! The list `credentials` of `[sandbox]`: secrets that programs use through placeholders.

use crate::config::plugin_secrets::{DefinedSecrets, SecretOrigin};
use crate::failure::{Failure, Result};
use pinion_egress::ProxyCredential;
use pinion_plugin_runtime::SecretRequests;
use std::collections::BTreeSet;

/// Variables that name the certificate authorities for programs, under the names that curl, git, Python, Node.js and others
/// know.
pub const CERTIFICATE_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
];
/// Other variables that no placeholder may replace.
const USED: [&str; 6] = ["PATH", "HOME", "PWD", "SHELL", "TMPDIR", "NODE_USE_ENV_PROXY"];
/// The key in messages.
const KEY: &str = "`credentials` of `[sandbox]`";

/// A secret that programs use through a placeholder, which is another one in each process.
#[derive(Debug, Clone)]
pub struct ProgramCredential {
    /// The secret, and the hosts that get it.
    pub credential: ProxyCredential,
    /// The variable of programs with the placeholder.
    pub variable: String,
    /// The variable outside with the secret.
    pub origin: Option<String>,
    /// The requests that may carry the secret.
    pub requests: SecretRequests,
}

/// Finds the secrets that the list names.
///
/// # Errors
/// One of them is not defined, names no hosts or variable, or has unusable hosts.
pub(super) fn listed(names: &[String], secrets: &DefinedSecrets) -> Result<Vec<ProgramCredential>> {
    let mut variables = BTreeSet::new();
    let mut listed: Vec<ProgramCredential> = Vec::new();
    for name in names {
        if listed.iter().any(|other| other.credential.name() == name) {
            continue;
        }
        let secret = secrets.get(name).ok_or_else(|| {
            let failure = Failure::usage(format!("no secret `{name}`, which {KEY} names, is defined"));
            failure.hint(format!("add `[secrets.{name}]` with `hosts` to the config"))
        })?;
        let requests = secret.requests.clone().ok_or_else(|| {
            let failure = Failure::usage(format!("the secret `{name}`, which {KEY} names, is for no server"));
            failure.hint(format!("add `hosts = [\"https://…\"]` to `[secrets.{name}]`"))
        })?;
        let variable = secret.placeholder.clone().ok_or_else(|| {
            let failure = Failure::usage(format!("the secret `{name}`, which {KEY} names, has no variable"));
            failure.hint(format!("add `placeholder = \"VARIABLE\"` to `[secrets.{name}]`"))
        })?;
        if !is_usable(&variable) || !variables.insert(variable.clone()) {
            let failure = Failure::usage(format!("the variable `{variable}` cannot be that of the secret `{name}`"));
            return Err(failure.hint(format!("name another one with `placeholder` in `[secrets.{name}]`")));
        }
        let unusable = |error: String| {
            let (problem, hint) = error.split_once("\nhint: ").unwrap_or((&error, "change its `hosts`"));
            Failure::usage(format!("unusable secret `{name}`: {problem}")).hint(hint.to_owned())
        };
        let rules = requests.rules().map_err(|error| unusable(error.to_string()))?;
        let credential = ProxyCredential::new(name, requests.placement.clone().into(), rules);
        let credential = credential.map_err(|error| unusable(error.to_string()))?;
        let origin = match &secret.origin {
            SecretOrigin::Variable(name) => Some(name.clone()),
            SecretOrigin::Command(..) | SecretOrigin::AuthFile => None,
        };
        listed.push(ProgramCredential { credential, variable, origin, requests });
    }
    Ok(listed)
}

/// Returns whether a variable can hold a placeholder. Variables that programs or this process use for something else
/// cannot.
fn is_usable(variable: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let upper = variable.to_ascii_uppercase();
    !variable.is_empty()
        && variable.chars().all(is_plain)
        && !variable.starts_with(|c: char| c.is_ascii_digit())
        && !USED.contains(&variable)
        && !CERTIFICATE_VARIABLES.contains(&variable)
        && !upper.ends_with("_PROXY")
        && !upper.starts_with("LD_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plugin_secrets::defined;

    fn found(names: &[&str], sections: &str) -> Result<Vec<ProgramCredential>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        listed(&names, &defined(toml::from_str(sections).unwrap()).unwrap())
    }

    #[test]
    fn placeholder_is_in_the_variable_of_the_secret_or_in_another() {
        let sections = "[a]\nenv = \"A_TOKEN\"\nhosts = [\"a.example\"]\n\
                        [b]\ncommand = \"x\"\nplaceholder = \"B_TOKEN\"\nhosts = [\"b.example\"]\n\
                        [c]\nenv = \"C_SECRET\"\nplaceholder = \"C_TOKEN\"\nhosts = [\"c.example\"]\n[d]\n";
        let found = found(&["a", "c", "b", "a"], sections).unwrap();
        let variables: Vec<&str> = found.iter().map(|one| one.variable.as_str()).collect();
        assert_eq!(variables, ["A_TOKEN", "C_TOKEN", "B_TOKEN"]);
    }

    #[test]
    fn unusable_entries_are_errors_with_a_remedy() {
        for (section, problem, hint) in [
            ("[b]", "no secret `a`", "[secrets.a]"),
            ("[a]\nenv = \"A\"", "for no server", "hosts = "),
            ("[a]\nhosts = [\"a.example\"]", "has no variable", "placeholder = "),
            ("[a]\nenv = \"A\"\nhosts = [\"*\"]", "every host", "name the hosts"),
            ("[a]\nenv = \"A\"\nhosts = [\"http://a.example\"]", "without TLS", "https://"),
            ("[a]\nenv = \"A\"\nhosts = [\"a.example?x\"]", "a query", "rule"),
            ("[a]\nenv = \"PATH\"\nhosts = [\"a.example\"]", "`PATH` cannot be", "placeholder"),
            ("[a]\nenv = \"A B\"\nhosts = [\"a.example\"]", "`A B` cannot be", "placeholder"),
            ("[a]\nenv = \"https_proxy\"\nhosts = [\"a.example\"]", "`https_proxy` cannot be", "placeholder"),
        ] {
            let failure = found(&["a"], section).unwrap_err();
            let shown = failure.to_string();
            assert!(shown.contains(problem) && shown.contains(hint), "{shown}");
        }
        let twice = "[a]\nenv = \"A\"\nhosts = [\"a.example\"]\n[b]\nenv = \"A\"\nhosts = [\"a.example\"]";
        assert!(found(&["a", "b"], twice).unwrap_err().to_string().contains("that of the secret `b`"));
    }
}
