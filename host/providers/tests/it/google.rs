//! Google's credentials: the files of a service account and of a user are exchanged for a token, which is cached.

use crate::support::formats::{directory, fixture};
use crate::support::requests::{all, built, config, context, head};
use crate::support::server::Step;
use crate::support::server::{Server, answer};
use crate::support::vendors::VERTEX;
use crate::support::{request, text};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinion_protocol::ProviderError;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::fs;
use tokio_util::sync::CancellationToken;

const JSON: &str = "content-type: application/json\r\n";

async fn ask(credentials: &Value, times: usize, url: &str) -> Option<ProviderError> {
    let mut config = config(&VERTEX, Some(url));
    config.api_key = Some(SecretString::from(credentials.to_string()));
    let provider = built(&VERTEX, config, context());
    let mut last = None;
    for _ in 0..times {
        last = all(provider.stream(request(VERTEX.model, vec![text("hi")]), CancellationToken::new())).await.1;
    }
    last
}

async fn google() -> Server {
    Server::answering(&head(&VERTEX), &fixture("gemini", "text.sse")).await
}

fn service_account(token_uri: &str) -> Value {
    let key = fs::read_to_string(directory().join("tls/service-account.key")).unwrap();
    json!({
        "type": "service_account", "project_id": "p", "private_key_id": "key-id-0123456789", "private_key": key,
        "client_email": "robot@p.iam.gserviceaccount.com", "token_uri": token_uri,
    })
}

#[tokio::test]
async fn service_account_token_is_cached_until_it_expires() {
    let tokens = Server::answering(JSON, br#"{"access_token":"ya29.token-0123456789","expires_in":3599}"#).await;
    let google = google().await;
    assert_eq!(ask(&service_account(&tokens.url), 2, &google.url).await, None);
    assert_eq!(tokens.seen().len(), 1);
    for seen in google.seen() {
        assert!(seen.head.to_lowercase().contains("authorization: bearer ya29.token-0123456789\r\n"), "{}", seen.head);
    }
    let form = String::from_utf8(tokens.seen()[0].body.clone()).unwrap();
    let assertion =
        form.strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=").unwrap();
    let parts: Vec<&str> = assertion.split('.').collect();
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let claims: Value = serde_json::from_slice(&decoded(parts[1])).unwrap();
    assert_eq!(claims["iss"], "robot@p.iam.gserviceaccount.com");
    assert_eq!(
        (&claims["aud"], &claims["scope"]),
        (&json!(tokens.url), &json!("https://www.googleapis.com/auth/cloud-platform"))
    );
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3_600);
    assert_eq!(decoded(parts[2]).len(), 256);
}

#[tokio::test]
async fn user_credentials_are_exchanged() {
    let tokens = Server::answering(JSON, br#"{"access_token":"ya29.user","expires_in":60}"#).await;
    let google = google().await;
    let user = json!({ "type": "authorized_user", "client_id": "id", "client_secret": "s/ecret-0123", "refresh_token": "1//refresh", "token_uri": tokens.url });
    assert_eq!(ask(&user, 2, &google.url).await, None);
    let form = String::from_utf8(tokens.seen()[0].body.clone()).unwrap();
    assert_eq!(form, "grant_type=refresh_token&client_id=id&client_secret=s%2Fecret-0123&refresh_token=1%2F%2Frefresh");
    // A token that expires within two minutes is not cached.
    assert_eq!(tokens.seen().len(), 2);
}

#[tokio::test]
async fn rejected_credentials_are_reported_without_secrets() {
    let said = br#"{"error":"invalid_grant","error_description":"Bad refresh token 1//refresh-0123456789"}"#;
    let tokens = Server::start(vec![Step::Send(answer("400 Bad Request", JSON, said))]).await;
    let user = json!({ "type": "authorized_user", "client_id": "id", "client_secret": "secret-0123456789", "refresh_token": "1//refresh-0123456789", "token_uri": tokens.url });
    let error = ask(&user, 1, "http://127.0.0.1:1").await.unwrap();
    assert!(
        matches!(error, ProviderError::Auth { .. }) && error.to_string().contains("Bad refresh token 1//[redacted]"),
        "{error}"
    );
}

#[tokio::test]
async fn unusable_credentials_are_reported() {
    let message = async |credentials: Value| ask(&credentials, 1, "http://127.0.0.1:1").await.unwrap().to_string();
    assert!(message(json!({ "type": "external_account" })).await.contains("gcloud auth print-access-token"));
    assert!(message(service_account("http://elsewhere.example/token")).await.contains("no `https` URL"));
    let mut broken = service_account("https://oauth2.googleapis.com/token");
    broken["private_key"] = json!("nonsense");
    assert!(message(broken).await.contains("private key in the Google credentials cannot be read"));
}
