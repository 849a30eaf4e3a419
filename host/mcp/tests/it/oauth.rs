//! Logins, against a scripted authorization server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::{
    Elicited, LoginCode, LoginMethod, LoginPage, McpError, MemoryTokens, Person, Ports, ServerState, Servers,
    StoredToken, TokenStore,
};
use pinion_protocol::FormSchema;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::fake::{Fakes, NAME, ports};
use crate::http::{Give, Got, PATIENCE, Web, ask, config, json_body, proper, status};

/// Turns the address of a login page into the answer of the authorization server.
pub(crate) type Browse = Arc<dyn Fn(&Url) -> String + Send + Sync>;

/// A user at a browser.
pub(crate) struct Visitor {
    browse: Browse,
    pages: AtomicUsize,
    codes: Mutex<Vec<String>>,
}

impl Person for Visitor {
    fn elicit_form<'a>(&'a self, _: &'a str, _: &'a str, _: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        async { Elicited::Decline }.boxed()
    }
    fn elicit_url<'a>(&'a self, _: &'a str, _: &'a str, _: &'a Url) -> BoxFuture<'a, Elicited> {
        async { Elicited::Decline }.boxed()
    }
    fn is_done<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        async { false }.boxed()
    }
    fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        async { false }.boxed()
    }
    fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
        async { Err(String::new()) }.boxed()
    }
    fn open_login<'a>(&'a self, _: &'a str, page: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        let answer = (self.browse)(&page.url);
        async { Some(answer) }.boxed()
    }
    fn show_code<'a>(&'a self, _: &'a str, code: &'a LoginCode) -> BoxFuture<'a, ()> {
        self.codes.lock().unwrap().push(format!("{} {}", code.url, code.code));
        async {}.boxed()
    }
}

/// Agrees, with these parameters added to the redirect.
pub(crate) fn agree(extra: &'static str) -> Browse {
    Arc::new(move |page| {
        let value = |wanted: &str| {
            let mut pairs = page.query_pairs();
            pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        format!("{}?code=the-code&state={}{extra}", value("redirect_uri"), value("state"))
    })
}

/// Settings of the scripted server, which is its own authorization server.
#[derive(Clone)]
pub(crate) struct Script {
    /// Changed members of the metadata; those that begin with `/` are made addresses of the server.
    pub(crate) changed: Vec<(&'static str, Value)>,
    /// Seconds that tokens live.
    pub(crate) lifetime: u64,
    pub(crate) valid: Arc<Mutex<Vec<String>>>,
    pub(crate) issued: Arc<AtomicUsize>,
}

pub(crate) fn metadata(url: &Url) -> Value {
    let at = |path: &str| url.join(path).unwrap().to_string();
    json!({
        "issuer": at("/").trim_end_matches('/'), "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"), "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    })
}

/// Returns a field of a form.
pub(crate) fn form(body: &str, wanted: &str) -> Option<String> {
    let mut fields = url::form_urlencoded::parse(body.as_bytes());
    fields.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

impl Default for Script {
    fn default() -> Self {
        Self { changed: Vec::new(), lifetime: 3600, valid: Arc::default(), issued: Arc::default() }
    }
}

impl Script {
    pub(crate) fn answer(&self, url: &Url, got: &Got) -> Give {
        let origin = url.join("/").unwrap().to_string();
        match got.path.split('?').next().unwrap() {
            "/mcp" => {
                let token = got.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
                if token.is_some_and(|token| self.valid.lock().unwrap().iter().any(|valid| valid == token)) {
                    return proper(got);
                }
                let challenge = format!("Bearer resource_metadata=\"{origin}.well-known/oauth-protected-resource\"");
                Give { status: "401 Unauthorized", headers: vec![("WWW-Authenticate", challenge)], body: String::new() }
            }
            "/.well-known/oauth-protected-resource" => json_body(&json!({
                "resource": url.as_str(), "authorization_servers": [origin.trim_end_matches('/')],
            })),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = metadata(url);
                for (member, value) in &self.changed {
                    let path = value.as_str().filter(|text| text.starts_with('/'));
                    metadata[member] = path.map_or(value.clone(), |path| json!(url.join(path).unwrap()));
                }
                json_body(&metadata)
            }
            "/register" => {
                let redirects = got.json()["redirect_uris"].clone();
                let client = json!({"client_id": "dyn", "client_secret": "dyn-secret", "redirect_uris": redirects});
                Give { status: "201 Created", ..json_body(&client) }
            }
            "/device" => json_body(&json!({
                "device_code": "the-device-code", "user_code": "AB\u{1b}[2J-CD", "expires_in": 900, "interval": 5,
                "verification_uri": "https://login.example/device",
            })),
            "/token" => {
                let refresh = form(&got.body, "refresh_token");
                let mut valid = self.valid.lock().unwrap();
                if refresh.is_some_and(|refresh| !valid.contains(&refresh)) {
                    return Give { status: "400 Bad Request", ..json_body(&json!({"error": "invalid_grant"})) };
                }
                let number = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
                let token = format!("token-{number}");
                let refresh = format!("refresh-{number}");
                *valid = vec![token.clone(), refresh.clone()];
                json_body(&json!({
                    "access_token": token, "token_type": "Bearer", "expires_in": self.lifetime,
                    "refresh_token": refresh,
                }))
            }
            _ => status("404 Not Found"),
        }
    }

    /// Makes the tokens void, as after their time.
    fn revoke(&self) {
        self.valid.lock().unwrap().retain(|token| token.starts_with("refresh"));
    }

    async fn serve(&self) -> Web {
        let script = self.clone();
        Web::new(move |url, got| script.answer(url, &got)).await
    }
}

pub(crate) struct Bench {
    pub(crate) servers: Arc<Servers>,
    visitor: Arc<Visitor>,
    _cache: TempDir,
}

pub(crate) fn bench(web: &Web, browse: Browse, change: impl FnOnce(&mut pinion_mcp::config::ServerConfig)) -> Bench {
    bench_with(web, browse, change, Arc::new(MemoryTokens::default()))
}

fn bench_with(
    web: &Web,
    browse: Browse,
    change: impl FnOnce(&mut pinion_mcp::config::ServerConfig),
    tokens: Arc<dyn TokenStore>,
) -> Bench {
    let visitor = Arc::new(Visitor { browse, pages: AtomicUsize::new(0), codes: Mutex::default() });
    let cache = tempfile::tempdir().unwrap();
    let fakes = Fakes::with(Arc::new(|_, io| async move { drop(io) }.boxed()), AtomicUsize::new(0));
    let mut config = config(&web.url, &[]);
    change(&mut config);
    let ports = Ports { tokens, ..ports(Arc::new(fakes), cache.path(), visitor.clone()) };
    Bench { servers: Servers::new(vec![config], ports), visitor, _cache: cache }
}

pub(crate) async fn login(bench: &Bench) -> Result<(), McpError> {
    login_by(bench, LoginMethod::Browser).await
}

pub(crate) async fn login_by(bench: &Bench, method: LoginMethod) -> Result<(), McpError> {
    let login = bench.servers.login(NAME, method, CancellationToken::new());
    tokio::time::timeout(PATIENCE, login).await.unwrap()
}

/// Tries to log in where one member of the metadata is changed, and returns the error.
async fn login_with(member: &'static str, value: &'static str) -> (Bench, String) {
    let script = Script { changed: vec![(member, json!(value))], ..Script::default() };
    let web = script.serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let _ = ask(&bench.servers).await;
    let error = login(&bench).await.unwrap_err().to_string();
    assert!(error.contains("MCP server `fake` login failed"), "{error}");
    (bench, error)
}

#[tokio::test]
async fn request_without_a_login_asks_nobody_and_a_login_makes_it_work() {
    let web = Script::default().serve().await;
    let bench = bench(&web, agree(""), |_| {});
    assert_eq!(ask(&bench.servers).await, Err(McpError::LoginRequired { server: NAME.into() }));
    assert_eq!(bench.servers.list()[0].state, ServerState::LoginRequired);
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 0);
    login(&bench).await.unwrap();
    assert!(ask(&bench.servers).await.unwrap().contains("fine"));
    let exchange = web.requests("/token").remove(0)["body"].as_str().unwrap().to_owned();
    assert!(exchange.contains("code_verifier=") && exchange.contains("resource="), "{exchange}");
    bench.servers.logout(NAME).await.unwrap();
    assert!(matches!(ask(&bench.servers).await, Err(McpError::LoginRequired { .. })));
}

#[tokio::test]
async fn rejected_token_is_refreshed_with_the_clients_secret() {
    let script = Script::default();
    let web = script.serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let _ = ask(&bench.servers).await;
    login(&bench).await.unwrap();
    // The token is void, as after its time; a new connection must know the client's secret.
    script.revoke();
    assert!(ask(&bench.servers).await.is_ok());
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 1);
    let refresh = web.requests("/token").pop().unwrap();
    assert!(refresh["body"].as_str().unwrap().contains("grant_type=refresh_token"));
    assert!(refresh["headers"]["authorization"].as_str().unwrap().starts_with("Basic "));
}

#[tokio::test]
async fn token_that_expired_is_refreshed_before_it_is_sent() {
    let script = Script { lifetime: 0, ..Script::default() };
    let web = script.serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let _ = ask(&bench.servers).await;
    login(&bench).await.unwrap();
    let refused = web.requests("/mcp").len();
    assert!(ask(&bench.servers).await.is_ok());
    assert!(script.issued.load(Ordering::SeqCst) >= 2);
    assert!(web.requests("/mcp")[refused]["headers"]["authorization"] != "Bearer token-1");
}

#[tokio::test]
async fn answer_of_another_issuer_is_refused() {
    let web = Script::default().serve().await;
    let bench = bench(&web, agree("&iss=https%3A%2F%2Fevil.example"), |_| {});
    let _ = ask(&bench.servers).await;
    let error = login(&bench).await.unwrap_err().to_string();
    assert!(error.contains("MCP server `fake` login failed") && error.contains("issuer"), "{error}");
    assert!(web.requests("/token").is_empty());
}

#[tokio::test]
async fn answer_of_another_login_is_refused() {
    let web = Script::default().serve().await;
    let forged: Browse = Arc::new(|_| "http://127.0.0.1:1/callback?code=forged&state=other".to_owned());
    let bench = bench(&web, forged, |_| {});
    let error = login(&bench).await.unwrap_err().to_string();
    assert!(error.contains("not that of this login"), "{error}");
    assert!(web.requests("/token").is_empty());
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    let (bench, _) = login_with("issuer", "https://evil.example").await;
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn login_page_outside_the_web_is_not_opened() {
    let (bench, _) = login_with("authorization_endpoint", "javascript:alert(1)").await;
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn endpoints_in_a_private_network_are_not_asked() {
    const METADATA: &str = "http://169.254.169.254/latest/meta-data";
    let (_, error) = login_with("registration_endpoint", METADATA).await;
    assert!(error.contains("leads to 169.254.169.254, which is"), "{error}");
    login_with("token_endpoint", METADATA).await;
}

#[tokio::test]
async fn refusal_of_the_user_is_reported() {
    let web = Script::default().serve().await;
    let refuse: Browse = Arc::new(|page| agree("&error=access_denied")(page));
    let bench = bench(&web, refuse, |_| {});
    let _ = ask(&bench.servers).await;
    let error = login(&bench).await.unwrap_err().to_string();
    assert!(error.contains("refused: access_denied"), "{error}");
}

#[tokio::test]
async fn configured_client_logs_in_alone_if_the_server_allows() {
    let script =
        Script { changed: vec![("grant_types_supported", json!(["client_credentials"]))], ..Script::default() };
    let web = script.serve().await;
    let bench = bench(&web, agree(""), |config| {
        config.oauth.client_id = Some("robot".into());
        config.oauth.client_secret = Some("robot-secret".into());
    });
    assert!(ask(&bench.servers).await.is_ok());
    // A token that was revoked in the middle of a session is replaced within the request.
    script.revoke();
    assert!(ask(&bench.servers).await.is_ok());
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn login_can_be_cancelled() {
    let web = Script::default().serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(
        bench.servers.login(NAME, LoginMethod::Browser, cancel).await,
        Err(McpError::Cancelled { request_sent: false })
    );
    assert!(ask(&bench.servers).await.is_err());
}

const DOCUMENT: &str = "https://pinion.example/client.json";

#[tokio::test]
async fn client_is_known_by_its_document_where_that_is_supported() {
    for is_supported in [true, false] {
        let changed = vec![("client_id_metadata_document_supported", json!(is_supported))];
        let web = Script { changed, ..Script::default() }.serve().await;
        let pages = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (pages.clone(), agree(""));
        let browse: Browse = Arc::new(move |page| {
            seen.lock().unwrap().push(form(page.query().unwrap(), "client_id").unwrap());
            answer(page)
        });
        let bench = bench(&web, browse, |config| config.oauth.client_metadata = Url::parse(DOCUMENT).ok());
        let _ = ask(&bench.servers).await;
        login(&bench).await.unwrap();
        assert!(ask(&bench.servers).await.is_ok());
        let registered = web.requests("/register").len();
        let expected = if is_supported { (DOCUMENT, 0) } else { ("dyn", 1) };
        assert_eq!((pages.lock().unwrap()[0].as_str(), registered), expected);
    }
}

#[tokio::test]
async fn code_on_another_device_logs_in() {
    let script = Script { changed: vec![("device_authorization_endpoint", json!("/device"))], ..Script::default() };
    let web = script.serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let _ = ask(&bench.servers).await;
    login_by(&bench, LoginMethod::Device).await.unwrap();
    assert!(ask(&bench.servers).await.unwrap().contains("fine"));
    assert_eq!(*bench.visitor.codes.lock().unwrap(), ["https://login.example/device AB␛[2J-CD"]);
    assert_eq!(bench.visitor.pages.load(Ordering::SeqCst), 0);
    let body = |path: &str| web.requests(path).remove(0)["body"].as_str().unwrap().to_owned();
    assert!(body("/register").contains("urn:ietf:params:oauth:grant-type:device_code"));
    assert_eq!(form(&body("/device"), "resource").as_deref(), Some(web.url.as_str()));
    assert_eq!(form(&body("/token"), "device_code").as_deref(), Some("the-device-code"));
    // The registration is used again, also for refreshes.
    script.revoke();
    assert!(ask(&bench.servers).await.is_ok());
    login_by(&bench, LoginMethod::Device).await.unwrap();
    assert_eq!(web.requests("/register").len(), 1);
}

#[tokio::test]
async fn login_with_a_code_needs_a_server_that_has_it() {
    let web = Script::default().serve().await;
    let bench = bench(&web, agree(""), |_| {});
    let error = login_by(&bench, LoginMethod::Device).await.unwrap_err().to_string();
    assert!(error.contains("MCP server `fake` login failed") && error.contains("no login with a code"), "{error}");
    assert!(web.requests("/register").is_empty());
}

/// Tokens that several processes share, with a lock.
#[derive(Default)]
struct Shared {
    tokens: MemoryTokens,
    locked: Arc<Mutex<bool>>,
    /// The tokens are there and not returned, until others are saved.
    withheld: AtomicBool,
}

struct Unlock(Arc<Mutex<bool>>);

impl Drop for Unlock {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = false;
    }
}

impl TokenStore for Shared {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, std::io::Result<StoredToken>> {
        match self.withheld.load(Ordering::SeqCst) {
            true => async { Ok(StoredToken::Withheld("the keyring is locked".to_owned())) }.boxed(),
            false => self.tokens.load(key),
        }
    }
    fn save<'a>(&'a self, key: &'a str, value: &'a SecretString) -> BoxFuture<'a, std::io::Result<()>> {
        self.withheld.store(false, Ordering::SeqCst);
        self.tokens.save(key, value)
    }
    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, std::io::Result<bool>> {
        self.tokens.remove(key)
    }
    fn try_lock(&self, _: &str) -> std::io::Result<Option<Box<dyn Send>>> {
        let was_locked = std::mem::replace(&mut *self.locked.lock().unwrap(), true);
        Ok((!was_locked).then(|| Box::new(Unlock(self.locked.clone())) as _))
    }
}

/// A refresh token is void after its first use. The answer to the one who loses would be `invalid_grant`, and a login.
#[tokio::test]
async fn processes_that_share_a_login_refresh_it_one_after_another() {
    let script = Script { lifetime: 0, ..Script::default() };
    let web = script.serve().await;
    let tokens = Arc::new(Shared::default());
    let processes: Vec<Bench> = (0..4).map(|_| bench_with(&web, agree(""), |_| {}, tokens.clone())).collect();
    let _ = ask(&processes[0].servers).await;
    login(&processes[0]).await.unwrap();
    let asked = processes.iter().map(|process| ask(&process.servers));
    futures_util::future::join_all(asked).await;
    let is_refresh = |got: &&Value| got["body"].as_str().unwrap().contains("grant_type=refresh_token");
    let refreshes = web.requests("/token").iter().filter(is_refresh).count();
    assert!(refreshes >= 4, "{refreshes} refreshes");
    let number = script.issued.load(Ordering::SeqCst);
    assert_eq!(number, web.requests("/token").len(), "a refresh token was used twice");
}

#[tokio::test]
async fn login_that_the_store_withholds_is_an_error_until_there_is_another() {
    let web = Script::default().serve().await;
    let tokens = Arc::new(Shared::default());
    let first = bench_with(&web, agree(""), |_| {}, tokens.clone());
    let _ = ask(&first.servers).await;
    login(&first).await.unwrap();
    tokens.withheld.store(true, Ordering::SeqCst);
    let second = bench_with(&web, agree(""), |_| {}, tokens.clone());
    let error = ask(&second.servers).await.unwrap_err().to_string();
    assert!(error.contains("cannot use the stored login") && error.contains("the keyring is locked"), "{error}");
    login(&second).await.unwrap();
    assert!(ask(&second.servers).await.is_ok());
}
