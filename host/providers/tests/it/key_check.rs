//! Asking a vendor whether it accepts a key.

use crate::support::server::{Server, Step, answer};
use pinion_protocol::ProviderError;
use pinion_providers::{KeyCheck, ProviderConfig, ProviderContext, provider};
use secrecy::SecretString;

const JSON: &str = "content-type: application/json\r\n";

fn check(name: &str, url: Option<&str>, key: Option<&str>) -> Option<KeyCheck> {
    let config = ProviderConfig {
        base_url: url.map(str::to_owned),
        api_key: key.map(SecretString::from),
        ..ProviderConfig::default()
    };
    let context = ProviderContext { region: Some("us-east-1".to_owned()), ..ProviderContext::default() };
    KeyCheck::from_config(provider(name).unwrap(), config, &context).unwrap()
}

#[tokio::test]
async fn refused_key_is_told_from_other_failures() {
    let said = br#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
    for (status, is_refused) in [("401 Unauthorized", true), ("404 Not Found", false), ("500 Oops", false)] {
        let server = Server::start(vec![Step::Send(answer(status, JSON, said))]).await;
        let error = check("openai-chat", Some(&server.url), Some("sk-key")).unwrap().ask().await.unwrap_err();
        assert_eq!(matches!(error, ProviderError::Auth { .. }), is_refused, "{status}: {error}");
        assert!(!error.to_string().contains("sk-key"), "{error}");
        let seen = server.seen();
        assert!(seen.len() == 1 && seen[0].head.to_lowercase().contains("authorization: bearer sk-key"), "{status}");
        assert!(seen[0].head.starts_with("GET /v1/models "), "{}", seen[0].head);
    }
}

#[tokio::test]
async fn list_that_needs_no_key_says_nothing() {
    let server = Server::answering(JSON, br#"{"data":[]}"#).await;
    assert!(!check("anthropic", Some(&server.url), Some("sk-key")).unwrap().ask().await.unwrap());
    let heads: Vec<String> = server.seen().iter().map(|seen| seen.head.to_lowercase()).collect();
    assert!(heads[0].contains("x-api-key: sk-key") && !heads[1].contains("sk-key"), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("anthropic-version: ")), "{heads:?}");
}

#[test]
fn vendor_without_such_a_list_is_not_asked() {
    assert!(check("anthropic", None, Some("k")).is_some() && check("gemini", None, Some("k")).is_some());
    assert!(check("bedrock", None, Some("k")).is_none() && check("anthropic", None, None).is_none());
}
