//! Requests and redirects that would take the secret to another server than the user named, and requests that would place it
//! themselves.

use super::*;
use pinion_tests::{Answer, HttpServer, PUBLIC, Received, answer};

/// An address of another server.
const OTHER: &str = "1.1.1.1";

/// Everything in reach: only the rules of the secret keep it from most of these servers.
const RULES: [&str; 10] = [
    "https://api.example.com",
    "https://*.example.com",
    "https://example.com",
    "https://api.example.com:8443",
    "http://api.example.com",
    "https://other.example.net",
    "http://localhost:3000",
    "http://localhost:3001",
    "http://a.localhost:3000",
    "http://127.0.0.1:3000",
];

/// The servers: with TLS, without it, and another one with TLS.
struct World {
    api: HttpServer,
    plain: HttpServer,
    other: HttpServer,
    network: Arc<TestNetwork>,
}

/// Redirects to the query of `/v1/to`; the query of `/v1/with` gets the secret in a form, in place of `SECRET`.
fn redirecting(request: &Received) -> Answer {
    let form: Option<usize> = request.headers().get("x-form").and_then(|form| form.to_str().unwrap().parse().ok());
    let location = request.uri().query().unwrap_or_default().split("&key=").next().unwrap();
    let location = location.replace("SECRET", &forms(SECRET)[form.unwrap_or(0)].1);
    match request.uri().path() {
        "/v1/to" => answer(307, &[("location", &location)], ""),
        _ => answer(200, &[], "followed"),
    }
}

impl World {
    async fn new() -> Self {
        let api = HttpServer::https(redirecting).await;
        let (plain, other) = (HttpServer::start(redirecting).await, HttpServer::https(redirecting).await);
        let network = TestNetwork::new();
        network.answers("api.example.com", PUBLIC);
        network.serves(PUBLIC, api.address());
        network.answers("other.example.net", OTHER);
        network.serves(OTHER, other.address());
        network.serves("127.0.0.1", plain.address());
        Self { api, plain, other, network }
    }

    async fn sandbox(&self) -> Sandbox {
        builder(&self.network, Vault::of_all_placements(), &RULES).build().await
    }

    fn is_untouched(&self) -> bool {
        self.network.addresses().is_empty() && self.network.resolved.lock().unwrap().is_empty()
    }

    /// Returns the requests that had the secret, and the number of those that had not.
    fn received(&self) -> (Vec<String>, usize) {
        let servers = [&self.api, &self.plain, &self.other];
        let requests = servers.iter().flat_map(|server| server.requests()).map(|mut request| {
            // So that debug output shows the values.
            request.headers_mut().values_mut().for_each(|value| value.set_sensitive(false));
            format!("{request:?}")
        });
        let basic = STANDARD.encode(format!("me:{SECRET}"));
        let (with, without): (Vec<_>, Vec<_>) =
            requests.partition(|request| request.contains(&SECRET[8..]) || request.contains(&basic));
        (with, without.len())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_sent_to_no_server_that_the_user_did_not_name() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let urls = [
        "https://x.api.example.com/v1/",
        "https://example.com/v1/",
        "https://other.example.net/v1/",
        "https://api.example.com:8443/v1/",
        "http://api.example.com/v1/",
        "http://localhost:3001/v1/",
        "http://a.localhost:3000/v1/",
        "http://127.0.0.1:3000/v1/",
        "https://api.example.com/",
        "https://api.example.com/v2/",
        "https://api.example.com/v10",
        "https://api.example.com/V1/",
        "https://api.example.com/v1/../v2/",
        "https://api.example.com/v1/%2e%2e/v2/",
        "https://api.example.com/v1/..%2fv2/",
        "https://api.example.com//v1/",
    ];
    for client in CLIENTS {
        for secret in ["bearer", "basic", "key", "query"] {
            let requests: Vec<Value> = urls.iter().map(|url| with(client, secret, url)).collect();
            let (outcomes, ledger) = attempts(&sandbox, client, &requests).await;
            for (url, outcome) in urls.iter().zip(&outcomes) {
                let text = error(outcome);
                let is_right = text.contains(&format!("the credential `{secret}` must not be sent to"));
                assert!(is_right && !text.contains("/v"), "{url}: {text}");
            }
            assert_eq!((ledger.requests, ledger.bytes_sent), (0, 0));
        }
    }
    assert!(world.is_untouched());
}

/// A user name, or a host that only looks like the secret's host, does not make a URL match.
#[tokio::test(flavor = "multi_thread")]
async fn url_that_looks_like_that_of_the_secret_gets_nothing() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let urls = [
        "https://api.example.com@other.example.net/v1/",
        "https://api.example.com:443@other.example.net/v1/",
        "https://other.example.net@api.example.com/v1/",
        "https://me:pass@api.example.com/v1/",
        "https://other.example.net#@api.example.com/v1/",
        "https://other.example.net\\@api.example.com/v1/",
        "https://other.example.net?@api.example.com/v1/",
        "https://api.example.com.other.example.net/v1/",
        "https://api.example.com%2eother.example.net/v1/",
        "https://api.example.com./v1/",
        "https://аpi.example.com/v1/",
    ];
    for client in CLIENTS {
        let requests: Vec<Value> = urls.iter().map(|url| with(client, "bearer", url)).collect();
        for (url, outcome) in urls.iter().zip(attempts(&sandbox, client, &requests).await.0) {
            assert!(!error(&outcome).contains("/v1/"), "{url}: {outcome}");
        }
    }
    assert!(world.is_untouched());
}

/// The secret of a request stays with its origin, and with the paths that the user named there.
#[tokio::test(flavor = "multi_thread")]
async fn redirect_takes_the_secret_nowhere_else() {
    let targets = [
        "https://other.example.net/v1/x",
        "http://localhost:3001/v1/x",
        "http://a.localhost:3000/v1/x",
        "http://127.0.0.1:3000/v1/x",
        "/v2/x",
    ];
    for from in ["https://api.example.com/v1/to", "http://localhost:3000/v1/to"] {
        for secret in ["bearer", "basic", "key", "query"] {
            let world = World::new().await;
            let sandbox = world.sandbox().await;
            // The secret is for both servers, but not for a request that begins at the other one.
            let other =
                if from.starts_with("https") { "http://localhost:3000/v1/x" } else { "https://api.example.com/v1/x" };
            let targets = targets.into_iter().chain([other]);
            let requests: Vec<Value> =
                targets.map(|target| with(CLIENTS[0], secret, &format!("{from}?{target}"))).collect();
            let (outcomes, ledger) = attempts(&sandbox, CLIENTS[0], &requests).await;
            for (request, outcome) in requests.iter().zip(&outcomes) {
                assert_eq!(outcome["body"], json!("followed"), "{request}: {outcome}");
            }
            let (with_secret, without) = world.received();
            assert_eq!((with_secret.len(), without), (requests.len(), requests.len()), "{with_secret:?}");
            assert!(with_secret.iter().all(|request| request.contains("/v1/to")), "{with_secret:?}");
            assert_eq!(ledger.requests, 2 * requests.len() as u64);
        }
    }
}

/// From TLS to plain text, on the same host.
#[tokio::test(flavor = "multi_thread")]
async fn redirect_without_tls_takes_no_secret_along() {
    let world = World::new().await;
    world.network.answers("plain.example.com", OTHER);
    world.network.serves(OTHER, world.plain.address());
    let vault = Vault::default().with("bearer", bearer(), &["https://api.example.com"]);
    let rules = ["https://api.example.com", "http://plain.example.com"];
    let sandbox = builder(&world.network, vault, &rules).build().await;
    let request = with(CLIENTS[0], "bearer", "https://api.example.com/v1/to?http://plain.example.com/v1/x");
    assert_eq!(attempt(&sandbox, CLIENTS[0], request).await["body"], json!("followed"));
    assert!(world.plain.requests()[0].headers().get("authorization").is_none());
    assert_eq!((world.received().0.len(), world.plain.lines().len()), (1, 1));
}

/// A server that puts the secret into the target of its redirect sends it nowhere, in any form.
#[tokio::test(flavor = "multi_thread")]
async fn redirect_that_carries_the_secret_itself_is_refused() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let targets = [
        "https://other.example.net/SECRET",
        "https://other.example.net/?key=SECRET",
        "http://api.example.com/v1/SECRET",
        "http://127.0.0.1:3000/v1/SECRET",
        "http://localhost:3001/v1/SECRET",
    ];
    let from = "https://api.example.com/v1/to";
    let mut requests = Vec::new();
    for form in 0..forms(SECRET).len() {
        for target in targets {
            let mut request = with(CLIENTS[0], "bearer", &format!("{from}?{target}"));
            request["headers"] = json!([["x-form", form.to_string()]]);
            requests.push(request);
        }
    }
    let (outcomes, _) = attempts(&sandbox, CLIENTS[0], &requests).await;
    for (request, outcome) in requests.iter().zip(&outcomes) {
        // A backslash is a slash in a URL, which the client does not guess.
        let is_refused = error(outcome).contains("contains a credential") || error(outcome).contains("invalid URL");
        assert!(is_refused, "{request}: {outcome}");
    }
    // Names of hosts and users cannot carry it either.
    let targets =
        ["https://SECRET.example.com/", "https://SECRET@other.example.net/", "https://me:SECRET@other.example.net/"];
    let plain_reversed_and_hex = ["0", "4", "8"];
    let requests: Vec<Value> = plain_reversed_and_hex
        .iter()
        .flat_map(|form| {
            targets.map(|target| {
                let mut request = with(CLIENTS[0], "bearer", &format!("{from}?{target}"));
                request["headers"] = json!([["x-form", form]]);
                request
            })
        })
        .collect();
    let (outcomes, _) = attempts(&sandbox, CLIENTS[0], &requests).await;
    assert!(outcomes.iter().all(|outcome| !error(outcome).is_empty()));
    let (with_secret, without) = world.received();
    assert!(with_secret.iter().all(|request| request.contains("/v1/to?")), "{with_secret:?}");
    assert_eq!((without, world.other.connections(), world.plain.connections()), (0, 0, 0));
}

/// Neither guest may use the secret of the other, under its name or one that is similar.
#[tokio::test(flavor = "multi_thread")]
async fn handle_of_another_plugin_is_refused_and_not_looked_up() {
    let world = World::new().await;
    let vault = |name: &str| {
        let names = [name.to_owned()].into();
        SecretsGrant { names, source: Arc::new(Vault::default().with(name, bearer(), &HOSTS)) }
    };
    let sandbox = builder(&world.network, Vault::default(), &RULES)
        .grant("fetcher", |grants| grants.secrets = Some(vault("of-fetcher")))
        .grant("surfer", |grants| grants.secrets = Some(vault("of-surfer")))
        .build()
        .await;
    for (client, own, other) in [(CLIENTS[0], "of-fetcher", "of-surfer"), (CLIENTS[1], "of-surfer", "of-fetcher")] {
        let handles =
            [other.to_owned(), own.to_uppercase(), format!("{own}-"), format!("{own},{other}"), "*".to_owned()];
        let requests: Vec<Value> =
            handles.iter().map(|handle| with(client, handle, "https://api.example.com/v1/")).collect();
        for (handle, outcome) in handles.iter().zip(attempts(&sandbox, client, &requests).await.0) {
            let text = error(&outcome);
            assert!(text.contains(&format!("may not use the secret `{handle}`")), "{text}");
        }
        assert_eq!(world.network.addresses().len(), usize::from(client == CLIENTS[1]));
        let used = attempt(&sandbox, client, with(client, own, "https://api.example.com/v1/")).await;
        assert_eq!(used["body"], json!("followed"), "{used}");
    }
}

/// A plugin that sets the field itself, or a second one, could make a server answer as if it had no secret, or repeat it.
#[tokio::test(flavor = "multi_thread")]
async fn plugin_sets_no_field_beside_its_secret() {
    let world = World::new().await;
    let sandbox = world.sandbox().await;
    let url = "https://api.example.com/v1/";
    for client in CLIENTS {
        let beside = |secret: &str, url: &str, fields: &[(&str, &str)]| {
            let mut request = with(client, secret, url);
            let headers = request["headers"].as_array().cloned().unwrap_or_default();
            let fields = fields.iter().map(|(name, value)| json!([name, value]));
            request["headers"] = headers.into_iter().chain(fields).collect();
            request
        };
        let requests = [
            beside("bearer", url, &[("authorization", "Bearer own")]),
            beside("bearer", url, &[("Authorization", "")]),
            beside("basic", url, &[("AUTHORIZATION", "Basic own")]),
            beside("key", url, &[("X-Key", "own")]),
            beside("query", &format!("{url}?key=own"), &[]),
            beside("query", &format!("{url}?a=b&%6bey="), &[]),
            beside("bearer", url, &[("proxy-authorization", "Basic own")]),
            beside("bearer", url, &[("connection", "authorization")]),
            beside("bearer", url, &[("x-http-method-override", "TRACE")]),
            beside("bearer", url, &[("host", "other.example.net")]),
            beside("bearer", url, &[("x", "a\r\nhost: other.example.net")]),
            beside("bearer\r\nhost: other.example.net", url, &[]),
        ];
        for (request, outcome) in requests.iter().zip(attempts(&sandbox, client, &requests).await.0) {
            assert!(!error(&outcome).contains("Bearer") && outcome["sent"].is_null(), "{request}: {outcome}");
        }
        for method in ["TRACE", "TRACK", "CONNECT"] {
            let mut request = with(client, "bearer", url);
            request["method"] = json!(method);
            assert!(!error(&attempt(&sandbox, client, request).await).is_empty(), "{method}");
        }
    }
    let two = json!({ "url": url, "headers": [["pinion-credential", "bearer"], ["pinion-credential", "query"]] });
    assert!(error(&attempt(&sandbox, CLIENTS[1], two).await).contains("more than one secret"));
    assert!(world.is_untouched());
    // A field of any other name is the plugin's own: it carries only the plugin's knowledge, and not the secret.
    let own =
        json!({ "url": url, "headers": [["pinion-credential", "bearer"], ["x-own", "${bearer} {{bearer}} bearer"]] });
    assert_eq!(attempt(&sandbox, CLIENTS[0], own).await["body"], json!("followed"));
    assert!(world.received().0.is_empty());
}
