//! Attempts to learn a credential, or to send it elsewhere.

use crate::support::network::{PUBLIC, TestNetwork};
use crate::support::server::{Server, answer, redirect};
use crate::support::{Reports, SECRET, client, credentials, fetch, policy, read, with_key};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use pinion_egress::{Credentials, Placement, Redirects, Request, RequestAccess, SendError};
use pinion_redact::Secrets;
use secrecy::SecretString;
use std::sync::Arc;

const OTHER: &str = "1.1.1.1";

/// A network with `api.example.com` and `other.example.net`.
fn network(api: &Server, other: &Server) -> Arc<TestNetwork> {
    let network = TestNetwork::with_api(api.address);
    network.answers("other.example.net", OTHER);
    network.serves(OTHER, other.address);
    network
}

/// Returns whether a text contains no form of the secret.
fn is_clean(text: &str) -> bool {
    let secrets = Secrets::default();
    secrets.add(&SecretString::from(SECRET));
    !secrets.are_in(text.as_bytes())
}

fn header(name: &str) -> Placement {
    Placement::Header { name: name.to_owned(), prefix: String::new() }
}

fn query() -> Placement {
    Placement::Query { parameter: "key".to_owned() }
}

#[tokio::test]
async fn credential_reaches_its_host_in_its_place() {
    let api = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    let basic = Placement::Basic { user: "me".to_owned() };
    for placement in [Placement::Bearer, basic, header("x-api-key"), query()] {
        let keys = credentials(placement, &["GET https://api.example.com/v1"]);
        let request = with_key(Request::new("GET", "https://api.example.com/v1/x?a=b"));
        let response = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap();
        assert_eq!(response.url(), "https://api.example.com/v1/x?a=b");
    }
    let encoded = STANDARD.encode(format!("me:{SECRET}"));
    assert_eq!(api.values("authorization"), [format!("Bearer {SECRET}"), format!("Basic {encoded}")]);
    assert_eq!(api.values("x-api-key"), [SECRET]);
    assert_eq!(api.lines()[3], format!("GET api.example.com/v1/x?a=b&key={SECRET}"));
}

#[tokio::test]
async fn credential_is_sent_only_where_its_own_rules_allow() {
    let api = Server::https(|_| answer(200, &[], "ok")).await;
    let network = network(&api, &api);
    let everything = ["https://api.example.com", "https://other.example.net", "http://api.example.com"];
    let rules = policy(&everything);
    let keys = credentials(Placement::Bearer, &["GET https://api.example.com/v1"]);
    for (method, url) in [
        ("GET", "https://other.example.net/v1/"),
        ("GET", "https://api.example.com/v2/"),
        ("GET", "https://api.example.com/v1/..%2fv2"),
        ("GET", "http://api.example.com/v1/"),
        ("POST", "https://api.example.com/v1/"),
    ] {
        let error =
            client(&network).send(with_key(Request::new(method, url)), &RequestAccess::new(&rules, &keys)).await;
        let error = error.unwrap_err();
        assert!(matches!(error, SendError::Denied { request_sent: false, .. }), "{method} {url}");
        assert!(error.to_string().starts_with("the credential `key` must not be sent to"), "{error}");
    }
    // The rules of a credential grant nothing.
    let request = || with_key(Request::new("GET", "https://api.example.com/v1/"));
    let (nothing, none) = (policy(&[]), Credentials::default());
    let error = client(&network).send(request(), &RequestAccess::new(&nothing, &keys)).await.unwrap_err();
    assert!(error.to_string().starts_with("no network rule covers"), "{error}");
    let error = client(&network).send(request(), &RequestAccess::new(&rules, &none)).await.unwrap_err();
    assert_eq!(error.to_string(), "the credential `key` is not granted");
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn own_header_or_parameter_beside_a_credential_is_refused() {
    let api = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    for (placement, name, url) in [
        (Placement::Bearer, "Authorization", "https://api.example.com/"),
        (header("X-Api-Key"), "x-api-key", "https://api.example.com/"),
        (query(), "x-other", "https://api.example.com/?a=b&%6bey=mine"),
    ] {
        let keys = credentials(placement, &["api.example.com"]);
        let headers = vec![(name.to_owned(), b"mine".to_vec())];
        let request = with_key(Request { headers, ..Request::new("GET", url) });
        let error = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap_err();
        assert!(matches!(error, SendError::InvalidRequest(_)), "{error}");
    }
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn redirect_to_another_origin_takes_no_credential_along() {
    let other = Server::https(|request| match request.uri().path() {
        "/back" => redirect(307, "https://api.example.com/end"),
        _ => answer(200, &[], "other"),
    })
    .await;
    let api = Server::https(|request| match request.uri().path() {
        "/end" => answer(200, &[], "end"),
        path => redirect(307, &format!("https://other.example.net{path}")),
    })
    .await;
    let network = network(&api, &other);
    let rules = policy(&["api.example.com", "other.example.net"]);
    let own =
        [("authorization", "Bearer own"), ("cookie", "a=b"), ("x-private-token", "own"), ("accept", "text/plain")];
    for (placement, path) in [(header("x-key"), "/to"), (query(), "/to"), (header("x-key"), "/back")] {
        let keys = credentials(placement, &["api.example.com", "other.example.net"]);
        let headers = own.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into();
        let request = with_key(Request { headers, ..Request::new("GET", format!("https://api.example.com{path}")) });
        read(&client(&network), request, &RequestAccess::new(&rules, &keys)).await.unwrap();
    }
    let received = other.received();
    for secret in [SECRET, "own", "a=b"] {
        assert!(!received.contains(secret), "{received}");
    }
    assert_eq!(other.values("accept"), ["text/plain"; 3]);
    // Not even on the way back.
    assert_eq!(api.lines().last().unwrap(), "GET api.example.com/end");
    assert_eq!(api.values("x-key").len(), 2);
}

#[tokio::test]
async fn redirect_within_the_origin_keeps_a_credential_of_the_path() {
    let api = Server::https(|request| match request.uri().path() {
        "/v1/a" => redirect(302, &format!("/v1/b?{}&x=1", request.uri().query().unwrap_or_default())),
        "/v1/out" => redirect(302, "/v2"),
        _ => answer(200, &[], "ok"),
    })
    .await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    let keys = credentials(query(), &["https://api.example.com/v1"]);
    for path in ["a", "out"] {
        let request = with_key(Request::new("GET", format!("https://api.example.com/v1/{path}")));
        let response = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap();
        assert!(!response.url().contains(SECRET), "{}", response.url());
    }
    let lines = api.lines();
    assert_eq!(lines[1], format!("GET api.example.com/v1/b?x=1&key={SECRET}"));
    assert_eq!(lines[3], "GET api.example.com/v2");
}

#[tokio::test]
async fn redirect_that_carries_the_secret_elsewhere_is_refused() {
    let other = Server::https(|_| answer(200, &[], "other")).await;
    let api = Server::https(|request| {
        let query = request.uri().query().unwrap_or_default();
        let key = query.rsplit('=').next().unwrap_or_default();
        let encoded = URL_SAFE_NO_PAD.encode(key);
        match request.uri().path() {
            "/plain" => redirect(302, &format!("https://other.example.net/?{query}")),
            "/base64" => redirect(302, &format!("https://other.example.net/{encoded}")),
            "/host" => redirect(302, &format!("https://{key}.example.net/")),
            _ => redirect(302, &format!("http://api.example.com/?{query}")),
        }
    })
    .await;
    let network = network(&api, &other);
    let rules = policy(&["api.example.com", "other.example.net", "http://api.example.com"]);
    let keys = credentials(query(), &["api.example.com"]);
    for path in ["plain", "base64", "host", "downgrade"] {
        let request = with_key(Request::new("GET", format!("https://api.example.com/{path}")));
        let error = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap_err();
        assert!(error.to_string().ends_with("contains a credential") && error.request_sent(), "{error}");
        assert!(is_clean(&format!("{error:?}")), "{error:?}");
    }
    assert!(other.lines().is_empty());
}

#[tokio::test]
async fn echoed_secret_is_redacted_everywhere() {
    let hex = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let echoes = [
        SECRET.to_owned(),
        SECRET.to_lowercase(),
        SECRET.chars().rev().collect(),
        STANDARD.encode(SECRET),
        STANDARD.encode(format!("user:{SECRET}")),
        URL_SAFE_NO_PAD.encode(format!("x{SECRET}")),
        hex.clone(),
        hex.to_uppercase(),
    ];
    let bodies = echoes.clone();
    let api = Server::https(move |request| {
        let which: usize = request.uri().query().unwrap_or("0").parse().unwrap_or_default();
        let echo = &bodies[which];
        answer(200, &[("x-echo", echo), ("set-cookie", &format!("key={echo}"))], format!("a {echo} b"))
    })
    .await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    let keys = credentials(Placement::Bearer, &["api.example.com"]);
    for (which, echo) in echoes.iter().enumerate() {
        // Also without the credential: the server may have kept it.
        for credential in [Some("key".to_owned()), None] {
            let request = Request::new("GET", format!("https://api.example.com/?{which}"));
            let request = Request { credential, ..request };
            let response = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap();
            let headers: String = response.headers().map(|(_, value)| String::from_utf8_lossy(value)).collect();
            let body = String::from_utf8(response.collect(1000).await.unwrap()).unwrap();
            assert!(body.starts_with("a ") && body.ends_with(" b") && body.contains("[redacted]"), "{body}");
            for text in [&body, &headers] {
                assert!(is_clean(text) && !text.contains(echo.as_str()), "{text}");
            }
        }
    }
}

/// Requests of a plugin to the server of the credential and to the plugin's own server, which both repeat the request.
#[tokio::test]
async fn answers_do_not_tell_whether_a_guess_is_right() {
    let echo = || {
        Server::https(|request| {
            let guess = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            answer(200, &[("x-echo", &guess), (&format!("x-{guess}"), "1")], guess.clone() + "\nand " + &guess)
        })
    };
    let (api, own) = (echo().await, echo().await);
    let network = network(&api, &own);
    let rules = policy(&["api.example.com", "other.example.net"]);
    let keys = credentials(Placement::Bearer, &["api.example.com"]);
    let access = RequestAccess::new(&rules, &keys);
    let client = client(&network);
    let (mut parts, whole) = (vec![SECRET[1..].to_owned()], SECRET.to_owned());
    parts.extend((1..SECRET.len()).map(|length| SECRET[..length].to_owned()));
    // A server that the credential is not for may be the plugin's own: not even a whole guess is compared.
    let at_own = parts.iter().chain([&whole]).map(|guess| ("other.example.net", guess));
    for (host, guess) in at_own.chain(parts.iter().map(|guess| ("api.example.com", guess))) {
        let request = Request::new("GET", format!("https://{host}/v1/{guess}"));
        let request = if host == "api.example.com" { with_key(request) } else { request };
        let mut response = client.send(request, &access).await.unwrap();
        assert_eq!(response.header("x-echo"), Some(guess.as_bytes()), "{host}");
        assert_eq!(response.header(&format!("x-{}", guess.to_lowercase())), Some(b"1".as_slice()), "{host}");
        assert!(response.url().ends_with(guess.as_str()));
        let mut chunks = Vec::new();
        while let Some(chunk) = response.chunk().await.unwrap() {
            chunks.push(String::from_utf8(chunk.to_vec()).unwrap());
        }
        // The sizes of chunks do not depend on the guess, either.
        let expected = [format!("{guess}\n"), format!("and {guess}")];
        match host {
            "api.example.com" => assert_eq!(chunks, expected),
            _ => assert_eq!(chunks.concat(), expected.concat()),
        }
    }
}

#[tokio::test]
async fn secret_in_other_encodings_of_the_body_is_refused() {
    let api = Server::https(|request| {
        let encoding = request.uri().query().unwrap_or_default();
        answer(200, &[("content-encoding", encoding)], "opaque")
    })
    .await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    let (keys, none) = (credentials(Placement::Bearer, &["api.example.com"]), Credentials::default());
    for encoding in ["br", "deflate", "zstd", "gzip,gzip", "br,gzip"] {
        let request = || Request::new("GET", format!("https://api.example.com/?{encoding}"));
        let error = read(&client(&network), with_key(request()), &RequestAccess::new(&rules, &keys)).await.unwrap_err();
        assert!(error.to_string().contains("credentials would not be recognized"), "{error}");
        assert_eq!(
            read(&client(&network), request(), &RequestAccess::new(&rules, &none)).await,
            Ok("opaque".to_owned())
        );
    }
}

#[tokio::test]
async fn returned_redirect_is_redacted() {
    let api = Server::https(|request| redirect(302, &format!("/next{}", request.uri()))).await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["api.example.com"]);
    let keys = credentials(query(), &["api.example.com"]);
    let request = Request { redirects: Redirects::Return, ..with_key(Request::new("GET", "https://api.example.com/")) };
    let response = client(&network).send(request, &RequestAccess::new(&rules, &keys)).await.unwrap();
    assert_eq!(response.header("location"), Some(b"/next/?key=[redacted]".as_slice()));
}

#[tokio::test]
async fn errors_reports_and_debug_output_contain_no_secret() {
    let api = Server::https(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(api.address);
    let rules = policy(&["GET https://api.example.com/v1"]);
    let keys = credentials(query(), &["api.example.com"]);
    let reports = Arc::new(Reports::default());
    let access = RequestAccess { observer: Some(reports.clone()), ..RequestAccess::new(&rules, &keys) };
    let own = "own-secret-1234";
    let mut texts = String::new();
    for url in [
        format!("https://api.example.com/v2?own={own}"),
        format!("https://me:{own}@api.example.com/v1"),
        format!("https://api.example.com:0/{own}"),
        format!("https://other.example.net/{own}"),
        format!("https://api.example.com/v1/{own}"),
    ] {
        let request = with_key(Request { headers: vec![("x-own".into(), own.into())], ..Request::new("GET", url) });
        texts += &format!("{request:?}");
        match client(&network).send(request, &access).await {
            Ok(response) => texts += &format!("{response:?}"),
            Err(error) => texts += &format!("{error} {error:?}"),
        }
    }
    texts += &format!("{:?} {keys:?}", reports.0.lock().unwrap());
    assert!(!texts.contains(SECRET) && !texts.contains(own), "{texts}");
    assert!(texts.contains("api.example.com") && texts.contains("credential: Some(\"key\")"));
}

#[tokio::test]
async fn credential_for_this_machine_is_sent_without_tls() {
    let server = Server::http(|_| answer(200, &[], "local")).await;
    let network = TestNetwork::with_api(server.address);
    network.serves("127.0.0.1", server.address);
    let rules = policy(&["http://localhost:3000", "http://api.example.com"]);
    let keys = credentials(Placement::Bearer, &["http://localhost:3000"]);
    let request = with_key(Request::new("GET", "http://localhost:3000/"));
    assert_eq!(read(&client(&network), request, &RequestAccess::new(&rules, &keys)).await, Ok("local".to_owned()));
    assert_eq!(server.values("authorization").len(), 1);
    // A name that only resolves to this machine does not count as one of its names.
    network.answers("mine.example", "127.0.0.1");
    let error = fetch(&network, &["http://mine.example"], Request::new("GET", "http://mine.example/")).await;
    assert!(matches!(error, Err(SendError::Denied { .. })));
    assert_eq!(network.addresses(), ["127.0.0.1"]);
    assert_ne!(PUBLIC, "127.0.0.1");
}
