//! How a key becomes the headers of a request.
//!
//! Most vendors want it in a header as it is. Google also takes the file of a service account, which is first exchanged
//! for a token; AWS also takes an access key, with which the request is signed. Which of these a key is can be told from
//! its form, so that users have one place for it.

use super::aws;
use super::credentials::{Credentials, secret_value};
use super::google::GoogleTokens;
use super::scheme::Auth;
use crate::transport::Transport;
use bytes::Bytes;
use pinion_protocol::ProviderError;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName};
use secrecy::{ExposeSecret, SecretString};
use std::time::SystemTime;

/// Turns keys into headers, for one provider.
#[derive(Debug)]
pub(crate) struct Authenticator {
    auth: Auth,
    region: Option<String>,
    google: GoogleTokens,
}

impl Authenticator {
    pub(crate) fn new(auth: Auth, region: Option<String>, transport: Transport) -> Self {
        Self { auth, region, google: GoogleTokens::new(transport) }
    }

    /// The headers with which a request to `url` is authenticated.
    ///
    /// # Errors
    /// The key is not what the vendor takes, or could not be exchanged.
    pub(crate) async fn credentials(
        &self,
        key: &SecretString,
        url: &Url,
        body: &Bytes,
    ) -> Result<Credentials, ProviderError> {
        let text = key.expose_secret().trim();
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

/// Three parts of base64, of which the first says that it is JSON.
fn is_jwt(key: &str) -> bool {
    key.starts_with("eyJ") && key.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Keys of Google's API begin so, tokens do not.
fn is_google_api_key(key: &str) -> bool {
    key.starts_with("AIza") || key.starts_with("AQ.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    async fn header(auth: Auth, key: &str) -> String {
        let transport = Transport::new(Default::default(), &[]).unwrap();
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
    async fn the_form_of_a_key_says_how_it_is_sent() {
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
    async fn a_key_that_makes_no_sense_is_an_error_that_does_not_show_it() {
        for (auth, key) in
            [(Auth::Bearer, "a\nsecret"), (Auth::Aws, "{secret"), (Auth::Google, "{\"type\":\"secret\"}")]
        {
            let said = header(auth, key).await;
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
