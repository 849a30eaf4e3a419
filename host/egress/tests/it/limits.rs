//! Limits on sizes.

use crate::support::network::TestNetwork;
use crate::support::server::{RawServer, Server, answer};
use crate::support::{client, policy, read};
use flate2::Compression;
use flate2::write::GzEncoder;
use pinion_egress::{Credentials, Limit, Request, RequestAccess, RequestLimits, SendError};
use std::io::Write as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn get(path: &str) -> Request {
    Request::new("GET", format!("http://api.example.com{path}"))
}

async fn limited(
    network: &std::sync::Arc<TestNetwork>,
    request: Request,
    limits: RequestLimits,
) -> Result<String, SendError> {
    let (rules, none) = (policy(&["http://api.example.com"]), Credentials::default());
    read(&client(network), request, &RequestAccess { limits, ..RequestAccess::new(&rules, &none) }).await
}

#[tokio::test]
async fn bodies_end_at_their_limits() {
    let server = Server::http(|_| answer(200, &[], vec![b'x'; 1000])).await;
    let network = TestNetwork::with_api(server.address);
    let limits = RequestLimits { request_body: 10, response_body: 1000, ..RequestLimits::default() };
    assert_eq!(limited(&network, get("/"), limits).await.unwrap().len(), 1000);
    let error = limited(&network, get("/"), RequestLimits { response_body: 999, ..limits }).await.unwrap_err();
    assert_eq!(error, SendError::TooLarge { limit: Limit::ResponseBody(999), request_sent: true });
    assert_eq!(error.to_string(), "the body of the response exceeds 999 bytes");
    let error = limited(&network, Request { body: vec![0; 11].into(), ..get("/") }, limits).await.unwrap_err();
    assert_eq!(error, SendError::TooLarge { limit: Limit::RequestBody(10), request_sent: false });
}

#[tokio::test]
async fn caller_can_collect_less() {
    let server = Server::http(|_| answer(200, &[], vec![b'x'; 1000])).await;
    let network = TestNetwork::with_api(server.address);
    let (rules, none) = (policy(&["http://api.example.com"]), Credentials::default());
    let response = client(&network).send(get("/"), &RequestAccess::new(&rules, &none)).await.unwrap();
    let error = response.collect(10).await.unwrap_err();
    assert_eq!(error, SendError::TooLarge { limit: Limit::ResponseBody(10), request_sent: true });
}

#[tokio::test]
async fn decompression_bomb_ends_at_the_limit() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    (0..64).for_each(|_| encoder.write_all(&vec![0; 1 << 20]).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100_000);
    // Endless empty members decode to nothing; their transferred bytes count.
    let empty = GzEncoder::new(Vec::new(), Compression::fast()).finish().unwrap().repeat(10_000);
    let server = Server::http(move |request| {
        let body = if request.uri().path() == "/bomb" { bomb.clone() } else { empty.clone() };
        answer(200, &[("content-encoding", "gzip")], body)
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let limits = RequestLimits { response_body: 100_000, ..RequestLimits::default() };
    for path in ["/bomb", "/empty"] {
        let error = limited(&network, get(path), limits).await.unwrap_err();
        assert_eq!(error, SendError::TooLarge { limit: Limit::ResponseBody(100_000), request_sent: true }, "{path}");
    }
}

#[tokio::test]
async fn endless_body_ends_at_the_limit() {
    let server = RawServer::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 1000]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 10_000]).await.is_ok() {}
    })
    .await;
    let network = TestNetwork::with_api(server.address);
    let error = limited(&network, get("/"), RequestLimits { response_body: 1 << 20, ..RequestLimits::default() })
        .await
        .unwrap_err();
    assert_eq!(error, SendError::TooLarge { limit: Limit::ResponseBody(1 << 20), request_sent: true });
}

#[tokio::test]
async fn response_header_ends_at_its_limit() {
    for (count, length, limit, is_allowed) in [
        (90, 10, 8 << 10, true),
        (101, 1, 64 << 10, false),
        (2, 5_000, 8 << 10, false),
        (1, 200_000, 64 << 10, false),
        // The buffer of the HTTP library has room for more.
        (1, 5_000, 1_000, false),
    ] {
        let field = |n: usize| format!("x-{n}: {}\r\n", "y".repeat(length));
        let head: String = (0..count).map(field).collect();
        let head = format!("HTTP/1.1 200 OK\r\n{head}content-length: 2\r\n\r\nok");
        let server = RawServer::start(move |mut stream| {
            let head = head.clone();
            async move {
                let _ = stream.read(&mut [0; 1000]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                // Keeps the connection until the client has decided.
                let _ = stream.read(&mut [0; 1000]).await;
            }
        })
        .await;
        let network = TestNetwork::with_api(server.address);
        let done = limited(&network, get("/"), RequestLimits { headers: limit, ..RequestLimits::default() }).await;
        let too_large = SendError::TooLarge { limit: Limit::ResponseHeaders(limit), request_sent: true };
        assert_eq!(done, if is_allowed { Ok("ok".to_owned()) } else { Err(too_large) }, "{count} of {length}");
    }
}

#[tokio::test]
async fn response_with_two_readings_is_refused() {
    for head in [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let server = RawServer::start(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.read(&mut [0; 1000]).await;
        })
        .await;
        let error =
            limited(&TestNetwork::with_api(server.address), get("/"), RequestLimits::default()).await.unwrap_err();
        assert!(matches!(error, SendError::Failed { request_sent: true, .. }), "{head}: {error}");
    }
}
