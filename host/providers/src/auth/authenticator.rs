//! Turns keys into authentication headers.
//!
//! Most vendors take the key in a header as it is. Google also accepts the file of a service account, which is
//! exchanged for a token; AWS also accepts an access key, which signs the request. The form of a key tells which it is,
//! so that users store all of them in the same place.

use super::aws;
use super::google::GoogleTokens;
use crate::transport::HttpTransport;
use bytes::Bytes;
use pinion_protocol::ProviderError;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::time::SystemTime;

/// The form of a key that a vendor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// The key as it is, in the header of this name.
    Header(&'static str),
    /// The header `api-key`, or a bearer token for a token of Entra ID.
    Azure,
    /// A bearer token, the file of a service account or of a user's credentials, or an API key.
    Google,
    /// A bearer token, or an access key as JSON, which signs the request.
    Aws,
}

/// Turns the keys of one provider into headers.
#[derive(Debug)]
pub(crate) struct Authenticator {
    auth: Auth,
    region: Option<String>,
    google: GoogleTokens,
}

impl Authenticator {
    pub(crate) fn new(auth: Auth, region: Option<String>, transport: HttpTransport) -> Self {
        Self { auth, region, google: GoogleTokens::new(transport) }
    }

    /// Returns the headers that authenticate a request to `url`.
    ///
    /// # Errors
    /// The key has the wrong form, or could not be exchanged.
    pub(crate) async fn credentials(
        &self,
        key: &SecretString,
        url: &Url,
        body: &Bytes,
    ) -> Result<Credentials, ProviderError> {
        let text = trimmed(key.expose_secret());
        match self.auth {
            Auth::Bearer => bearer(text),
            Auth::Header(name) => single(HeaderName::from_static(name), text),
            Auth::Azure if is_jwt(text) => bearer(text),
            Auth::Azure => single(HeaderName::from_static("api-key"), text),
            Auth::Google if text.starts_with('{') => {
                let (token, mut secrets) = self.google.token(text).await?;
                let credentials = bearer(token.expose_secret())?;
                secrets.push(token);
                Ok(Credentials { secrets, ..credentials })
            }
            Auth::Google if is_google_api_key(text) => single(HeaderName::from_static("x-goog-api-key"), text),
            Auth::Google => bearer(text),
            Auth::Aws if text.starts_with('{') => {
                let region = self.region.as_deref().map_or_else(|| aws::region_of(url), str::to_owned);
                aws::sign(&aws::AccessKey::read(text)?, &region, url, body, SystemTime::now())
            }
            Auth::Aws => bearer(text),
        }
    }
}

fn bearer(token: &str) -> Result<Credentials, ProviderError> {
    single(AUTHORIZATION, &format!("Bearer {token}"))
}

fn single(name: HeaderName, value: &str) -> Result<Credentials, ProviderError> {
    let value = secret_value("the key", value)?;
    Ok(Credentials { headers: HeaderMap::from_iter([(name, value)]), secrets: Vec::new() })
}

/// Recognizes a JSON Web Token: three parts of base64; the first one encodes JSON.
fn is_jwt(key: &str) -> bool {
    key.starts_with("eyJ") && key.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Recognizes a Google API key by its prefix, which tokens do not have.
fn is_google_api_key(key: &str) -> bool {
    key.starts_with("AIza") || key.starts_with("AQ.")
}

/// The headers made from a key.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    /// Values besides the key that must not appear in an error or a recording.
    pub(crate) secrets: Vec<SecretString>,
}

/// Returns a key without the characters that editors and copied lines leave around it: blanks, byte order marks, and
/// spaces without width.
pub(crate) fn trimmed(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || ['\u{feff}', '\u{200b}'].contains(&c))
}

/// Builds a header value that is excluded from debug output and recordings.
pub(crate) fn secret_value(what: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let value = trimmed(value);
    let message = || format!("{what} contains {}, which is not allowed in a header", fault(value));
    // `HeaderValue` takes bytes that are not ASCII, and no key has any.
    let allowed = value.is_ascii().then(|| HeaderValue::from_str(value).ok()).flatten();
    let mut value = allowed.ok_or_else(|| ProviderError::Auth { message: message() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Names the first kind of character in a value that a header cannot have, without repeating it.
fn fault(value: &str) -> &'static str {
    match value.chars().find(|c| c.is_control() || !c.is_ascii()) {
        Some('\n' | '\r') => "a line break",
        Some(c) if c.is_control() => "a control character",
        _ => "a character other than ASCII",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn header(auth: Auth, key: &str) -> String {
        let transport = HttpTransport::new(Default::default(), &[]).unwrap();
        let authenticator = Authenticator::new(auth, None, transport);
        let url = Url::parse("https://bedrock-runtime.us-west-2.amazonaws.com/model/m/converse-stream").unwrap();
        match authenticator.credentials(&SecretString::from(key), &url, &Bytes::new()).await {
            Ok(credentials) => {
                assert!(credentials.headers.values().all(HeaderValue::is_sensitive));
                let line = |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
                credentials.headers.iter().map(line).collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn form_of_a_key_determines_how_it_is_sent() {
        assert_eq!(header(Auth::Bearer, " k ").await, "authorization: Bearer k");
        assert_eq!(header(Auth::Header("x-api-key"), "k").await, "x-api-key: k");
        assert_eq!(header(Auth::Azure, "0123abc").await, "api-key: 0123abc");
        assert_eq!(header(Auth::Azure, "eyJ0eXAi.eyJhdWQi.sig").await, "authorization: Bearer eyJ0eXAi.eyJhdWQi.sig");
        assert_eq!(header(Auth::Google, "ya29.token").await, "authorization: Bearer ya29.token");
        assert_eq!(header(Auth::Google, "AIzaKey").await, "x-goog-api-key: AIzaKey");
        assert_eq!(header(Auth::Aws, "ABSKtoken").await, "authorization: Bearer ABSKtoken");
        let access = r#"{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret","SessionToken":"session"}"#;
        let signed = header(Auth::Aws, access).await;
        assert!(signed.contains("authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signed}");
        assert!(signed.contains("/us-west-2/bedrock/aws4_request") && signed.contains("x-amz-security-token: session"));
    }

    #[tokio::test]
    async fn malformed_key_is_reported_without_showing_it() {
        for (auth, key) in
            [(Auth::Bearer, "a\nsecret"), (Auth::Aws, "{secret"), (Auth::Google, "{\"type\":\"secret\"}")]
        {
            let message = header(auth, key).await;
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn marks_and_blanks_around_a_key_are_no_part_of_it() {
        for key in ["sk-1", " sk-1\r\n", "\u{feff}sk-1\n", "\u{200b}sk-1\u{a0}", "\n\u{feff} sk-1 \u{feff}"] {
            assert_eq!(secret_value("the key", key).unwrap(), "sk-1", "{key:?}");
        }
    }

    #[test]
    fn character_that_a_header_cannot_have_is_named_by_its_kind() {
        for (key, part) in [
            ("sk-1\nsk-2", "a line break"),
            ("sk\u{0}1", "a control character"),
            ("sk–1", "a character other than ASCII"),
        ] {
            let error = secret_value("the key", key).unwrap_err().to_string();
            assert!(error.contains(&format!("the key contains {part}, which")) && !error.contains("sk"), "{error}");
        }
    }
}
