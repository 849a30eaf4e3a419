//! Logging in to a vendor with a browser, which results in a key.
//!
//! OpenRouter has such a login for every program, with a proof key (PKCE, RFC 7636) in place of a registration:
//! <https://openrouter.ai/docs/guides/overview/auth/oauth>. Logins of other vendors are for their own programs.

use crate::provider::{ProviderConfig, ProviderContext};
use crate::transport::{HttpTransport, Outgoing};
use crate::vendors::{BaseUrlError, Endpoint, ProviderInfo, RegistryError, UrlVariables};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinion_protocol::ProviderError;
use pinion_redact::Secrets;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;

/// A login that has begun.
#[derive(Debug)]
pub struct BrowserLogin {
    page: Url,
    exchange: Url,
    verifier: SecretString,
    transport: HttpTransport,
}

#[derive(Deserialize)]
struct Exchanged {
    key: SecretString,
}

impl BrowserLogin {
    /// Begins a login; `None` if the vendor has no login for other programs. Of the configuration, the base URL, the
    /// proxy, the limits and the certificates count. `verifier` is a secret of this login, of 43 to 128 letters, digits
    /// and `-._~` (RFC 7636, section 4.1). Sends nothing.
    ///
    /// # Errors
    /// The base URL, the proxy or the certificates are invalid.
    pub fn begin(
        info: &'static ProviderInfo,
        config: ProviderConfig,
        context: &ProviderContext,
        verifier: SecretString,
    ) -> Result<Option<Self>, RegistryError> {
        let Some(page) = info.login_page else { return Ok(None) };
        let page = Url::parse(page).map_err(|problem| RegistryError::BaseUrl {
            provider: info.name,
            url: page.to_owned(),
            source: BaseUrlError::Syntax(problem.into()),
        })?;
        let exchange = Endpoint::new(info, config.base_url.as_deref(), UrlVariables::default())?.beside("auth/keys");
        config.http.proxy.check(&exchange)?;
        let transport = HttpTransport::new(config.http, &context.certificates)
            .map_err(|source| RegistryError::Certificates { provider: info.name, source })?;
        Ok(Some(Self { page, exchange, verifier, transport }))
    }

    /// Returns the page that the user has to open. It redirects to `redirect`, with a parameter `code`.
    pub fn page(&self, redirect: &Url) -> Url {
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.expose_secret().as_bytes()));
        let mut page = self.page.clone();
        page.query_pairs_mut()
            .append_pair("callback_url", redirect.as_str())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        page
    }

    /// Exchanges the code of the redirect for a key.
    ///
    /// # Errors
    /// The vendor refused the code, cannot be reached, or sent no key. The message contains neither code nor key.
    pub async fn key(&self, code: &str) -> Result<SecretString, ProviderError> {
        let known = Secrets::default();
        known.add(&self.verifier);
        known.add(&SecretString::from(code));
        let verifier = self.verifier.expose_secret();
        let body = json!({ "code": code, "code_verifier": verifier, "code_challenge_method": "S256" }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Outgoing { url: self.exchange.clone(), headers, body: body.into() };
        let answer = self.transport.fetch(request).await.map_err(|error| known.clean_error(error))?;
        // The error of the parser would repeat its input.
        let exchanged: Exchanged = serde_json::from_slice(&answer)
            .map_err(|_| ProviderError::Malformed { message: "the response contains no key".to_owned() })?;
        Ok(exchanged.key)
    }
}
