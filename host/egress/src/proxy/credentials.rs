//! Credentials of programs, which hold placeholders: the proxy puts the secret in their place.
//!
//! A placeholder is replaced in the header fields `authorization` and, if the credential has one, its own, or in its
//! parameter of the query; also in the base64 of `authorization: Basic`. Nothing else of a request is changed, so that a
//! server stores the secret nowhere because of a placeholder in a body or a path. Where the rules of the credential do
//! not cover the request, the placeholder is sent as it is: it is not secret.

use super::authority::Authority;
use crate::credential::{Credential, CredentialError, Placement};
use crate::policy::Rule;
use crate::request::changes_request;
use crate::response::redacted;
use crate::target::{RequestTarget, Scheme};
use crate::tls::{InvalidCertificates, Tls};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use pinion_redact::{ByteRedactor, Secrets};
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use url::{Position, Url};

/// The base64 of other programs, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Random bytes of a placeholder.
const RANDOM: usize = 16;

/// Returns the values of credentials when a request needs them.
pub trait CredentialValues: Send + Sync {
    /// Returns the secret of this name, in bounded time; an error is a text for the reader of the program's output.
    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, String>>;
}

/// A credential that programs use through a placeholder.
#[derive(Debug, Clone)]
pub struct ProxyCredential {
    placeholder: String,
    placement: Placement,
    rules: Vec<Rule>,
    /// The credential with the placeholder in place of the secret.
    model: Credential,
}

/// The credentials that a [`Proxy`](super::Proxy) inserts, and the certificate authority for their hosts.
pub struct ProxyCredentials {
    all: Vec<ProxyCredential>,
    values: Arc<dyn CredentialValues>,
    authority: Authority,
    tls: Tls,
    /// The secrets that were sent, by the index of their credential.
    used: Mutex<Vec<(usize, SecretString)>>,
}

/// The authority for the hosts of credentials cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no certificate authority for the hosts of credentials: {0}")]
pub struct AuthorityError(String);

impl ProxyCredential {
    /// Creates a credential with a random placeholder that cannot be guessed, for the requests that `rules` cover.
    ///
    /// # Errors
    /// The placement or the rules are unusable, as for [`Credential::new`], or the system has no random numbers.
    pub fn new(name: impl Into<String>, placement: Placement, rules: Vec<Rule>) -> Result<Self, CredentialError> {
        let name = name.into();
        let mut random = [0; RANDOM];
        getrandom::fill(&mut random).map_err(|error| CredentialError::no_placeholder(&name, &error.to_string()))?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let placeholder = format!("pinion-credential-{name}-{random}");
        let model = SecretString::from(placeholder.as_str());
        let model = Credential::new(name, model, placement.clone(), rules.clone())?;
        Ok(Self { placeholder, placement, rules, model })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// Returns the text that programs use instead of the secret.
    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    /// Returns the rules of the requests that may carry the secret.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn is_for_origin(&self, target: &RequestTarget) -> bool {
        self.rules.iter().any(|rule| rule.covers_origin(target))
    }

    fn fields(&self) -> impl Iterator<Item = HeaderName> {
        let own = match &self.placement {
            Placement::Header { name, .. } => name.parse().ok().filter(|name| *name != AUTHORIZATION),
            _ => None,
        };
        std::iter::once(AUTHORIZATION).chain(own)
    }

    /// Replaces the placeholder by `secret` in the places where a secret may be; `None` if the placeholder is not
    /// there.
    fn fill(&self, headers: &HeaderMap, url: &Url, secret: &str) -> Option<Result<(HeaderMap, Url), &'static str>> {
        let (mut headers, mut url, mut found) = (headers.clone(), url.clone(), false);
        for field in self.fields() {
            let values: Vec<HeaderValue> = headers.get_all(&field).iter().cloned().collect();
            if !values.iter().any(|value| self.filled(value, secret).is_some()) {
                continue;
            }
            found = true;
            headers.remove(&field);
            for value in values {
                let value = match self.filled(&value, secret) {
                    None => value,
                    Some(filled) => match HeaderValue::from_bytes(&filled) {
                        Err(_) => return Some(Err("its value does not fit a header")),
                        Ok(mut value) => {
                            value.set_sensitive(true);
                            value
                        }
                    },
                };
                headers.append(&field, value);
            }
        }
        if let Placement::Query { parameter } = &self.placement {
            let is_here = |name: &str, value: &str| name == parameter && value == self.placeholder;
            if url.query_pairs().any(|(name, value)| is_here(&name, &value)) {
                let pairs: Vec<(String, String)> = url
                    .query_pairs()
                    .map(|(name, value)| match is_here(&name, &value) {
                        true => (name.into_owned(), secret.to_owned()),
                        false => (name.into_owned(), value.into_owned()),
                    })
                    .collect();
                url.query_pairs_mut().clear().extend_pairs(pairs);
                found = true;
            }
        }
        found.then_some(Ok((headers, url)))
    }

    fn filled(&self, value: &HeaderValue, secret: &str) -> Option<Vec<u8>> {
        let swap = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains(&self.placeholder))?;
            Some(text.replace(&self.placeholder, secret).into_bytes())
        };
        swap(value.as_bytes()).or_else(|| {
            let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
            let plain = BASE64.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
            Some(format!("{scheme} {}", STANDARD.encode(swap(&plain)?)).into_bytes())
        })
    }
}

impl ProxyCredentials {
    /// Creates an authority for the hosts of these credentials, and gets their values from `values`. The certificates of
    /// servers are checked with the system's authorities and those in `certificates`, as PEM.
    ///
    /// # Errors
    /// The key or the certificate cannot be made, or `certificates` are not PEM.
    pub fn new(
        all: Vec<ProxyCredential>,
        values: Arc<dyn CredentialValues>,
        certificates: &[u8],
    ) -> Result<Self, AuthorityError> {
        let rules = all.iter().flat_map(|credential| &credential.rules);
        let authority = Authority::new(rules).map_err(|error| AuthorityError(error.to_string()))?;
        let tls = Tls::new(certificates).map_err(|error: InvalidCertificates| AuthorityError(error.to_string()))?;
        Ok(Self { all, values, authority, tls, used: Mutex::default() })
    }

    /// Returns the credentials.
    pub fn all(&self) -> &[ProxyCredential] {
        &self.all
    }

    /// Returns the certificate that programs have to trust. Its key never leaves the process.
    pub fn authority(&self) -> String {
        self.authority.pem()
    }

    pub(super) fn issuer(&self) -> &Authority {
        &self.authority
    }

    pub(super) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Returns the origin inside of a tunnel to `target`, if it is one of a credential.
    pub(super) fn inside(&self, target: &RequestTarget) -> Option<RequestTarget> {
        let authority = format!("{}:{}", target.host(), target.port());
        let inside = RequestTarget::parse(&format!("{}://{authority}/", Scheme::Https.as_str())).ok()?;
        self.is_for_origin(&inside).then_some(inside)
    }

    /// Returns whether some requests to the origin of `target` may carry a credential.
    pub(super) fn is_for_origin(&self, target: &RequestTarget) -> bool {
        let is_confidential = target.scheme() == Scheme::Https || target.is_loopback();
        is_confidential && self.all.iter().any(|credential| credential.is_for_origin(target))
    }

    /// Puts secrets in place of the placeholders in a request to `origin`, and returns the names of the credentials. A
    /// request with a secret is sent with the normalized path that the rules have seen.
    ///
    /// # Errors
    /// A secret has no usable value, or a header makes servers use another method or path than the rules have seen.
    pub(super) async fn insert(&self, origin: &RequestTarget, request: &mut Parts) -> Result<Vec<String>, String> {
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(target) = RequestTarget::parse(&format!("{origin}{path}")) else { return Ok(Vec::new()) };
        let (mut url, mut names) = (target.url().clone(), Vec::new());
        for (index, credential) in self.all.iter().enumerate() {
            let is_covered = credential.model.is_for(request.method.as_str(), &target);
            if !is_covered || credential.fill(&request.headers, &url, &credential.placeholder).is_none() {
                continue;
            }
            let name = credential.name();
            if let Some(header) = request.headers.keys().find(|header| changes_request(header)) {
                return Err(format!(
                    "the credential `{name}` is not sent with the header `{header}`, which names another method or path"
                ));
            }
            let secret = self.values.value(name).await?;
            self.use_secret(index, &secret)?;
            let filled = credential.fill(&request.headers, &url, secret.expose_secret());
            if let Some(filled) = filled {
                (request.headers, url) =
                    filled.map_err(|why| format!("the credential `{name}` cannot be sent: {why}"))?;
                names.push(name.to_owned());
            }
        }
        if !names.is_empty() {
            let path = &url[Position::BeforePath..Position::AfterQuery];
            request.uri = path.parse().map_err(|_| "the path cannot be sent".to_owned())?;
        }
        Ok(names)
    }

    /// Checks a secret that is about to be sent, and looks for it in responses from now on.
    fn use_secret(&self, index: usize, secret: &SecretString) -> Result<(), String> {
        let ProxyCredential { placement, rules, .. } = &self.all[index];
        Credential::new(self.all[index].name(), secret.clone(), placement.clone(), rules.clone())
            .map_err(|error| error.to_string())?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.iter().any(|(of, known)| *of == index && known.expose_secret() == secret.expose_secret()) {
            used.push((index, secret.clone()));
        }
        Ok(())
    }

    /// Removes the secrets that were sent and may be sent to `target` from the fields of its response, and returns the
    /// redactor that removes them from its body; `None` if there are no such secrets. A whole secret becomes its
    /// placeholder, so that the program can use it again.
    pub(super) fn mask(&self, target: &RequestTarget, headers: &mut HeaderMap) -> Option<ByteRedactor> {
        let secrets = Secrets::default();
        for (index, secret) in self.used.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if self.all[*index].is_for_origin(target) {
                secrets.add_with_placeholder(secret, &self.all[*index].placeholder);
            }
        }
        if secrets.is_empty() {
            return None;
        }
        *headers = redacted(headers, &secrets);
        Some(secrets.line_redactor())
    }
}

/// Shows the names only.
impl fmt::Debug for ProxyCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(ProxyCredential::name)).finish()
    }
}
