//! Programs that use credentials through placeholders, and attacks by programs and servers.

use crate::support::SECRET;
use crate::support::certificates::{AUTHORITY, acceptor};
use crate::support::network::{PUBLIC, TestNetwork};
use crate::support::proxy::{Running, connect_to, head, hosts, socks};
use crate::support::server::{RawServer, Server, answer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pinion_egress::{CredentialValues, ExchangeOutcome, Placement, ProxyCredential, ProxyCredentials};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::SecretString;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Knows the value of the credential `key`, and counts how often it was asked.
#[derive(Default)]
struct Values(AtomicUsize);

impl CredentialValues for Values {
    fn value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SecretString, String>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        async move {
            match name {
                "key" => Ok(SecretString::from(SECRET)),
                _ => Err(format!("the secret `{name}` has no value")),
            }
        }
        .boxed()
    }
}

/// A proxy that inserts one credential.
struct Inserting {
    proxy: Running,
    credentials: Arc<ProxyCredentials>,
    values: Arc<Values>,
}

impl Inserting {
    async fn start(network: &Arc<TestNetwork>, name: &str, placement: Placement, rules: &[&str]) -> Self {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let credential = ProxyCredential::new(name, placement, rules).unwrap();
        let values = Arc::new(Values::default());
        let credentials = ProxyCredentials::new(vec![credential], values.clone(), AUTHORITY).unwrap();
        let credentials = Arc::new(credentials);
        let allowed = ["api.example.com", "other.example.net", "localhost:3000", "wrong.example"];
        let proxy = Running::start_with(network, &allowed, Some(credentials.clone())).await;
        Self { proxy, credentials, values }
    }

    async fn bearer(network: &Arc<TestNetwork>) -> Self {
        Self::start(network, "key", Placement::Bearer, &["GET,POST https://api.example.com/v1"]).await
    }

    fn placeholder(&self) -> String {
        self.credentials.all()[0].placeholder().to_owned()
    }

    /// Opens a tunnel to `host:443` as a program that trusts the proxy's authority.
    async fn program(&self, host: &str) -> Program {
        let mut stream = self.proxy.sends(connect_to(&format!("{host}:443")).as_bytes()).await;
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200"));
        self.inside(stream, host).await.unwrap()
    }

    async fn inside(&self, stream: TcpStream, host: &str) -> Result<Program, String> {
        Program::start(stream, host, self.credentials.authority().as_bytes(), b"http/1.1").await
    }

    fn outcomes(&self) -> Vec<(String, Option<String>, ExchangeOutcome)> {
        let reports = self.proxy.reports.0.lock().unwrap();
        assert!(!format!("{reports:?}").contains(SECRET));
        reports
            .iter()
            .map(|report| (report.method.clone(), report.credential.clone(), report.outcome.clone()))
            .collect()
    }
}

/// A program in a tunnel.
struct Program {
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
}

impl Program {
    async fn start(stream: TcpStream, host: &str, authority: &[u8], protocol: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, _driver: driver })
    }

    /// Sends a request, and returns status, fields and body of the response.
    async fn send(&mut self, method: &str, uri: &str, fields: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut request = http::Request::builder().method(method).uri(uri);
        if !fields.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "api.example.com");
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        assert!(!format!("{:?}", head.extensions.get::<hyper::ext::ReasonPhrase>()).contains(SECRET));
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), format!("{:?}", head.headers), String::from_utf8_lossy(&body).into_owned())
    }

    async fn get(&mut self, path: &str, authorization: &str) -> (u16, String, String) {
        self.send("GET", path, &[("authorization", authorization)], "").await
    }
}

#[tokio::test]
async fn placeholder_is_replaced_in_the_places_of_its_credential() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let own = Placement::Header { name: "x-api-key".to_owned(), prefix: String::new() };
    for placement in [Placement::Bearer, own, Placement::Query { parameter: "key".to_owned() }] {
        let pinion = Inserting::start(&network, "key", placement, &["api.example.com"]).await;
        let placeholder = pinion.placeholder();
        assert!(placeholder.starts_with("pinion-credential-key-") && placeholder.len() > 50, "{placeholder}");
        let mut program = pinion.program("api.example.com").await;
        let basic = format!("basic {}", STANDARD.encode(format!("git:{placeholder}")));
        for authorization in [format!("Bearer {placeholder}"), basic.trim_end_matches('=').to_owned()] {
            let fields = [("authorization", &*authorization), ("x-api-key", &placeholder), ("x-other", &placeholder)];
            let said =
                program.send("POST", &format!("/{placeholder}?key={placeholder}&a=b"), &fields, &placeholder).await;
            assert_eq!((said.0, said.2.as_str()), (200, "ok"));
        }
        let ended = ("POST".to_owned(), Some("key".to_owned()), ExchangeOutcome::Complete);
        assert_eq!(pinion.outcomes(), [ended.clone(), ended]);
        assert_eq!(server.values("x-other").last(), Some(&placeholder));
    }
    let basic = format!("basic {}", STANDARD.encode(format!("git:{SECRET}")));
    let both = [format!("Bearer {SECRET}"), basic];
    assert_eq!(server.values("authorization"), [&both[..], &both, &both].concat());
    let (own, query) = (server.values("x-api-key"), server.lines());
    let is_own: Vec<bool> = own.iter().map(|value| value == SECRET).collect();
    let is_query: Vec<bool> = query.iter().map(|line| line.contains(&format!("?key={SECRET}&a=b"))).collect();
    assert_eq!(is_own, [false, false, true, true, false, false]);
    assert_eq!(is_query, [false, false, false, false, true, true]);
    assert_eq!(server.received().matches(SECRET).count(), 3 + 2 + 2, "nowhere else");
}

#[tokio::test]
async fn placeholder_reaches_other_requests_as_it_is() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    network.answers("other.example.net", "1.1.1.1");
    network.serves("1.1.1.1", server.address);
    let pinion = Inserting::bearer(&network).await;
    let placeholder = format!("Bearer {}", pinion.placeholder());
    let mut program = pinion.program("api.example.com").await;
    for (method, path) in
        [("DELETE", "/v1/x"), ("GET", "/v2/x"), ("GET", "/v1/..%2fv2"), ("GET", "/v1/../v2"), ("GET", "/v10")]
    {
        let said = program.send(method, path, &[("authorization", &placeholder)], "").await;
        assert_eq!(said.0, 200, "{method} {path}");
    }
    assert_eq!(program.get("/v1/x", "Bearer pinion-credential-key-0123456789abcdef0123456789abcdef").await.0, 200);
    // Another host is not inspected: the program sees its certificate.
    let mut stream = pinion.proxy.sends(connect_to("other.example.net:443").as_bytes()).await;
    head(&mut stream).await;
    let other = Program::start(stream, "other.example.net", AUTHORITY, b"http/1.1").await;
    let fields = [("host", "other.example.net"), ("authorization", &placeholder)];
    assert_eq!(other.unwrap().send("GET", "/v1/x", &fields, "").await.0, 200);
    assert!(!server.received().contains(SECRET) && server.lines().len() == 7, "{:?}", server.lines());
    assert!(pinion.outcomes().iter().all(|(_, credential, _)| credential.is_none()));
    assert_eq!(pinion.values.0.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn request_without_a_placeholder_gets_no_credential() {
    let server = Server::https(|_| answer(401, &[("www-authenticate", "Basic")], "who are you?")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let mut program = pinion.program("api.example.com").await;
    let (status, fields, body) = program.send("GET", "/v1/x", &[("accept-encoding", "br, gzip")], "").await;
    assert!(status == 401 && fields.contains("www-authenticate") && body == "who are you?");
    assert_eq!(server.values("accept-encoding"), ["identity"]);
    assert_eq!(pinion.outcomes(), [("GET".to_owned(), None, ExchangeOutcome::Complete)]);
}

#[tokio::test]
async fn echoed_secret_comes_back_as_the_placeholder() {
    let server = Server::https(|request| {
        let sent = request.headers().get("authorization").map_or("", |value| value.to_str().unwrap());
        let token = sent.trim_start_matches("Bearer ");
        let text = format!("you sent {sent}, or {}", STANDARD.encode(token));
        let packed = || {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        match request.uri().path() {
            "/v1/gzip" => answer(200, &[("content-encoding", "gzip")], packed()),
            "/v1/br" => answer(200, &[("content-encoding", "br")], text),
            "/v1/head" => answer(200, &[("content-length", "7")], ""),
            _ => answer(200, &[("x-token", sent), ("location", &format!("/?token={token}")), (token, "x")], text),
        }
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let placeholder = pinion.placeholder();
    let mut program = pinion.program("api.example.com").await;
    for path in ["/v1/plain", "/v1/gzip"] {
        let (status, fields, body) = program.get(path, &format!("Bearer {placeholder}")).await;
        assert!(status == 200 && body.starts_with(&format!("you sent Bearer {placeholder}, or ")), "{body}");
        assert!(body.contains("[redacted]") && !body.contains(&SECRET[..8]), "{body}");
        assert!(!body.contains(&STANDARD.encode(SECRET)[..12]), "{body}");
        assert!(!fields.to_lowercase().contains(&SECRET.to_lowercase()) && !fields.contains("gzip"), "{fields}");
        let is_there = fields.contains(&format!("\"x-token\": \"Bearer {placeholder}\""));
        assert!(path != "/v1/plain" || (is_there && fields.contains(&format!("/?token={placeholder}"))), "{fields}");
    }
    let (status, _, body) = program.get("/v1/br", &format!("Bearer {placeholder}")).await;
    assert!(status == 502 && body.contains("an encoding in which credentials would not be recognized"), "{body}");
    // Later responses are read, too: the server may have kept the secret.
    let fields = [("authorization", SECRET)];
    let (_, fields, body) = program.send("GET", "/v1/plain", &fields, "").await;
    assert!(!fields.contains(SECRET) && body.contains(&placeholder), "{fields} {body}");
    let (_, fields, _) = program.send("HEAD", "/v1/head", &[], "").await;
    assert!(fields.contains("\"content-length\": \"7\""), "{fields}");
}

#[tokio::test]
async fn secret_split_over_packets_comes_back_as_the_placeholder() {
    let server = RawServer::start(|stream| async move {
        let Ok(mut stream) = acceptor().accept(stream).await else { return };
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let head = format!("HTTP/1.1 200 {SECRET}\r\nTransfer-Encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        for byte in format!("<{SECRET}{SECRET}>").bytes() {
            stream.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let _ = stream.shutdown().await;
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let placeholder = pinion.placeholder();
    let mut program = pinion.program("api.example.com").await;
    let (_, _, body) = program.get("/v1/x", &format!("Bearer {placeholder}")).await;
    assert_eq!(body, format!("<{placeholder}{placeholder}>"));
}

#[tokio::test]
async fn request_for_another_host_than_the_tunnels_is_refused() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let placeholder = format!("Bearer {}", pinion.placeholder());
    for (uri, hosts) in [
        ("/v1/x", &["other.example.net"][..]),
        ("/v1/x", &["api.example.com", "other.example.net"]),
        ("/v1/x", &["api.example.com", "api.example.com"]),
        ("/v1/x", &["api.example.com:80"]),
        ("/v1/x", &["me@api.example.com"]),
        ("/v1/x", &["api.example.com/"]),
        ("/v1/x", &[""]),
        ("https://other.example.net/v1/x", &["api.example.com"]),
        ("http://api.example.com/v1/x", &["api.example.com"]),
    ] {
        let mut program = pinion.program("api.example.com").await;
        let mut fields: Vec<(&str, &str)> = hosts.iter().map(|host| ("host", *host)).collect();
        fields.push(("authorization", &placeholder));
        let (status, _, body) = program.send("GET", uri, &fields, "").await;
        assert!(
            status == 400 && body.contains("another host than `https://api.example.com`"),
            "{uri} {hosts:?}: {body}"
        );
    }
    assert!(server.lines().is_empty() && network.addresses().is_empty());
    let mut program = pinion.program("api.example.com").await;
    for (uri, host) in [("/v1/x", "API.example.com:443"), ("https://api.example.com/v1/x", "api.example.com")] {
        assert_eq!(program.send("GET", uri, &[("host", host)], "").await.0, 200, "{uri} {host}");
    }
    assert_eq!(server.lines(), ["GET api.example.com/v1/x"; 2]);
}

#[tokio::test]
async fn certificate_is_for_the_host_of_the_tunnel_only() {
    let network = TestNetwork::with_api("127.0.0.1:1".parse().unwrap());
    let pinion = Inserting::bearer(&network).await;
    let mut stream = pinion.proxy.sends(connect_to("api.example.com:443").as_bytes()).await;
    head(&mut stream).await;
    let error = pinion.inside(stream, "x.api.example.com").await.err().unwrap();
    assert!(error.contains("not valid for name"), "{error}");
    // A program that trusts other authorities only.
    let mut stream = pinion.proxy.sends(connect_to("api.example.com:443").as_bytes()).await;
    head(&mut stream).await;
    let error = Program::start(stream, "api.example.com", AUTHORITY, b"http/1.1").await.err().unwrap();
    assert!(error.contains("UnknownIssuer"), "{error}");
    // A program that speaks HTTP/2 only.
    let mut stream = pinion.proxy.sends(connect_to("api.example.com:443").as_bytes()).await;
    head(&mut stream).await;
    let authority = pinion.credentials.authority();
    assert!(Program::start(stream, "api.example.com", authority.as_bytes(), b"h2").await.is_err());
    // A program that speaks no TLS.
    pinion.proxy.says(connect_to("api.example.com:443") + "GET /v1/x HTTP/1.1\r\n\r\n").await;
    let reasons: Vec<String> = pinion
        .outcomes()
        .into_iter()
        .map(|(method, _, outcome)| match outcome {
            ExchangeOutcome::Handshake(reason) if method == "TLS" => reason,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(reasons[0].contains("does not trust the certificate of the proxy for `https://api.example.com`"));
    assert!(reasons[1].contains("UnknownCA") && reasons[1].contains("`SSL_CERT_FILE`"), "{reasons:?}");
    assert!(reasons[2].contains("does not speak HTTP/1.1 to `https://api.example.com`"), "{reasons:?}");
    assert!(reasons[3].starts_with("no TLS connection of the program"), "{reasons:?}");
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn server_with_an_invalid_certificate_gets_no_request() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::new();
    network.answers("wrong.example", PUBLIC);
    network.serves(PUBLIC, server.address);
    let pinion = Inserting::start(&network, "key", Placement::Bearer, &["wrong.example"]).await;
    let mut program = pinion.program("wrong.example").await;
    let fields = [("host", "wrong.example"), ("authorization", &*format!("Bearer {}", pinion.placeholder()))];
    let (status, _, body) = program.send("GET", "/", &fields, "").await;
    assert!(status == 502 && body.contains("no TLS connection to `https://wrong.example`"), "{body}");
    assert!(server.lines().is_empty() && pinion.values.0.load(Ordering::SeqCst) == 0);
    assert!(matches!(&pinion.outcomes()[0], (_, None, ExchangeOutcome::Failed(why)) if why.contains("certificate")));
}

#[tokio::test]
async fn plain_http_carries_a_secret_to_this_machine_only() {
    let server = Server::http(|request| {
        let sent = request.headers()["authorization"].to_str().unwrap().to_owned();
        answer(200, &[("x-sent", &sent)], "")
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    network.serves("127.0.0.1", server.address);
    let rules = ["https://api.example.com", "http://localhost:3000"];
    let pinion = Inserting::start(&network, "key", Placement::Bearer, &rules).await;
    let placeholder = pinion.placeholder();
    for (origin, is_sent) in [("api.example.com", false), ("localhost:3000", true)] {
        let request = format!(
            "GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nAuthorization: Bearer {placeholder}\r\n\
             Connection: close\r\n\r\n"
        );
        let said = pinion.proxy.says(request).await;
        // Where the secret is sent, the response is masked; elsewhere the server repeats the request.
        assert!(said.contains(&format!("Bearer {placeholder}")) && !said.contains(SECRET), "{said}");
        assert_eq!(server.values("authorization").contains(&format!("Bearer {SECRET}")), is_sent, "{origin}");
    }
}

#[tokio::test]
async fn withdrawn_host_closes_its_inspected_tunnels() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let (mut first, mut second) = (pinion.program("api.example.com").await, pinion.program("api.example.com").await);
    assert_eq!(first.get("/v1/x", "x").await.0, 200);
    assert_eq!(first.get("/v1/y", "x").await.0, 200, "one connection serves several requests");
    pinion.proxy.hosts.send_replace(hosts(&["other.example.net"]));
    for program in [&mut first, &mut second] {
        let request = http::Request::builder().uri("/v1/z").header("host", "api.example.com");
        assert!(program.sender.send_request(request.body(Full::default()).unwrap()).await.is_err());
    }
    assert!(pinion.proxy.says(connect_to("api.example.com:443")).await.starts_with("HTTP/1.1 403"));
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn host_of_a_credential_needs_a_rule_and_an_admitted_address() {
    let network = TestNetwork::new();
    network.answers("api.example.com", "10.0.0.1");
    let pinion = Inserting::start(&network, "key", Placement::Bearer, &["api.example.com", "evil.example"]).await;
    let said = pinion.proxy.says(connect_to("evil.example:443")).await;
    assert!(said.starts_with("HTTP/1.1 403") && said.contains("hint: allow evil.example"), "{said}");
    let mut program = pinion.program("api.example.com").await;
    let (status, _, body) = program.get("/", &format!("Bearer {}", pinion.placeholder())).await;
    assert!(status == 403 && body.contains("10.0.0.1, a private address"), "{body}");
    assert!(network.addresses().is_empty() && pinion.values.0.load(Ordering::SeqCst) == 0);
}

#[tokio::test]
async fn requests_that_could_mislead_a_server_get_no_secret() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let placeholder = format!("Bearer {}", pinion.placeholder());
    let mut program = pinion.program("api.example.com").await;
    for (name, value, text) in [
        ("x-http-method-override", "DELETE", "names another method or path"),
        ("x_original_url", "/v2", "names another method or path"),
        ("upgrade", "websocket", "another protocol (websocket) than HTTP"),
    ] {
        let fields = [("authorization", &*placeholder), (name, value)];
        let (status, _, body) = program.send("GET", "/v1/x", &fields, "").await;
        assert!(status == 403 && body.contains(text), "{name}: {body}");
    }
    assert!(server.lines().is_empty());
    let outcomes = pinion.outcomes();
    assert!(
        outcomes
            .iter()
            .all(|(_, credential, outcome)| credential.is_none() && matches!(outcome, ExchangeOutcome::Denied(_)))
    );
}

#[tokio::test]
async fn credential_without_a_value_is_an_error_for_the_program() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::start(&network, "unset", Placement::Bearer, &["api.example.com"]).await;
    let mut program = pinion.program("api.example.com").await;
    let (status, _, body) = program.get("/", &format!("Bearer {}", pinion.placeholder())).await;
    assert_eq!((status, body.as_str()), (403, "pinion: the secret `unset` has no value\n"));
    assert!(server.lines().is_empty());
}

#[tokio::test]
async fn socks_tunnels_are_inspected_like_others() {
    let server = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let pinion = Inserting::bearer(&network).await;
    let mut stream = pinion.proxy.sends(&socks("api.example.com", 443)).await;
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).await.unwrap();
    let mut program = pinion.inside(stream, "api.example.com").await.unwrap();
    assert_eq!(program.get("/v1/x", &format!("Bearer {}", pinion.placeholder())).await.0, 200);
    assert_eq!(server.values("authorization"), [format!("Bearer {SECRET}")]);
}
