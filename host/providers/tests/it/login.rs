//! Logins in a browser.

use crate::support::server::Server;
use pinion_providers::{BrowserLogin, PROVIDERS, ProviderConfig, ProviderContext, provider};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn begun(name: &str, base_url: Option<&str>) -> Option<BrowserLogin> {
    let config = ProviderConfig { base_url: base_url.map(str::to_owned), ..ProviderConfig::default() };
    let verifier = SecretString::from(VERIFIER);
    BrowserLogin::begin(provider(name).unwrap(), config, &ProviderContext::default(), verifier).unwrap()
}

#[test]
fn page_has_the_redirect_and_the_challenge() {
    let login = begun("openrouter", None).unwrap();
    let page = login.page(&Url::parse("http://localhost:8123/callback/a?b").unwrap());
    // The pair of RFC 7636, appendix B.
    assert_eq!(
        page.as_str(),
        "https://openrouter.ai/auth?callback_url=http%3A%2F%2Flocalhost%3A8123%2Fcallback%2Fa%3Fb\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
    );
    assert!(PROVIDERS.iter().all(|info| info.login_page.is_none() || begun(info.name, None).is_some()));
    assert!(begun("groq", None).is_none());
}

#[tokio::test]
async fn code_is_exchanged_for_a_key() {
    let server = Server::answering(JSON, br#"{"key":"sk-or-v1-0123","user_id":"u"}"#).await;
    let login = begun("openrouter", Some(&format!("{}/api/v1", server.url.trim_end_matches("/v1")))).unwrap();
    assert_eq!(login.key("the-code-1").await.unwrap().expose_secret(), "sk-or-v1-0123");
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /api/v1/auth/keys HTTP/1.1\r\n"), "{}", seen.head);
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let expected = json!({ "code": "the-code-1", "code_verifier": VERIFIER, "code_challenge_method": "S256" });
    assert_eq!(body, expected);
}
