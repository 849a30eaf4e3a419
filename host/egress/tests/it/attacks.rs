//! Attempts of a plugin to reach anything outside its grant: `GET,HEAD https://api.example.com/v1/*`.
//!
//! After each attempt, the request was refused, no connection was opened to any other address or port, and the server
//! of the grant saw only requests that the grant covers.

use crate::support::network::{PUBLIC, TestNetwork};
use crate::support::server::{Server, answer, redirect};
use crate::support::{fetch, policy};
use pinion_egress::{Client, ClientSettings, Credentials, Request, RequestAccess, SendError};
use std::sync::Arc;

const GRANT: &[&str] = &["GET,HEAD https://api.example.com/v1/*"];

/// The addresses behind which the other servers of the attempts would be.
const OTHERS: &[&str] = &["127.0.0.1", "::1", "10.0.0.5", "169.254.169.254", "1.1.1.1", "0.0.0.0", "2606:4700::1"];

/// The server of the grant, which redirects to the query of `/v1/to`, and everything else in reach.
struct World {
    api: Server,
    other: Server,
    network: Arc<TestNetwork>,
}

impl World {
    async fn new() -> Self {
        let api = Server::https(|request| match request.uri().path() {
            "/v1/to" => redirect(307, request.uri().query().unwrap()),
            _ => answer(200, &[], "granted"),
        })
        .await;
        let other = Server::https(|_| answer(200, &[], "stolen")).await;
        let network = TestNetwork::with_api(api.address);
        OTHERS.iter().for_each(|address| network.serves(address, other.address));
        for name in ["evil.example", "example.com", "x.api.example.com", "api.example.com.evil.example"] {
            network.answers(name, "1.1.1.1");
        }
        Self { api, other, network }
    }

    /// Sends a request that must fail, and checks that nothing else was reached.
    async fn refuses(&self, name: &str, request: Request) -> SendError {
        let error = fetch(&self.network, GRANT, request).await.expect_err(name);
        for address in &*self.network.connected.lock().unwrap() {
            assert_eq!(address.to_string(), format!("{PUBLIC}:443"), "{name}");
        }
        for line in self.api.lines() {
            assert!(line.starts_with("GET api.example.com/v1/"), "{name}: {line}");
        }
        assert!(self.other.lines().is_empty(), "{name}");
        error
    }
}

#[tokio::test]
async fn grant_reaches_its_own_server() {
    let world = World::new().await;
    for url in ["https://api.example.com/v1/x?y", "https://API.example.com:443/v1/a/../b", "https://api.example.com/v1"]
    {
        assert_eq!(fetch(&world.network, GRANT, Request::new("GET", url)).await, Ok("granted".to_owned()), "{url}");
    }
}

#[tokio::test]
async fn one_grant_reaches_nothing_else() {
    let world = World::new().await;
    let urls = [
        ("another host", "https://evil.example/v1/"),
        ("without TLS", "http://api.example.com/v1/"),
        ("without TLS on the port of TLS", "http://api.example.com:443/v1/"),
        ("another port", "https://api.example.com:8443/v1/"),
        ("port 0", "https://api.example.com:0/v1/"),
        ("port that wraps around", "https://api.example.com:65979/v1/"),
        ("the domain above", "https://example.com/v1/"),
        ("a name below", "https://x.api.example.com/v1/"),
        ("the name as a prefix", "https://api.example.com.evil.example/v1/"),
        ("the name as a user", "https://api.example.com@evil.example/v1/"),
        ("the name as a user with password", "https://api.example.com:443@evil.example/v1/"),
        ("a user before the name", "https://evil.example@api.example.com/v1/"),
        ("a backslash before the host", "https://evil.example\\@api.example.com/v1/"),
        ("a backslash as a slash", "https:\\\\evil.example\\v1"),
        ("a fragment before the host", "https://evil.example#@api.example.com/v1/"),
        ("a query before the host", "https://evil.example?@api.example.com/v1/"),
        ("an encoded NUL in the host", "https://api.example.com%00.evil.example/v1/"),
        ("a tab in the host", "https://evil.exa\tmple/v1/"),
        ("a line break before the scheme", "\nhttps://evil.example/v1/"),
        ("a final dot", "https://api.example.com./v1/"),
        ("a homograph", "https://аpi.example.com/v1/"),
        ("no host", "https:///v1/"),
        ("another path", "https://api.example.com/admin"),
        ("a longer segment", "https://api.example.com/v10/admin"),
        ("a segment in upper case", "https://api.example.com/V1/admin"),
        ("the parent", "https://api.example.com/v1/../admin"),
        ("the parent, encoded", "https://api.example.com/v1/%2e%2E/admin"),
        ("the parent, with an encoded slash", "https://api.example.com/v1/..%2fadmin"),
        ("the parent, all encoded", "https://api.example.com/v1/%2e%2e%2fadmin"),
        ("the parent, encoded twice", "https://api.example.com/v1/%252e%252e%252fadmin"),
        ("the parent, with an encoded backslash", "https://api.example.com/v1/..%5cadmin"),
        ("the parent, with a parameter", "https://api.example.com/v1/..;/admin"),
        ("the parent, with an encoded parameter", "https://api.example.com/v1/..%3bx/admin"),
        ("the parent, in overlong UTF-8", "https://api.example.com/v1/%c0%ae%c0%ae/admin"),
        ("the parent, in the encoding of IIS", "https://api.example.com/v1/%u002e%u002e/admin"),
        ("the parent, before a NUL", "https://api.example.com/v1/..%00/admin"),
        ("the parent, before a space", "https://api.example.com/v1/..%20/admin"),
        ("an empty segment first", "https://api.example.com//v1/admin"),
        ("an encoded slash in the prefix", "https://api.example.com/v1%2f../admin"),
        ("an encoded line break in the path", "https://api.example.com/v1/%0d%0ahost:%20evil.example"),
        ("localhost", "https://localhost/v1/"),
        ("a name below localhost", "https://api.localhost/v1/"),
        ("loopback", "https://127.0.0.1/v1/"),
        ("loopback, decimal", "https://2130706433/v1/"),
        ("loopback, octal", "https://0177.1/v1/"),
        ("loopback, hexadecimal", "https://0x7f000001/v1/"),
        ("loopback, wide digits", "https://①②⑦.0.0.1/v1/"),
        ("loopback of IPv6", "https://[::1]/v1/"),
        ("loopback, mapped", "https://[::ffff:127.0.0.1]/v1/"),
        ("any address", "https://0.0.0.0/v1/"),
        ("a private address", "https://10.0.0.5/v1/"),
        ("the metadata service", "https://169.254.169.254/v1/"),
        ("the address of the granted name", "https://93.184.215.14/v1/"),
        ("a zone", "https://[fe80::1%25eth0]/v1/"),
        ("a file", "file:///etc/passwd"),
        ("ftp", "ftp://api.example.com/v1/"),
        ("a web socket", "wss://api.example.com/v1/"),
        ("data", "data:text/plain,v1"),
        ("no scheme", "//api.example.com/v1/"),
        ("no URL", "v1"),
    ];
    assert!(urls.len() >= 40);
    for (name, url) in urls {
        let error = world.refuses(name, Request::new("GET", url)).await;
        assert!(!error.request_sent(), "{name}");
        assert!(matches!(error, SendError::Denied { .. } | SendError::InvalidRequest(_)), "{name}: {error}");
    }
    assert!(world.network.resolved.lock().unwrap().is_empty() && world.api.lines().is_empty());
}

#[tokio::test]
async fn methods_and_headers_widen_no_grant() {
    let world = World::new().await;
    let url = "https://api.example.com/v1/";
    let smuggled = "GET https://evil.example/ HTTP/1.1\r\nhost: evil.example\r\n\r\nGET";
    for method in ["POST", "DELETE", "get", "CONNECT", "TRACE", "TRACK", "GET ", "", smuggled] {
        let error = world.refuses(method, Request::new(method, url)).await;
        assert!(!error.request_sent(), "{method}");
    }
    for (name, value) in [
        ("Host", "evil.example"),
        ("host", "evil.example"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Connection", "upgrade"),
        ("Upgrade", "websocket"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Expect", "100-continue"),
        ("Keep-Alive", "timeout=1000"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Proxy-Connection", "keep-alive"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("x_http_method_override", "DELETE"),
        ("X-Original-URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("x-a", "b\r\nhost: evil.example"),
        ("x-a", "b\nhost: evil.example"),
        ("x-a", "b\0"),
        ("x-a: b\r\nhost", "evil.example"),
        ("x a", "b"),
        (":authority", "evil.example"),
        ("", "b"),
    ] {
        let headers = vec![(name.to_owned(), value.as_bytes().to_vec())];
        let error = world.refuses(name, Request { headers, ..Request::new("GET", url) }).await;
        assert!(matches!(error, SendError::InvalidRequest(_)), "{name}: {error}");
    }
    assert!(world.network.connected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn name_that_resolves_to_special_addresses_is_not_connected() {
    for addresses in [
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.5",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "192.0.0.192",
        "198.18.0.1",
        "168.63.129.16",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::1",
        "2001::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        // One bad address refuses the good ones, wherever it is.
        "1.1.1.1 10.0.0.5",
        "127.0.0.1 1.1.1.1",
        "2606:4700::1 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9 4.4.4.4 5.5.5.5 6.6.6.6 7.7.7.7 ::1",
    ] {
        let network = TestNetwork::new();
        network.answers("api.example.com", addresses);
        let error = fetch(&network, GRANT, Request::new("GET", "https://api.example.com/v1/")).await.unwrap_err();
        assert!(matches!(error, SendError::Denied { request_sent: false, .. }), "{addresses}: {error}");
        assert!(network.addresses().is_empty(), "{addresses}");
    }
}

#[tokio::test]
async fn rule_for_every_host_opens_no_special_address() {
    let network = TestNetwork::new();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0",
        "0.0.0.0",
        "10.0.0.5",
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.5]",
        "[::ffff:0:7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "localhost",
        "a.localhost",
    ] {
        let request = Request::new("GET", format!("http://{host}/"));
        let error = fetch(&network, &["http://*", "http://*.a.example"], request).await.unwrap_err();
        assert!(matches!(error, SendError::Denied { request_sent: false, .. }), "{host}: {error}");
    }
    assert!(network.addresses().is_empty() && network.resolved.lock().unwrap().is_empty());
}

#[tokio::test]
async fn rebinding_between_requests_and_redirects_is_refused() {
    let world = World::new().await;
    let network = TestNetwork::new();
    network.serves(PUBLIC, world.api.address);
    network.serves("127.0.0.1", world.other.address);
    for answer in [PUBLIC, "127.0.0.1", PUBLIC, "127.0.0.1"] {
        network.answers("api.example.com", answer);
    }
    let get = |url: &str| fetch(&network, GRANT, Request::new("GET", url));
    assert_eq!(get("https://api.example.com/v1/").await, Ok("granted".to_owned()));
    assert!(matches!(get("https://api.example.com/v1/").await, Err(SendError::Denied { request_sent: false, .. })));
    let redirected = get("https://api.example.com/v1/to?/v1/").await;
    assert!(matches!(redirected, Err(SendError::Denied { request_sent: true, .. })));
    // Each request and redirect asked once, so that nothing was resolved between check and connection.
    assert_eq!(network.resolved.lock().unwrap().len(), 4);
    assert_eq!(network.addresses(), [PUBLIC, PUBLIC]);
}

#[tokio::test]
async fn redirects_leave_no_grant() {
    let world = World::new().await;
    for location in [
        "https://evil.example/v1/",
        "//evil.example/v1/",
        "http://api.example.com/v1/",
        "https://api.example.com:8443/v1/",
        "https://api.example.com@evil.example/v1/",
        "https://evil.example%23@api.example.com/v1/",
        "https://x.api.example.com/v1/",
        "https://api.example.com./v1/",
        "/admin",
        "../admin",
        "/v1/../admin",
        "/v1/..%2fadmin",
        "/v1/%252e%252e%252fadmin",
        "https://127.0.0.1/v1/",
        "https://2130706433/v1/",
        "https://[::1]/v1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://localhost/v1/",
        "https://10.0.0.5/v1/",
        "file:///etc/passwd",
        "ftp://api.example.com/v1/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "https://",
        "/v1/to?https://evil.example/",
    ] {
        let error =
            world.refuses(location, Request::new("GET", format!("https://api.example.com/v1/to?{location}"))).await;
        assert!(matches!(error, SendError::Denied { .. } | SendError::Failed { .. }), "{location}: {error}");
        assert!(error.request_sent() && !error.to_string().contains("admin"), "{location}: {error}");
    }
}

#[tokio::test]
async fn redirect_needs_the_method_that_it_leads_to() {
    let server = Server::http(|request| match request.method().as_str() {
        "POST" => redirect(302, "/done"),
        _ => answer(200, &[], "done"),
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let post = || Request::new("POST", "http://api.example.com/");
    let error = fetch(&network, &["POST http://api.example.com"], post()).await.unwrap_err();
    assert!(error.to_string().starts_with("no network rule covers `GET http://api.example.com`"), "{error}");
    assert_eq!(fetch(&network, &["GET,POST http://api.example.com"], post()).await, Ok("done".to_owned()));
}

#[tokio::test]
async fn certificate_of_another_host_is_refused() {
    let server = Server::https(|_| answer(200, &[], "stolen")).await;
    let network = TestNetwork::new();
    network.answers("bank.example", PUBLIC);
    network.serves(PUBLIC, server.address);
    let error = fetch(&network, &["bank.example"], Request::new("GET", "https://bank.example/")).await.unwrap_err();
    assert!(error.to_string().starts_with("no TLS connection to `https://bank.example`"), "{error}");
    assert!(!error.request_sent());
    // Without the authority of the test, the certificate of the right host is refused, too.
    let client = Client::new(ClientSettings { network: TestNetwork::with_api(server.address), ..Default::default() });
    let (rules, none) = (policy(&["api.example.com"]), Credentials::default());
    let error =
        client.unwrap().send(Request::new("GET", "https://api.example.com/"), &RequestAccess::new(&rules, &none)).await;
    assert!(error.unwrap_err().to_string().starts_with("no TLS connection to `https://api.example.com`"));
    assert!(server.lines().is_empty());
}
