//! Credentials that plugins name and never see.

use crate::error::ExchangeFailure;
use crate::policy::{Denial, Rule};
use crate::request::{Outgoing, is_forbidden};
use crate::target::{RequestTarget, Scheme};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use pinion_redact::Secrets;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use url::Url;

/// A secret with the requests that may carry it.
///
/// It is sent over HTTPS, and over HTTP to this machine, if one of the secret's rules covers the request. These rules
/// allow nothing else: the request needs a rule of the plugin, too.
#[derive(Clone)]
pub struct Credential {
    name: String,
    secret: SecretString,
    placement: CheckedPlacement,
    rules: Vec<Rule>,
}

/// The place of a secret in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// `authorization: Bearer SECRET`.
    Bearer,
    /// `authorization: Basic …`, with the secret as password.
    Basic {
        /// The user name, without `:`.
        user: String,
    },
    /// A header field of another name, or with another scheme.
    Header {
        /// The name, such as `x-api-key`.
        name: String,
        /// Text before the secret, such as `token `; may be empty.
        prefix: String,
    },
    /// A parameter of the query.
    Query {
        /// The name of the parameter.
        parameter: String,
    },
}

/// A placement that was checked.
#[derive(Clone)]
enum CheckedPlacement {
    Header { name: HeaderName, value: HeaderValue },
    Query { parameter: String },
}

/// A credential is unusable. No message contains the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid credential `{name}`: {problem}\nhint: {hint}")]
pub struct CredentialError {
    name: String,
    problem: String,
    hint: &'static str,
}

impl CredentialError {
    /// The system has no random numbers for the placeholder of a credential.
    pub(crate) fn no_placeholder(name: &str, error: &str) -> Self {
        let problem = format!("no random placeholder: {error}");
        Self { name: name.to_owned(), problem, hint: "start again" }
    }
}

impl Credential {
    /// Creates a credential that is sent with the requests that `rules` cover.
    ///
    /// # Errors
    /// The placement or the rules are unusable: a header that the client sets itself, no rule, a rule for every host, or
    /// a rule for HTTP to another machine. The secret contains control characters, or is too short or too uniform to be
    /// redacted from responses.
    pub fn new(
        name: impl Into<String>,
        secret: SecretString,
        placement: Placement,
        rules: Vec<Rule>,
    ) -> Result<Self, CredentialError> {
        let name = name.into();
        check(&secret, &rules)
            .and_then(|()| check_placement(&placement, &secret))
            .map_err(|(problem, hint)| CredentialError { name: name.clone(), problem, hint })
            .map(|placement| Self { name: name.clone(), secret, placement, rules })
    }

    /// Returns the handle.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the credential may be sent with a request.
    pub(crate) fn is_for(&self, method: &str, target: &RequestTarget) -> bool {
        let is_confidential = target.scheme() == Scheme::Https || target.is_loopback();
        is_confidential && self.rules.iter().any(|rule| rule.covers(method, target))
    }

    /// Checks that a plugin does not set the same field or parameter itself.
    fn check_is_free(&self, request: &Outgoing) -> Result<(), ExchangeFailure> {
        match &self.placement {
            CheckedPlacement::Header { name, .. } if request.headers.contains_key(name) => {
                Err(ExchangeFailure::Invalid(format!("the header `{name}` is set by the credential `{}`", self.name)))
            }
            CheckedPlacement::Query { parameter }
                if request.target.url().query_pairs().any(|(name, _)| name == *parameter) =>
            {
                Err(ExchangeFailure::Invalid(format!(
                    "the parameter `{parameter}` is set by the credential `{}`",
                    self.name
                )))
            }
            _ => Ok(()),
        }
    }

    /// Inserts the secret. Replaces the parameter that a server may have copied to the URL of a redirect.
    pub(crate) fn insert(&self, headers: &mut HeaderMap, url: &mut Url) {
        match &self.placement {
            CheckedPlacement::Header { name, value } => {
                headers.insert(name, value.clone());
            }
            CheckedPlacement::Query { parameter } => {
                let is_set = url.query_pairs().any(|(name, _)| name == *parameter);
                if is_set {
                    let others: Vec<_> = url.query_pairs().filter(|(name, _)| name != parameter).collect();
                    let others: Vec<_> =
                        others.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
                    url.query_pairs_mut().clear().extend_pairs(others);
                }
                url.query_pairs_mut().append_pair(parameter, self.secret.expose_secret());
            }
        }
    }
}

/// Shows the handle only.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.name)
    }
}

fn check(secret: &SecretString, rules: &[Rule]) -> Result<(), (String, &'static str)> {
    if rules.is_empty() {
        return Err(("it has no rule".to_owned(), "name the hosts that it is for"));
    }
    if let Some(rule) = rules.iter().find(|rule| rule.is_for_any_host()) {
        return Err((format!("`{rule}` would send it to every host"), "name the hosts that it is for"));
    }
    if let Some(rule) = rules.iter().find(|rule| !rule.is_confidential()) {
        return Err((format!("`{rule}` would send it without TLS"), "use `https://`, or a host on this machine"));
    }
    if secret.expose_secret().contains(char::is_control) {
        return Err(("the secret contains a control character".to_owned(), "remove the line break at its end"));
    }
    let secrets = Secrets::default();
    secrets.add(secret);
    match secrets.are_in(secret.expose_secret().as_bytes()) {
        true => Ok(()),
        false => Err((
            "the secret is too short or too simple to be recognized in responses".to_owned(),
            "use at least 8 random characters",
        )),
    }
}

fn check_placement(placement: &Placement, secret: &SecretString) -> Result<CheckedPlacement, (String, &'static str)> {
    let secret = secret.expose_secret();
    let header = |name: HeaderName, value: String| {
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| ("its value does not fit a header".to_owned(), "use ASCII characters"))?;
        value.set_sensitive(true);
        Ok(CheckedPlacement::Header { name, value })
    };
    match placement {
        Placement::Bearer => header(AUTHORIZATION, format!("Bearer {secret}")),
        Placement::Basic { user } if user.contains(':') => {
            Err(("its user name contains `:`".to_owned(), "write the password as the secret"))
        }
        Placement::Basic { user } => {
            header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{user}:{secret}"))))
        }
        Placement::Header { name, prefix } => {
            let parsed = name.parse::<HeaderName>().ok().filter(|name| !is_forbidden(name));
            let unusable =
                || (format!("`{}` is not a usable header", name.escape_debug()), "write a name such as `x-api-key`");
            header(parsed.ok_or_else(unusable)?, format!("{prefix}{secret}"))
        }
        Placement::Query { parameter } if parameter.is_empty() => {
            Err(("its parameter has no name".to_owned(), "write a name such as `key`"))
        }
        Placement::Query { parameter } => Ok(CheckedPlacement::Query { parameter: parameter.clone() }),
    }
}

/// The credentials that a plugin may use.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    all: Vec<Credential>,
}

impl Credentials {
    /// Creates a set. Of several credentials with one name, the first one counts.
    pub fn new(all: Vec<Credential>) -> Self {
        Self { all }
    }

    /// Adds the secrets that may be sent to the server of `target`, which can repeat them later. A plugin may have
    /// chosen the answers of other servers, so they are not compared with these secrets.
    pub(crate) fn add_known_to(&self, target: &RequestTarget, known: &Secrets) {
        let is_for_origin = |one: &&Credential| one.rules.iter().any(|rule| rule.covers_origin(target));
        self.all.iter().filter(is_for_origin).for_each(|one| known.add(&one.secret));
    }

    /// Returns the credential that a request names, if it may be sent with it.
    pub(crate) fn find_credential(&self, name: &str, request: &Outgoing) -> Result<&Credential, ExchangeFailure> {
        let found = self.all.iter().find(|credential| credential.name == name);
        let credential = found.ok_or_else(|| Denial::UnknownCredential { name: shortened(name) })?;
        if !credential.is_for(&request.method, &request.target) {
            return Err(Denial::Credential { name: shortened(name), origin: request.target.to_string() }.into());
        }
        credential.check_is_free(request)?;
        Ok(credential)
    }
}

/// Makes a name that a plugin wrote fit for a message.
fn shortened(name: &str) -> String {
    name.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5L";

    fn credential(secret: &str, placement: Placement, rules: &[&str]) -> Result<Credential, CredentialError> {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Credential::new("github", SecretString::from(secret), placement, rules)
    }

    #[test]
    fn unusable_credentials_are_refused_without_showing_the_secret() {
        let header = |name: &str| Placement::Header { name: name.to_owned(), prefix: String::new() };
        for (secret, placement, rules, problem) in [
            (SECRET, Placement::Bearer, &[] as &[&str], "it has no rule"),
            (SECRET, Placement::Bearer, &["a.example", "*"], "`https://*` would send it to every host"),
            (SECRET, Placement::Bearer, &["http://a.example"], "without TLS"),
            (SECRET, Placement::Bearer, &["private http://a.example"], "without TLS"),
            (SECRET, Placement::Bearer, &["http://10.0.0.1"], "without TLS"),
            ("Zq7Xw3Vb9Nm2Kp5L\n", Placement::Bearer, &["a.example"], "a control character"),
            ("Zq7Xw", Placement::Bearer, &["a.example"], "too short or too simple"),
            ("--------------------", Placement::Bearer, &["a.example"], "too short or too simple"),
            (SECRET, Placement::Basic { user: "a:b".to_owned() }, &["a.example"], "its user name contains `:`"),
            (SECRET, header("host"), &["a.example"], "`host` is not a usable header"),
            (SECRET, header("x y"), &["a.example"], "`x y` is not a usable header"),
            (SECRET, Placement::Query { parameter: String::new() }, &["a.example"], "its parameter has no name"),
        ] {
            let error = credential(secret, placement, rules).unwrap_err().to_string();
            assert!(error.starts_with("invalid credential `github`: ") && error.contains(problem), "{error}");
            assert!(error.contains("\nhint: ") && !error.contains(secret), "{error}");
        }
        for rule in ["a.example", "*.a.example/v1", "http://localhost:3000", "http://127.0.0.1:80", "http://[::1]"] {
            assert!(credential(SECRET, Placement::Bearer, &[rule]).is_ok(), "{rule}");
        }
    }

    #[test]
    fn secret_has_its_place() {
        let inserted = |placement, url: &str| {
            let (mut headers, mut url) = (HeaderMap::new(), Url::parse(url).unwrap());
            credential(SECRET, placement, &["a.example"]).unwrap().insert(&mut headers, &mut url);
            let fields = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            (fields.collect::<String>(), url.query().unwrap_or_default().to_owned())
        };
        let url = "https://a.example/";
        assert_eq!(inserted(Placement::Bearer, url).0, "authorization: Bearer Zq7Xw3Vb9Nm2Kp5L");
        let basic = Placement::Basic { user: "me".to_owned() };
        assert_eq!(inserted(basic, url).0, "authorization: Basic bWU6WnE3WHczVmI5Tm0yS3A1TA==");
        let token = Placement::Header { name: "Authorization".to_owned(), prefix: "token ".to_owned() };
        assert_eq!(inserted(token, url).0, "authorization: token Zq7Xw3Vb9Nm2Kp5L");
        let query = Placement::Query { parameter: "key".to_owned() };
        let expected = (String::new(), "q=a%20b&key=Zq7Xw3Vb9Nm2Kp5L".to_owned());
        assert_eq!(inserted(query.clone(), "https://a.example/?q=a%20b"), expected);
        assert_eq!(inserted(query, "https://a.example/?key=old&q=1").1, "q=1&key=Zq7Xw3Vb9Nm2Kp5L");
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let credentials = Credentials::new(vec![credential(SECRET, Placement::Bearer, &["a.example"]).unwrap()]);
        assert_eq!(format!("{:?}", credentials.all), "[Credential(github)]");
        let (known, target) = (Secrets::default(), |url| RequestTarget::parse(url).unwrap());
        credentials.add_known_to(&target("https://other.example/"), &known);
        assert!(known.is_empty());
        credentials.add_known_to(&target("https://a.example/"), &known);
        assert!(known.are_in(SECRET.as_bytes()));
    }
}
