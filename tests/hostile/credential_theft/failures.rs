//! Failures of requests with a secret in the URL or in a field: their messages name the server, and nothing that was sent.

use super::*;
use pinion_tests::{HttpServer, PUBLIC, answer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The secret in the query, where a message that shows the URL would show it, and in a field.
const SECRETS: [&str; 2] = ["query", "bearer"];

/// Answers of a server that break HTTP, with `SECRET` in the part that a message could repeat.
const BROKEN: [&str; 14] = [
    "",
    "SECRET",
    "HTTP/1.1 SECRET OK\r\n\r\n",
    "SECRET/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx SECRET: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nSECRET\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx: \0SECRET\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: SECRET\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nSECRET",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: SECRET\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nSECRET\r\n",
    "HTTP/1.1 200 OK\r\ncontent-encoding: SECRET\r\ncontent-length: 1\r\n\r\nx",
    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 24\r\n\r\nSECRET",
    "HTTP/1.1 101 SECRET\r\nupgrade: SECRET\r\nconnection: upgrade\r\n\r\n",
];

/// Asserts that each of these requests failed, and that its message names this server at most.
fn assert_failed(outcomes: &[Value], server: &str) {
    for outcome in outcomes {
        let text = error(outcome);
        assert!(!text.contains("/v1") && !text.contains("key") && !text.contains("zzz"), "{text}");
        let urls: Vec<&str> = text.match_indices("://").map(|(at, _)| &text[at + 3..]).collect();
        assert!(urls.iter().all(|url| url.starts_with(server)), "{text}");
    }
}

fn requests(client: Client, url: &str) -> Vec<Value> {
    SECRETS.iter().map(|secret| with(client, secret, &format!("{url}?zzz=1"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_response_shows_nothing_of_the_secret() {
    let server = HttpServer::raw(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap_or(b'\n'));
        }
        let head = String::from_utf8(head).unwrap();
        let at: usize = head.split(['/', '?', ' ']).nth(3).unwrap().parse().unwrap();
        let _ = stream.write_all(BROKEN[at].replace("SECRET", SECRET).as_bytes()).await;
    })
    .await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address());
    let sandbox = builder(&network, Vault::of_all_placements(), &["http://localhost:3000"]).build().await;
    for client in CLIENTS {
        let urls = (0..BROKEN.len()).map(|at| format!("http://localhost:3000/v1/{at}"));
        let requests: Vec<Value> = urls.flat_map(|url| requests(client, &url)).collect();
        let (outcomes, ledger) = attempts(&sandbox, client, &requests).await;
        assert_failed(&outcomes, "localhost:3000`");
        assert_eq!(ledger.requests, requests.len() as u64);
    }
    assert_eq!(server.connections(), 2 * SECRETS.len() * BROKEN.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_not_reached_gets_and_shows_nothing_of_the_secret() {
    let server = HttpServer::https(|_| answer(200, &[], "reached")).await;
    let network = TestNetwork::new();
    let hosts = [
        "https://closed.example.com",
        "https://unknown.example.com",
        "https://wrong.example.com",
        "https://inner.example.com",
    ];
    network.answers("closed.example.com", "1.1.1.1");
    network.answers("wrong.example.com", PUBLIC);
    network.answers("inner.example.com", "10.0.0.5");
    network.serves(PUBLIC, server.address());
    network.serves("10.0.0.5", server.address());
    let vault = Vault::default().with("query", query(), &hosts).with("bearer", bearer(), &hosts);
    let sandbox = builder(&network, vault, &hosts).build().await;
    for client in CLIENTS {
        for (host, said) in [
            ("closed.example.com", "could not connect to `https://closed.example.com`"),
            ("unknown.example.com", "could not find an address of `unknown.example.com`"),
            ("wrong.example.com", "no TLS connection to `https://wrong.example.com`"),
            ("inner.example.com", "`inner.example.com` is at 10.0.0.5"),
        ] {
            let requests = requests(client, &format!("https://{host}/v1/x"));
            let (outcomes, ledger) = attempts(&sandbox, client, &requests).await;
            assert_failed(&outcomes, host);
            assert!(outcomes.iter().all(|outcome| error(outcome).contains(said)), "{outcomes:?}");
            assert_eq!((ledger.requests, ledger.bytes_sent), (0, 0), "{host}");
        }
    }
    assert!(server.lines().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_end_a_request_show_nothing_of_the_secret() {
    let silent = HttpServer::raw(|mut stream| async move {
        // Ends when the client closes the connection.
        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    })
    .await;
    let copying = HttpServer::start(|request| match request.uri().path() {
        "/v1/large" => answer(200, &[], SECRET.repeat(1 << 20)),
        "/v1/fields" => answer(200, &[("x-echo", &SECRET.repeat(4096))], ""),
        _ => answer(302, &[("location", &request.uri().to_string())], ""),
    })
    .await;
    let network = TestNetwork::new();
    let hosts = ["https://silent.example.com", "http://localhost:3000"];
    network.serves("127.0.0.1", copying.address());
    network.answers("silent.example.com", PUBLIC);
    network.serves(PUBLIC, silent.address());
    let vault = Vault::default().with("query", query(), &hosts).with("bearer", bearer(), &hosts);
    let sandbox = builder(&network, vault, &hosts).build().await;
    for client in CLIENTS {
        // No handshake: the server never answers.
        let mut requests = requests(client, "https://silent.example.com/v1/x");
        for request in &mut requests {
            request[if client.0 == "fetcher" { "timeout_ms" } else { "first_byte_ms" }] = json!(50);
        }
        let (outcomes, ledger) = attempts(&sandbox, client, &requests).await;
        assert_failed(&outcomes, "silent.example.com");
        assert_eq!(ledger.requests, 0);
    }
    for client in CLIENTS {
        for path in ["large", "fields"] {
            let requests = requests(client, &format!("http://localhost:3000/v1/{path}"));
            assert_failed(&attempts(&sandbox, client, &requests).await.0, "localhost:3000");
        }
    }
    let (outcomes, ledger) =
        attempts(&sandbox, CLIENTS[0], &requests(CLIENTS[0], "http://localhost:3000/v1/round")).await;
    assert_failed(&outcomes, "localhost:3000");
    assert!(outcomes.iter().all(|outcome| error(outcome).contains("redirects more than 10 times")), "{outcomes:?}");
    assert_eq!(ledger.requests, 22);
}
