//! Logins that need more than a first one: further scopes, signed assertions, an identity provider.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use pinion_mcp::config::IdpConfig;
use pinion_mcp::{CallContext, McpError};
use serde_json::{Value, json};
use url::Url;

use crate::fake::{NAME, call};
use crate::http::{Give, PATIENCE, Web, json_body, status};
use crate::oauth::{Bench, Browse, Script, agree, bench, form, login};

async fn ask(bench: &Bench) -> Result<String, McpError> {
    bench.servers.request(NAME, call("echo"), CallContext::within(PATIENCE)).await
}

/// Serves a script whose calls need one more scope until the user has logged in `logins` times.
async fn demanding(script: Script, logins: usize) -> Web {
    let tokens = AtomicUsize::new(0);
    Web::new(move |url, got| {
        let give = script.answer(url, &got);
        if got.path == "/token" {
            tokens.fetch_add(1, Ordering::SeqCst);
        }
        let is_call = got.json()["method"] == "tools/call";
        if !is_call || give.status != "200 OK" || tokens.load(Ordering::SeqCst) >= logins {
            return give;
        }
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"notes:write\"".to_owned();
        Give { headers: vec![("WWW-Authenticate", challenge)], ..status("403 Forbidden") }
    })
    .await
}

/// Agrees, and keeps the scopes of each login page.
fn noting(scopes: &Arc<Mutex<Vec<String>>>) -> Browse {
    let (scopes, agree) = (scopes.clone(), agree(""));
    Arc::new(move |page: &Url| {
        let scope = page.query_pairs().find(|(name, _)| name == "scope").map(|(_, value)| value.into_owned());
        scopes.lock().unwrap().push(scope.unwrap_or_default());
        agree(page)
    })
}

#[tokio::test]
async fn further_scopes_are_asked_for_with_those_that_were_granted() {
    let web = demanding(Script::default(), 2).await;
    let scopes = Arc::default();
    let bench = bench(&web, noting(&scopes), |config| config.oauth.scopes = vec!["notes:read".into()]);
    for _ in 0..2 {
        assert_eq!(ask(&bench).await, Err(McpError::LoginRequired { server: NAME.into() }));
        login(&bench).await.unwrap();
    }
    assert!(ask(&bench).await.unwrap().contains("fine"));
    assert_eq!(*scopes.lock().unwrap(), ["notes:read", "notes:read notes:write"]);
}

#[tokio::test]
async fn server_that_is_never_content_with_its_scopes_is_given_up() {
    let web = demanding(Script::default(), usize::MAX).await;
    let scopes = Arc::default();
    let bench = bench(&web, noting(&scopes), |_| {});
    for _ in 0..3 {
        assert_eq!(ask(&bench).await, Err(McpError::LoginRequired { server: NAME.into() }));
        login(&bench).await.unwrap();
    }
    assert_eq!(ask(&bench).await, Err(McpError::LoginRequired { server: NAME.into() }));
    let error = login(&bench).await.unwrap_err().to_string();
    assert_eq!(error, "MCP server `fake` still asks for more scopes after 2 logins");
    assert_eq!(scopes.lock().unwrap().len(), 3);
}

fn alone() -> Script {
    let changed = vec![
        ("grant_types_supported", json!(["client_credentials"])),
        ("token_endpoint_auth_methods_supported", json!(["private_key_jwt"])),
    ];
    Script { changed, ..Script::default() }
}

/// Returns the claims of a token.
fn claims(jwt: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn client_with_a_private_key_logs_in_alone() {
    let random = ring::rand::SystemRandom::new();
    let algorithm = &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = ring::signature::EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", STANDARD.encode(key.as_ref()));
    let script = alone();
    let web = Web::new(move |url, got| script.answer(url, &got)).await;
    let bench = bench(&web, Arc::new(|_| unreachable!()), |config| {
        config.oauth.client_id = Some("batch".into());
        config.oauth.private_key = Some(pem.clone().into());
    });
    assert!(ask(&bench).await.unwrap().contains("fine"));
    let sent = web.requests("/token").remove(0)["body"].as_str().unwrap().to_owned();
    assert_eq!(form(&sent, "grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(form(&sent, "client_id"), None);
    assert_eq!(form(&sent, "resource").as_deref(), Some(web.url.as_str()));
    let claims = claims(&form(&sent, "client_assertion").unwrap());
    let issuer = web.url.join("/").unwrap().to_string();
    assert_eq!((&claims["sub"], claims["aud"].as_str()), (&json!("batch"), Some(issuer.trim_end_matches('/'))));
}

#[tokio::test]
async fn token_of_an_identity_provider_is_exchanged_for_one_of_the_server() {
    let granted = Arc::new(Mutex::new(String::new()));
    let script = Script::default();
    let as_script = script.clone();
    let web = Web::new(move |url, got| {
        let give = as_script.answer(url, &got);
        if got.path != "/token" {
            return give;
        }
        // A token of this kind is not refreshed but exchanged again.
        let mut token: Value = serde_json::from_str(&give.body).unwrap();
        token.as_object_mut().unwrap().remove("refresh_token");
        json_body(&token)
    })
    .await;
    let (resource, issuer) = (web.url.clone(), web.url.join("/").unwrap().to_string().trim_end_matches('/').to_owned());
    let grant = granted.clone();
    let provider = Web::new(move |own, got| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({
            "iss": own.join("/").unwrap().to_string().trim_end_matches('/'), "aud": issuer, "sub": "ann", "jti": "1",
            "client_id": "of-server", "resource": resource, "iat": now, "exp": now + 300,
        });
        let jag = format!("{}.{}.c2ln", part(&json!({"alg": "RS256", "typ": "oauth-id-jag+jwt"})), part(&claims));
        grant.lock().unwrap().clone_from(&jag);
        assert_eq!(form(&got.body, "subject_token").as_deref(), Some("id-token-of-ann"));
        json_body(&json!({
            "access_token": jag, "token_type": "N_A", "expires_in": 300,
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        }))
    })
    .await;
    let idp = IdpConfig {
        issuer: provider.url.join("/").unwrap().to_string().trim_end_matches('/').to_owned(),
        token_endpoint: provider.url.join("/token").unwrap(),
        client_id: "of-provider".into(),
        client_secret: None,
        id_token: "id-token-of-ann".to_owned().into(),
    };
    let bench = bench(&web, Arc::new(|_| unreachable!()), |config| {
        config.oauth.client_id = Some("of-server".into());
        config.oauth.idp = Some(idp);
    });
    assert!(ask(&bench).await.unwrap().contains("fine"));
    let sent = web.requests("/token").remove(0)["body"].as_str().unwrap().to_owned();
    assert_eq!(form(&sent, "assertion").as_deref(), Some(granted.lock().unwrap().as_str()));
}
