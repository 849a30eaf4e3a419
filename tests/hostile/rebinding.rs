//! Names that point to other addresses than their grants mean: for all answers of a resolver at any time, a plugin
//! reaches only addresses that its rules admit, through both imports that send requests.

use super::grants::{manifest, packed};
use pinion_agent::tool::Ledger;
use pinion_tests::{
    Answer, HttpServer, PUBLIC, Progress, Received, Sandbox, SandboxBuilder, TestNetwork, answer, assert_served,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A guest with an import that sends requests, and its tool.
pub(super) type Client = (&'static str, &'static str);

/// One guest for each import: `http`, and `wasi:http`.
pub(super) const CLIENTS: [Client; 2] = [("fetcher", "fetch"), ("surfer", "surf")];

const API: &str = "http://api.example.com";

/// A part of the URL that no message shows.
const TAIL: &str = "private-path?token=Zq7Xw3Vb9Nm2";

/// A public server, a server behind every other address of a test, and the names that lead to them.
struct World {
    public: HttpServer,
    private: HttpServer,
    network: Arc<TestNetwork>,
}

fn public(request: &Received) -> Answer {
    match (request.uri().path(), request.uri().query()) {
        ("/to", Some(location)) => answer(302, &[("location", location)], ""),
        _ => answer(200, &[], "public"),
    }
}

impl World {
    /// A world with the public server behind [`PUBLIC`].
    async fn new() -> Self {
        let (public, private) =
            (HttpServer::start(public).await, HttpServer::start(|_| answer(200, &[], "secret")).await);
        let network = TestNetwork::new();
        network.serves(PUBLIC, public.address());
        Self { public, private, network }
    }

    /// A world where `api.example.com` is at these addresses, one after the other. Each but [`PUBLIC`] is the private
    /// server.
    async fn answering(addresses: &[&str]) -> Self {
        let world = Self::new().await;
        addresses.iter().for_each(|addresses| world.answers("api.example.com", addresses));
        world
    }

    fn answers(&self, name: &str, addresses: &str) {
        self.network.answers(name, addresses);
        for address in addresses.split_whitespace().filter(|address| *address != PUBLIC) {
            self.network.serves(address, self.private.address());
        }
    }

    /// Loads both guests with these rules.
    async fn sandbox(&self, rules: &[&str]) -> Sandbox {
        let builder = SandboxBuilder::default().network(&self.network).guest("fetcher").guest("surfer").watched();
        builder.http("fetcher", rules).http("surfer", rules).build().await
    }

    /// Asserts that only the public server was reached, so many times.
    fn assert_only_public(&self, times: usize) {
        assert_eq!(self.network.addresses(), vec![PUBLIC; times]);
        assert_eq!((self.private.connections(), self.public.lines().len()), (0, times));
    }
}

/// Sends requests in one call; another plugin is served afterwards. Returns their outcomes and the ledger of the call.
pub(super) async fn send(sandbox: &Sandbox, client: Client, arguments: Value) -> (Vec<Value>, Ledger) {
    let (result, ledger) = sandbox.call_with(client.1, arguments, &Progress::default(), CancellationToken::new()).await;
    assert_served(&sandbox.runtime).await;
    let outcomes = result.unwrap_or_else(|error| panic!("{client:?}: {error}"));
    (serde_json::from_str(outcomes.content[0].as_text().unwrap()).unwrap(), ledger)
}

async fn get(sandbox: &Sandbox, client: Client, urls: &[&str]) -> (Vec<Value>, Ledger) {
    let requests: Vec<Value> = urls.iter().map(|url| json!({ "url": url })).collect();
    send(sandbox, client, json!({ "requests": requests })).await
}

/// Returns the text that a guest gets for a refused request, which contains nothing of the request but its host.
fn denied(outcome: &Value) -> &str {
    assert!(outcome["status"].is_null(), "{outcome}");
    let text = outcome["denied"].as_str().or(outcome["error"].as_str()).unwrap_or_else(|| panic!("{outcome}"));
    assert!(!text.contains("private-path") && !text.contains("Zq7Xw3Vb") && !text.contains("secret"), "{text}");
    text
}

/// Asserts that a request was refused because of an address of `api.example.com`.
fn assert_denied_at(outcome: &Value, address: &str) {
    let text = denied(outcome);
    assert!(text.contains(&format!("`api.example.com` is at {address}, ")), "{text}");
    assert!(text.contains("which its network rule does not include"), "{text}");
    assert!(text.contains("the user can grant the address itself"), "{text}");
}

fn assert_reached(outcome: &Value) {
    assert_eq!((&outcome["status"], &outcome["body"]), (&json!(200), &json!("public")), "{outcome}");
}

/// Asserts that a ledger has so many requests to `api.example.com`, and no traffic besides.
fn assert_counted(ledger: &Ledger, requests: u64) {
    let hosts: Vec<&str> = ledger.hosts.iter().map(String::as_str).collect();
    let expected: &[&str] = if requests == 0 { &[] } else { &["api.example.com"] };
    assert_eq!((ledger.requests, &hosts[..]), (requests, expected), "{ledger}");
    assert_eq!((ledger.bytes_sent > 0, ledger.bytes_received > 0), (requests > 0, requests > 0), "{ledger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_name_at_a_special_address_is_not_reached() {
    let special = [
        ("127.0.0.1", "a loopback"),
        ("127.8.8.8", "a loopback"),
        ("::1", "a loopback"),
        ("::ffff:127.0.0.1", "a loopback"),
        ("10.0.0.5", "a private"),
        ("172.16.0.1", "a private"),
        ("192.168.1.1", "a private"),
        ("::ffff:10.0.0.5", "a private"),
        ("fd00::1", "a private"),
        ("100.64.0.1", "a carrier-grade NAT"),
        ("169.254.0.1", "a link-local"),
        ("fe80::1", "a link-local"),
        ("169.254.169.254", "a metadata service's"),
        ("::ffff:169.254.169.254", "a metadata service's"),
        ("fd00:ec2::254", "a metadata service's"),
        ("100.100.100.200", "a metadata service's"),
        ("64:ff9b:1::7f00:1", "a tunnel or translation"),
        ("2002:7f00:1::1", "a tunnel or translation"),
        ("224.0.0.1", "a multicast"),
        ("ff02::1", "a multicast"),
        ("255.255.255.255", "a broadcast"),
        ("0.0.0.0", "an unspecified"),
        ("::", "an unspecified"),
        ("198.18.0.1", "a benchmarking"),
        ("240.0.0.1", "a reserved"),
    ];
    let world = World::new().await;
    let names: Vec<String> = (0..special.len()).map(|at| format!("a{at}.example.com")).collect();
    names.iter().zip(special).for_each(|(name, (address, _))| world.answers(name, address));
    let urls: Vec<String> = names.iter().map(|name| format!("http://{name}/{TAIL}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let rules: Vec<String> = names.iter().map(|name| format!("http://{name}")).collect();
    let sandbox = world.sandbox(&rules.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for client in CLIENTS {
        let (outcomes, ledger) = get(&sandbox, client, &urls).await;
        for ((name, outcome), (address, class)) in names.iter().zip(&outcomes).zip(special) {
            let text = denied(outcome);
            let address = address.parse::<std::net::IpAddr>().unwrap();
            let expected =
                format!("`{name}` is at {address}, {class} address, which its network rule does not include");
            assert!(text.contains(&expected), "{expected}: {text}");
        }
        assert_counted(&ledger, 0);
    }
    world.assert_only_public(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_special_address_among_public_ones_refuses_them_all() {
    let many = format!("{} ::1", [PUBLIC; 12].join(" "));
    for (addresses, refused) in [
        (format!("{PUBLIC} 10.0.0.5"), "10.0.0.5"),
        (format!("127.0.0.1 {PUBLIC}"), "127.0.0.1"),
        (format!("{PUBLIC} fd00::1 {PUBLIC}"), "fd00::1"),
        (many, "::1"),
    ] {
        let world = World::answering(&[&addresses]).await;
        let sandbox = world.sandbox(&[API]).await;
        for client in CLIENTS {
            let (outcomes, ledger) = get(&sandbox, client, &[&format!("{API}/{TAIL}")]).await;
            assert_denied_at(&outcomes[0], refused);
            assert_counted(&ledger, 0);
        }
        world.assert_only_public(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_changes_within_a_call_or_between_calls_is_refused() {
    let url = format!("{API}/{TAIL}");
    for client in CLIENTS {
        let world = World::answering(&[PUBLIC, "127.0.0.1", PUBLIC, "10.0.0.5", PUBLIC]).await;
        let sandbox = world.sandbox(&[API]).await;
        let (outcomes, ledger) = get(&sandbox, client, &[&url, &url, &url]).await;
        assert_reached(&outcomes[0]);
        assert_denied_at(&outcomes[1], "127.0.0.1");
        assert_reached(&outcomes[2]);
        assert_counted(&ledger, 2);
        let (outcomes, ledger) = get(&sandbox, client, &[&url]).await;
        assert_denied_at(&outcomes[0], "10.0.0.5");
        assert_counted(&ledger, 0);
        let (outcomes, ledger) = get(&sandbox, client, &[&url]).await;
        assert_reached(&outcomes[0]);
        assert_counted(&ledger, 1);
        // One question for each request: nothing was resolved between check and connection.
        assert_eq!(world.network.resolved.lock().unwrap().len(), 5);
        world.assert_only_public(3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_change_under_concurrent_requests_are_refused() {
    let addresses: Vec<&str> = (0..20).map(|at| if at % 2 == 0 { PUBLIC } else { "127.0.0.1" }).collect();
    let world = World::answering(&addresses).await;
    let sandbox = world.sandbox(&[API]).await;
    let requests = vec![json!({ "url": format!("{API}/{TAIL}") }); addresses.len()];
    let (outcomes, ledger) = send(&sandbox, CLIENTS[1], json!({ "requests": requests, "at_once": true })).await;
    let (reached, refused): (Vec<&Value>, Vec<&Value>) = outcomes.iter().partition(|outcome| outcome["status"] == 200);
    assert_eq!((reached.len(), refused.len()), (10, 10));
    reached.into_iter().for_each(assert_reached);
    refused.into_iter().for_each(|outcome| assert_denied_at(outcome, "127.0.0.1"));
    assert_counted(&ledger, 10);
    world.assert_only_public(10);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_changes_between_redirects_is_refused() {
    for client in CLIENTS {
        let world = World::answering(&[PUBLIC, "169.254.169.254"]).await;
        world.answers("inner.example.com", "10.0.0.5");
        let sandbox = world.sandbox(&[API, "http://inner.example.com"]).await;
        let to = |location: &str| format!("{API}/to?{location}");
        let (outcomes, ledger) = get(&sandbox, client, &[&to(&format!("/{TAIL}"))]).await;
        if client.0 == "surfer" {
            // The guest follows it, which is one more request.
            assert_eq!(outcomes[0]["status"], 302, "{}", outcomes[0]);
            let (outcomes, ledger) = get(&sandbox, client, &[&format!("{API}/{TAIL}")]).await;
            assert_denied_at(&outcomes[0], "169.254.169.254");
            assert_counted(&ledger, 0);
        } else {
            assert_denied_at(&outcomes[0], "169.254.169.254");
            assert!(denied(&outcomes[0]).contains("to which the server redirected it"), "{}", outcomes[0]);
        }
        assert_counted(&ledger, 1);
        world.assert_only_public(1);
    }
    // To another name, which was private all the time.
    let world = World::answering(&[PUBLIC]).await;
    world.answers("inner.example.com", "10.0.0.5");
    let sandbox = world.sandbox(&[API, "http://inner.example.com"]).await;
    let url = format!("{API}/to?http://inner.example.com/{TAIL}");
    let (outcomes, ledger) = get(&sandbox, CLIENTS[0], &[&url]).await;
    let text = denied(&outcomes[0]);
    assert!(text.contains("`inner.example.com` is at 10.0.0.5, a private address"), "{text}");
    assert_counted(&ledger, 1);
    world.assert_only_public(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_opens_no_address_that_its_name_moved_to() {
    for client in CLIENTS {
        let world = World::answering(&[PUBLIC, "10.0.0.5", "10.0.0.5", PUBLIC]).await;
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("guest.wasm");
        let asking = |rule: &str| packed(client.0, &manifest(client.0, json!({ "http": [rule] })));
        std::fs::write(&file, asking(API)).unwrap();
        let builder = SandboxBuilder::default().network(&world.network).file(file.clone()).http(client.0, &[API]);
        let sandbox = builder.watched().build().await;
        let url = format!("{API}/{TAIL}");
        assert_reached(&get(&sandbox, client, &[&url]).await.0[0]);
        // The same plugin, and one that asks for private addresses, too.
        for bytes in [[&asking(API)[..], &[0, 2, 1, b'x']].concat(), asking(&format!("private {API}"))] {
            std::fs::write(&file, bytes).unwrap();
            let (outcomes, ledger) = get(&sandbox, client, &[&url]).await;
            assert_denied_at(&outcomes[0], "10.0.0.5");
            assert_counted(&ledger, 0);
        }
        assert_eq!(sandbox.runtime.plugins()[0].generation, 3, "it was reloaded");
        assert_reached(&get(&sandbox, client, &[&url]).await.0[0]);
        world.assert_only_public(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_can_grant_a_private_name_without_granting_the_link() {
    for client in CLIENTS {
        let world = World::answering(&["10.0.0.5", PUBLIC, "169.254.169.254", "10.0.0.5 224.0.0.1"]).await;
        world.network.serves("10.0.0.5", world.public.address());
        let sandbox = world.sandbox(&[&format!("private {API}"), "http://10.0.0.5"]).await;
        let url = format!("{API}/{TAIL}");
        let (outcomes, ledger) = get(&sandbox, client, &[&url, &url, &url, &url]).await;
        outcomes[..2].iter().for_each(assert_reached);
        assert_denied_at(&outcomes[2], "169.254.169.254");
        assert_denied_at(&outcomes[3], "224.0.0.1");
        assert_counted(&ledger, 2);
        assert_reached(&get(&sandbox, client, &["http://10.0.0.5/"]).await.0[0]);
        assert_eq!(world.network.addresses(), ["10.0.0.5", PUBLIC, "10.0.0.5"]);
        assert_eq!(world.private.connections(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_without_an_address_fails_before_anything_is_sent() {
    for client in CLIENTS {
        let world = World::answering(&[""]).await;
        let sandbox = world.sandbox(&[API, "http://unknown.example.com"]).await;
        let urls = [&format!("{API}/{TAIL}")[..], &format!("http://unknown.example.com/{TAIL}")];
        let (outcomes, ledger) = get(&sandbox, client, &urls).await;
        for (outcome, said) in outcomes.iter().zip(["`api.example.com` has no address", "could not find an address of"])
        {
            let text = outcome["failed"].as_str().or(outcome["error"].as_str()).unwrap_or_else(|| panic!("{outcome}"));
            assert!(text.contains(said) && !text.contains("private-path"), "{text}");
            assert_ne!(outcome["sent"], json!(true), "{outcome}");
        }
        assert_counted(&ledger, 0);
        world.assert_only_public(0);
    }
}
