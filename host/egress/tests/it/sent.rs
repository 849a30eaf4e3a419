//! Failures say whether the request may have reached the server, and time ends them all.

use crate::support::network::{PUBLIC, TestNetwork};
use crate::support::server::{RawServer, Server, redirect};
use crate::support::{client, policy, read};
use pinion_egress::{
    ClientSettings, Connecting, Credentials, Network, Request, RequestAccess, RequestLimits, Resolving, SendError,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

const RULES: &[&str] = &["http://api.example.com", "https://api.example.com"];

async fn post(network: &Arc<TestNetwork>, scheme: &str) -> SendError {
    let (rules, none) = (policy(RULES), Credentials::default());
    let request = Request { body: "body".into(), ..Request::new("POST", format!("{scheme}://api.example.com/")) };
    read(&client(network), request, &RequestAccess::new(&rules, &none)).await.unwrap_err()
}

#[tokio::test]
async fn failure_before_the_connection_sends_nothing() {
    let unknown = TestNetwork::new();
    let closed = TestNetwork::new();
    closed.answers("api.example.com", PUBLIC);
    let empty = TestNetwork::new();
    empty.answers("api.example.com", "");
    for (network, message) in [
        (unknown, "could not find an address of `api.example.com`: no such host"),
        (closed, "could not connect to `http://api.example.com`: connection refused"),
        (empty, "`api.example.com` has no address"),
    ] {
        assert_eq!(
            post(&network, "http").await,
            SendError::Failed { message: message.to_owned(), request_sent: false }
        );
    }
}

#[tokio::test]
async fn failed_handshake_sends_nothing() {
    // The server closes in the handshake, or does not speak TLS.
    let closing = RawServer::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 10]).await;
    })
    .await;
    let plain = RawServer::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 1000]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1000]).await;
    })
    .await;
    for address in [closing.address, plain.address] {
        let error = post(&TestNetwork::with_api(address), "https").await;
        assert!(error.to_string().starts_with("no TLS connection to `https://api.example.com`"), "{error}");
        assert!(!error.request_sent());
    }
}

#[tokio::test]
async fn server_that_closes_after_the_first_byte_may_have_the_request() {
    for length in [1, 1000] {
        let server = RawServer::start(move |mut stream| async move {
            let _ = stream.read(&mut vec![0; length]).await;
        })
        .await;
        let error = post(&TestNetwork::with_api(server.address), "http").await;
        assert!(matches!(error, SendError::Failed { request_sent: true, .. }), "{error}");
    }
}

#[tokio::test]
async fn response_that_breaks_off_is_an_error() {
    for response in [
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfive\r\n",
    ] {
        let server = RawServer::start(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(response.as_bytes()).await;
        })
        .await;
        let error = post(&TestNetwork::with_api(server.address), "http").await;
        assert!(matches!(error, SendError::Failed { request_sent: true, .. }), "{response}: {error}");
    }
}

#[tokio::test]
async fn failure_of_a_redirect_was_sent() {
    let server = Server::http(|_| redirect(307, "https://api.example.com/")).await;
    // The second request fails in its handshake, but the first one arrived.
    let error = post(&TestNetwork::with_api(server.address), "http").await;
    assert!(error.to_string().starts_with("no TLS connection") && error.request_sent(), "{error}");
    assert_eq!(server.lines(), ["POST api.example.com/"]);
}

/// Resolves and connects never, or only connects never.
struct Stuck {
    resolves: bool,
}

impl Network for Stuck {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        match self.resolves {
            true => Box::pin(async { Ok(vec![PUBLIC.parse().unwrap(), "1.1.1.1".parse().unwrap()]) }),
            false => Box::pin(std::future::pending()),
        }
    }

    fn connect(&self, _: SocketAddr) -> Connecting<'_> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn time_to_connect_is_limited() {
    for resolves in [false, true] {
        let settings = ClientSettings { network: Arc::new(Stuck { resolves }), ..ClientSettings::default() };
        let (client, rules, none) =
            (pinion_egress::Client::new(settings).unwrap(), policy(RULES), Credentials::default());
        let mut access = RequestAccess::new(&rules, &none);
        let get = || Request::new("GET", "http://api.example.com/");
        let connect = Duration::from_secs(10);
        let error = client.send(get(), &access).await.unwrap_err();
        assert_eq!(error, SendError::TimedOut { after: connect, request_sent: false });
        access.limits = RequestLimits { total: Duration::from_secs(3), ..RequestLimits::default() };
        let error = client.send(get(), &access).await.unwrap_err();
        assert_eq!(error.to_string(), "no complete response within 3 s");
        access.limits = RequestLimits { total: Duration::MAX, connect: Duration::MAX, ..RequestLimits::default() };
        access.cancel.cancel();
        assert_eq!(client.send(get(), &access).await.unwrap_err(), SendError::Cancelled { request_sent: false });
    }
}

#[tokio::test]
async fn silent_server_ends_with_the_time_limit() {
    // The first answers nothing, the second stops within its body.
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive"] {
        let server = RawServer::start(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(response.as_bytes()).await;
            let _ = stream.read(&mut [0; 1000]).await;
        })
        .await;
        let network = TestNetwork::with_api(server.address);
        let (rules, none) = (policy(RULES), Credentials::default());
        let total = Duration::from_millis(200);
        let access = RequestAccess {
            limits: RequestLimits { total, ..RequestLimits::default() },
            ..RequestAccess::new(&rules, &none)
        };
        let error = read(&client(&network), Request::new("GET", "http://api.example.com/"), &access).await.unwrap_err();
        assert_eq!(error, SendError::TimedOut { after: total, request_sent: true });
    }
}

#[tokio::test]
async fn cancelled_request_closes_its_connection() {
    let cancel = CancellationToken::new();
    let (arrived, closed) = (cancel.clone(), Arc::new(tokio::sync::Notify::new()));
    let on_close = closed.clone();
    let server = RawServer::start(move |mut stream| {
        let (arrived, on_close) = (arrived.clone(), on_close.clone());
        async move {
            let _ = stream.read(&mut [0; 1000]).await;
            arrived.cancel();
            while stream.read(&mut [0; 1000]).await.is_ok_and(|length| length > 0) {}
            on_close.notify_one();
        }
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(RULES), Credentials::default());
    let access = RequestAccess { cancel, ..RequestAccess::new(&rules, &none) };
    let error = read(&client(&network), Request::new("GET", "http://api.example.com/"), &access).await.unwrap_err();
    assert_eq!(error, SendError::Cancelled { request_sent: true });
    closed.notified().await;
}

#[tokio::test]
async fn dropped_response_closes_its_connection() {
    let closed = Arc::new(tokio::sync::Notify::new());
    let on_close = closed.clone();
    let server = RawServer::start(move |mut stream| {
        let on_close = on_close.clone();
        async move {
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive").await;
            while stream.read(&mut [0; 1000]).await.is_ok_and(|length| length > 0) {}
            on_close.notify_one();
        }
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(RULES), Credentials::default());
    let mut response = client(&network)
        .send(Request::new("GET", "http://api.example.com/"), &RequestAccess::new(&rules, &none))
        .await
        .unwrap();
    assert_eq!(response.chunk().await.unwrap().as_deref(), Some(b"five".as_slice()));
    drop(response);
    closed.notified().await;
}
