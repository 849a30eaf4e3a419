//! Requests that are allowed, redirects, and reports.

use crate::support::network::TestNetwork;
use crate::support::server::{Server, answer, redirect};
use crate::support::{Reports, client, fetch, policy, read};
use flate2::Compression;
use flate2::write::GzEncoder;
use pinion_egress::{Credentials, ExchangeOutcome, Redirects, Request, RequestAccess, SendError};
use std::io::Write as _;
use std::sync::Arc;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn request_reaches_the_server_as_written() {
    let server = Server::https(|request| answer(201, &[("x-a", "b")], request.body().clone())).await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(&["POST https://api.example.com/v1"]), Credentials::default());
    let request = Request {
        headers: vec![("x-one".to_owned(), b"1".to_vec()), ("accept-encoding".to_owned(), b"br".to_vec())],
        body: "hello".into(),
        ..Request::new("POST", "https://api.example.com/v1/x/../y?q=a%20b#fragment")
    };
    let response = client(&network).send(request, &RequestAccess::new(&rules, &none)).await.unwrap();
    assert_eq!((response.status(), response.header("x-a")), (201, Some(b"b".as_slice())));
    assert_eq!(response.url(), "https://api.example.com/v1/y?q=a%20b");
    assert_eq!(response.collect(100).await.unwrap(), b"hello");
    assert_eq!(server.lines(), ["POST api.example.com/v1/y?q=a%20b"]);
    assert_eq!(server.values("x-one"), ["1"]);
    assert_eq!(server.values("accept-encoding"), ["gzip"]);
    assert_eq!(server.values("referer"), [""; 0]);
}

#[tokio::test]
async fn this_machine_is_reached_only_by_its_names() {
    let server = Server::http(|_| answer(200, &[], "local")).await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address);
    let rules = ["http://localhost:3000", "http://127.0.0.1:8080", "http://app.localhost"];
    for url in ["http://localhost:3000/", "http://127.0.0.1:8080/", "http://app.localhost/", "http://0x7f.1:8080/"] {
        assert_eq!(fetch(&network, &rules, Request::new("GET", url)).await, Ok("local".to_owned()), "{url}");
    }
    assert!(network.resolved.lock().unwrap().is_empty());
}

#[tokio::test]
async fn private_rule_reaches_private_addresses() {
    let server = Server::http(|_| answer(200, &[], "wiki")).await;
    let network = TestNetwork::new();
    network.answers("wiki.corp.example", "10.1.2.3");
    network.serves("10.1.2.3", server.address);
    let get = || Request::new("GET", "http://wiki.corp.example/");
    assert_eq!(fetch(&network, &["private http://wiki.corp.example"], get()).await, Ok("wiki".to_owned()));
    let refused = fetch(&network, &["http://wiki.corp.example"], get()).await.unwrap_err();
    assert!(matches!(refused, SendError::Denied { request_sent: false, .. }), "{refused}");
}

#[tokio::test]
async fn next_address_is_tried_when_one_fails() {
    let server = Server::http(|_| answer(200, &[], "second")).await;
    let network = TestNetwork::new();
    network.answers("api.example.com", "2606:4700::1 1.1.1.1");
    network.serves("1.1.1.1", server.address);
    let body = fetch(&network, &["http://api.example.com"], Request::new("GET", "http://api.example.com/")).await;
    assert_eq!(body, Ok("second".to_owned()));
    assert_eq!(network.addresses(), ["2606:4700::1", "1.1.1.1"]);
}

#[tokio::test]
async fn redirects_are_followed_returned_or_counted() {
    let server = Server::http(|request| match request.uri().path() {
        "/end" => answer(200, &[], request.method().to_string()),
        "/see" => redirect(303, "/end"),
        _ => redirect(302, "/loop"),
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let rules = ["http://api.example.com"];
    let request = |method: &str, path: &str, redirects| Request {
        redirects,
        ..Request::new(method, format!("http://api.example.com{path}"))
    };
    let fetched = |request| fetch(&network, &rules, request);
    assert_eq!(fetched(request("POST", "/see", Redirects::Follow)).await, Ok("GET".to_owned()));
    assert_eq!(fetched(request("GET", "/see", Redirects::AtMost(1))).await, Ok("GET".to_owned()));
    for (redirects, limit) in [(Redirects::Follow, 10), (Redirects::AtMost(200), 10), (Redirects::AtMost(0), 0)] {
        let error = fetched(request("GET", "/loop", redirects)).await.unwrap_err();
        let message = format!("`http://api.example.com` redirects more than {limit} times");
        assert_eq!(error, SendError::Failed { message, request_sent: true });
    }
    let (rules, none) = (policy(&rules), Credentials::default());
    let returned =
        client(&network).send(request("GET", "/loop", Redirects::Return), &RequestAccess::new(&rules, &none)).await;
    let returned = returned.unwrap();
    assert_eq!((returned.status(), returned.header("location")), (302, Some(b"/loop".as_slice())));
}

#[tokio::test]
async fn compressed_body_is_decoded() {
    let text = "pinion ".repeat(50_000);
    let body = gzip(text.as_bytes());
    let server = Server::http(move |request| match request.uri().path() {
        "/cut" => answer(200, &[("content-encoding", "gzip")], body[..body.len() / 2].to_vec()),
        "/empty" => answer(200, &[("content-encoding", "gzip")], ""),
        "/other" => answer(200, &[("content-encoding", "br")], "not decoded"),
        _ => answer(200, &[("content-encoding", "gzip")], body.clone()),
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(&["http://api.example.com"]), Credentials::default());
    let (client, access) = (client(&network), RequestAccess::new(&rules, &none));
    let get = |path: &str| Request::new("GET", format!("http://api.example.com{path}"));
    let mut response = client.send(get("/"), &access).await.unwrap();
    assert_eq!((response.header("content-encoding"), response.header("content-length")), (None, None));
    let mut length = 0;
    while let Some(chunk) = response.chunk().await.unwrap() {
        assert!(!chunk.is_empty() && chunk.len() <= 64 << 10);
        length += chunk.len();
    }
    assert_eq!(length, text.len());
    assert_eq!(read(&client, get("/empty"), &access).await, Ok(String::new()));
    assert_eq!(read(&client, get("/other"), &access).await, Ok("not decoded".to_owned()));
    let error = read(&client, get("/cut"), &access).await.unwrap_err();
    assert_eq!(error.to_string(), "the response of `http://api.example.com` is not valid gzip");
}

#[tokio::test]
async fn observer_gets_each_exchange_once() {
    let server = Server::http(|request| match request.uri().path() {
        "/to" => redirect(307, "http://other.example.net/secret"),
        _ => answer(200, &[], vec![b'x'; 1000]),
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(&["http://api.example.com"]), Credentials::default());
    let reports = Arc::new(Reports::default());
    let access = RequestAccess { observer: Some(reports.clone()), ..RequestAccess::new(&rules, &none) };
    let client = client(&network);
    let sent = |path: &str| Request::new("POST", format!("http://api.example.com:80{path}"));
    read(&client, sent("/"), &access).await.unwrap();
    drop(client.send(sent("/"), &access).await.unwrap());
    client.send(sent("/to"), &access).await.unwrap_err();
    let reports = std::mem::take(&mut *reports.0.lock().unwrap());
    let statuses: Vec<_> = reports.iter().map(|report| (report.status, report.host.as_str())).collect();
    let api = "api.example.com";
    assert_eq!(statuses, [(Some(200), api), (Some(200), api), (Some(307), api), (None, "other.example.net")]);
    assert_eq!(
        (&reports[0].outcome, &reports[1].outcome, &reports[2].outcome),
        (&ExchangeOutcome::Complete, &ExchangeOutcome::Dropped, &ExchangeOutcome::Dropped)
    );
    let denied = "no network rule covers `POST http://other.example.net`";
    assert_eq!(reports[3].outcome, ExchangeOutcome::Denied(denied.to_owned()));
    assert!(reports[0].bytes_sent > 100 && reports[0].bytes_received > 1000 && reports[0].port == 80);
    assert_eq!((reports[3].bytes_sent, reports[3].address), (0, None));
}
