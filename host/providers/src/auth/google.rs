//! Access tokens for Google Cloud, from the files that `GOOGLE_APPLICATION_CREDENTIALS` names.
//!
//! The file of a service account contains a private key, which signs a token request; the file of a user (written by
//! `gcloud auth application-default login`) contains a refresh token. Both are exchanged for an access token, which is
//! cached until shortly before it expires. Other kinds, such as workload identity federation, are left to `gcloud auth
//! print-access-token` as a key command. Documentation:
//! <https://developers.google.com/identity/protocols/oauth2/service-account#httprest>.

use crate::transport::{HttpTransport, Outgoing};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pinion_protocol::ProviderError;
use pinion_redact::Secrets;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// The fields of the form that identify the account.
const SECRET_FIELDS: &[&str] = &["assertion", "client_secret", "refresh_token"];

/// The characters to percent-encode in a form.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A token is renewed this long before it expires.
const MARGIN: Duration = Duration::from_secs(120);

/// The content of a credentials file.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum File {
    ServiceAccount {
        client_email: String,
        private_key: SecretString,
        private_key_id: Option<SecretString>,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: SecretString,
        refresh_token: SecretString,
        token_uri: Option<String>,
    },
    #[serde(other)]
    Unknown,
}

/// Exchanges credentials files for tokens and caches the last one.
#[derive(Debug)]
pub(crate) struct GoogleTokens {
    transport: HttpTransport,
    cached: Mutex<Option<CachedToken>>,
}

#[derive(Debug)]
struct CachedToken {
    file: SecretString,
    token: SecretString,
    until: Instant,
}

/// The fields of a form.
type FormFields = Vec<(&'static str, SecretString)>;

#[derive(Deserialize)]
struct TokenResponse {
    access_token: SecretString,
    #[serde(default = "one_hour")]
    expires_in: u64,
}

fn one_hour() -> u64 {
    3_600
}

impl GoogleTokens {
    pub(crate) fn new(transport: HttpTransport) -> Self {
        Self { transport, cached: Mutex::new(None) }
    }

    /// Returns a token for the credentials in `file`, and the secrets in the file.
    ///
    /// # Errors
    /// The file is of an unsupported kind, or the exchange failed.
    pub(crate) async fn token(&self, file: &str) -> Result<(SecretString, Vec<SecretString>), ProviderError> {
        let read: File = serde_json::from_str(file).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            auth(format!("the Google credentials are neither those of a service account nor of a user ({place})"))
        })?;
        let secrets = read.secrets();
        // Held during the exchange, so that concurrent requests share it.
        let mut cached = self.cached.lock().await;
        if let Some(token) =
            cached.as_ref().filter(|token| token.file.expose_secret() == file && token.until > Instant::now())
        {
            return Ok((token.token.clone(), secrets));
        }
        let response = self.exchange(&read, &secrets).await?;
        let until = Instant::now() + Duration::from_secs(response.expires_in.min(86_400)).saturating_sub(MARGIN);
        *cached = Some(CachedToken { file: SecretString::from(file), token: response.access_token.clone(), until });
        Ok((response.access_token, secrets))
    }

    async fn exchange(&self, file: &File, secrets: &[SecretString]) -> Result<TokenResponse, ProviderError> {
        let (url, form) = file.exchange(Timestamp::now())?;
        let pair = |(name, value): &(&str, SecretString)| {
            format!("{name}={}", utf8_percent_encode(value.expose_secret(), FORM))
        };
        let body = form.iter().map(pair).collect::<Vec<_>>().join("&");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let known = Secrets::default();
        let of_form = form.iter().filter(|(name, _)| SECRET_FIELDS.contains(name)).map(|(_, value)| value);
        secrets.iter().chain(of_form).for_each(|secret| known.add(secret));
        let answer = self.transport.fetch(Outgoing { url, headers, body: body.into() }).await;
        let answer = answer.map_err(|error| match known.clean_error(error) {
            ProviderError::Api { message, .. } => auth(format!("Google refused the credentials: {message}")),
            other => other,
        })?;
        // The error of the parser would repeat its input.
        serde_json::from_slice(&answer).map_err(|_| auth("Google's response contains no access token".to_owned()))
    }
}

impl File {
    /// Returns the URL of the exchange and the form to post there.
    fn exchange(&self, now: Timestamp) -> Result<(Url, FormFields), ProviderError> {
        let plain = |text: &str| SecretString::from(text);
        match self {
            Self::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
                let url = token_url(token_uri.as_deref())?;
                let key_id = private_key_id.as_ref().map(ExposeSecret::expose_secret);
                let assertion = assertion(client_email, private_key, key_id, url.as_str(), now)?;
                let grant = plain("urn:ietf:params:oauth:grant-type:jwt-bearer");
                Ok((url, vec![("grant_type", grant), ("assertion", assertion)]))
            }
            Self::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
                let form = vec![
                    ("grant_type", plain("refresh_token")),
                    ("client_id", plain(client_id)),
                    ("client_secret", client_secret.clone()),
                    ("refresh_token", refresh_token.clone()),
                ];
                Ok((token_url(token_uri.as_deref())?, form))
            }
            Self::Unknown => Err(auth(
                "Google credentials of this kind are not supported; `gcloud auth print-access-token` as a key command \
                 works with all of them"
                    .to_owned(),
            )),
        }
    }

    fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::ServiceAccount { private_key, private_key_id, .. } => {
                std::iter::once(private_key).chain(private_key_id).cloned().collect()
            }
            Self::AuthorizedUser { client_secret, refresh_token, .. } => {
                vec![client_secret.clone(), refresh_token.clone()]
            }
            Self::Unknown => Vec::new(),
        }
    }
}

/// Parses the URL of the exchange. Credentials are sent over TLS, or only to this machine.
fn token_url(configured: Option<&str>) -> Result<Url, ProviderError> {
    let url = Url::parse(configured.unwrap_or(TOKEN_URL)).ok();
    let is_safe = |url: &Url| url.scheme() == "https" || matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
    url.filter(is_safe)
        .ok_or_else(|| auth("the Google credentials contain no `https` URL for the token exchange".to_owned()))
}

/// Builds a signed token request: a JSON Web Token of RFC 7523.
fn assertion(
    email: &str,
    private_key: &SecretString,
    key_id: Option<&str>,
    audience: &str,
    now: Timestamp,
) -> Result<SecretString, ProviderError> {
    let unreadable = || auth("the private key in the Google credentials cannot be read".to_owned());
    let der = PrivatePkcs8KeyDer::from_pem_slice(private_key.expose_secret().as_bytes()).map_err(|_| unreadable())?;
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| unreadable())?;
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key_id });
    let issued = now.as_second();
    let claims = json!({ "iss": email, "scope": SCOPE, "aud": audience, "iat": issued, "exp": issued + 3_600 });
    let encoded = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", encoded(&header), encoded(&claims));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).map_err(|_| unreadable())?;
    Ok(SecretString::from(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

fn auth(message: String) -> ProviderError {
    ProviderError::Auth { message }
}
