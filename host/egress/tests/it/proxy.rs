//! Programs at the proxy: the hosts that they reach, and attacks by hostile ones.

use crate::support::network::{PUBLIC, TestNetwork};
use crate::support::proxy::{Running, connect_to, head, hosts, socks};
use crate::support::server::{RawServer, Server, answer};
use pinion_egress::ExchangeOutcome;
use proptest::prelude::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A server that repeats its input.
async fn echo() -> RawServer {
    RawServer::start(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.shutdown().await;
    })
    .await
}

#[tokio::test]
async fn tunnel_moves_bytes_in_both_directions() {
    let echo = echo().await;
    let network = TestNetwork::with_api(echo.address);
    let proxy = Running::start(&network, &["api.example.com"]).await;
    let mut stream = proxy.connect().await;
    // The first bytes of the protocol inside may come with the request.
    stream.write_all((connect_to("API.example.com:443") + "hello").as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200"));
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello");
    assert_eq!(proxy.outcomes(), [("api.example.com".to_owned(), 443, ExchangeOutcome::Complete)]);
    let sent = proxy.reports.0.lock().unwrap()[0].clone();
    assert_eq!((sent.bytes_sent, sent.bytes_received, sent.method.as_str()), (5, 5, "CONNECT"));
}

#[tokio::test]
async fn socks_tunnel_moves_bytes_and_the_proxy_resolves() {
    let echo = echo().await;
    let network = TestNetwork::with_api(echo.address);
    let proxy = Running::start(&network, &["api.example.com:22"]).await;
    let mut stream = proxy.connect().await;
    stream.write_all(&socks("api.example.com", 22)).await.unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 0]);
    stream.write_all(b"ssh").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!((said.as_str(), network.addresses()), ("ssh", vec![PUBLIC.to_owned()]));
}

#[tokio::test]
async fn plain_requests_are_forwarded_one_by_one() {
    let server =
        Server::http(|request| answer(200, &[("connection", "x-hop"), ("x-hop", "1")], request.body().clone())).await;
    let network = TestNetwork::with_api(server.address);
    let proxy = Running::start(&network, &["api.example.com"]).await;
    let said = proxy
        .says(
            "POST http://api.example.com/a?b=1 HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 3\r\n\
             Proxy-Authorization: Basic eA==\r\nConnection: x-own\r\nX-Own: 1\r\n\r\none\
             GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        )
        .await;
    assert!(said.contains("one") && said.contains("403 Forbidden"), "{said}");
    assert!(said.contains("hint: allow evil.example") && !said.contains("x-hop"), "{said}");
    assert_eq!(server.lines(), ["POST api.example.com/a?b=1"]);
    assert!(server.values("proxy-authorization").is_empty() && server.values("x-own").is_empty());
    let outcomes = proxy.outcomes();
    assert_eq!(outcomes[0], ("api.example.com".to_owned(), 80, ExchangeOutcome::Complete));
    assert!(
        matches!(&outcomes[1].2, ExchangeOutcome::Denied(why) if why.contains("`evil.example:80` is not an allowed host"))
    );
}

#[tokio::test]
async fn other_hosts_and_ports_are_refused_without_a_connection() {
    let network = TestNetwork::new();
    let proxy = Running::start(&network, &["api.example.com", "*.npmjs.example:443"]).await;
    for authority in [
        "evil.example:443",
        "api.example.com:22",
        "x.api.example.com:443",
        "api.example.com.evil.example:443",
        "npmjs.example:443",
    ] {
        let said = proxy.says(connect_to(authority)).await;
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("hint: allow"), "{authority}: {said}");
    }
    assert_eq!(proxy.says(socks("evil.example", 443)).await.as_bytes()[2..4], [5, 2]);
    assert!(network.addresses().is_empty() && network.resolved.lock().unwrap().is_empty());
    assert_eq!(proxy.outcomes().len(), 6);
}

#[tokio::test]
async fn hosts_with_two_readings_are_refused() {
    let network = TestNetwork::with_api("127.0.0.1:1".parse().unwrap());
    let proxy = Running::start(&network, &["api.example.com", "*"]).await;
    for authority in [
        "api.example.com\0.evil.example:443",
        "evil.example\0api.example.com:443",
        "me@api.example.com:443",
        "me:pw@api.example.com:443",
        "api.example.com%00.evil.example:443",
        "ap%69.example.com:443",
        "api.example.com.:443",
        "api..example.com:443",
        "api.example.com:0",
        "api.example.com:65536",
        "api.example.com:443:80",
        "api.example.com",
        "аpi.example.com:443",
        "api.example.com\t:443",
        "api.example.com\\.evil.example:443",
        "[::1%25lo]:443",
    ] {
        let said = proxy.says(connect_to(authority)).await;
        assert!(said.starts_with("HTTP/1.1 400") || said.is_empty(), "{authority:?}: {said}");
        let plain = format!("GET http://{authority}/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n");
        if authority != "api.example.com" {
            let said = proxy.says(plain).await;
            assert!(said.starts_with("HTTP/1.1 400") || said.is_empty(), "{authority:?}: {said}");
        }
        if let Some(name) = authority.strip_suffix(":443").filter(|name| name.len() < 256) {
            let said = proxy.says(socks(name, 443)).await;
            assert_eq!(said.as_bytes().get(2..4), Some(&[5, 2][..]), "{name:?}");
        }
    }
    assert!(network.addresses().is_empty() && network.resolved.lock().unwrap().is_empty());
}

#[tokio::test]
async fn header_that_names_another_host_is_refused() {
    let server = Server::http(|_| answer(200, &[], "ok")).await;
    let network = TestNetwork::with_api(server.address);
    let proxy = Running::start(&network, &["api.example.com"]).await;
    for hosts in [
        "Host: evil.example\r\n",
        "Host: api.example.com\r\nHost: evil.example\r\n",
        "Host: api.example.com\r\nHost: api.example.com\r\n",
        "Host: api.example.com:8080\r\n",
        "Host: me@api.example.com\r\n",
        "Host: \r\n",
    ] {
        let said =
            proxy.says(format!("GET http://api.example.com/ HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{hosts:?}: {said}");
    }
    let same = "GET http://api.example.com/ HTTP/1.1\r\nHost: API.example.com:80\r\nConnection: close\r\n\r\n";
    assert!(proxy.says(same).await.ends_with("ok"));
    assert_eq!(server.lines(), ["GET api.example.com/"]);
}

#[tokio::test]
async fn requests_that_are_not_for_a_proxy_are_refused() {
    let network = TestNetwork::new();
    let proxy = Running::start(&network, &["*"]).await;
    for request in [
        "GET / HTTP/1.1\r\nHost: api.example.com\r\n",
        "GET https://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n",
        "GET ftp://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: api.example.com\r\n",
        "POST http://api.example.com/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "GET http://api.example.com/ HTTP/1.1\r\nX: a\0b\r\n",
        "GET http://api.example.com/ HTTP/1.1\r\nX : a\r\n",
        "\u{4}\u{1}\0P\u{1}\u{1}\u{1}\u{1}\0",
    ] {
        let said = proxy.says(format!("{request}Connection: close\r\n\r\n")).await;
        assert!(said.starts_with("HTTP/1.1 400") || said.is_empty(), "{request:?}: {said}");
    }
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn private_and_metadata_addresses_are_refused_in_every_spelling() {
    let network = TestNetwork::new();
    let proxy = Running::start(&network, &["*", "*:8080"]).await;
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "localhost",
        "x.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::]",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let said = proxy.says(connect_to(&format!("{host}:8080"))).await;
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("address"), "{host}: {said}");
        if !host.starts_with('[') {
            assert_eq!(proxy.says(socks(host, 8080)).await.as_bytes()[2..4], [5, 2], "{host}");
        }
    }
    for name in ["metadata.example", "mixed.example", "mapped.example"] {
        let addresses = match name {
            "metadata.example" => "169.254.169.254".to_owned(),
            "mixed.example" => format!("{PUBLIC} 10.0.0.1"),
            _ => "::ffff:192.168.0.1".to_owned(),
        };
        network.answers(name, &addresses);
        let said = proxy.says(connect_to(&format!("{name}:443"))).await;
        assert!(said.starts_with("HTTP/1.1 403"), "{name}: {said}");
    }
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn granted_names_reach_private_addresses() {
    let echo = echo().await;
    let network = TestNetwork::new();
    network.answers("db.corp.example", "10.0.0.5");
    for address in ["10.0.0.5", "127.0.0.1", "169.254.169.254"] {
        network.serves(address, echo.address);
    }
    let rules = ["private db.corp.example:5432", "localhost:3000", "169.254.169.254:80"];
    let proxy = Running::start(&network, &rules).await;
    for authority in ["db.corp.example:5432", "localhost:3000", "169.254.169.254:80"] {
        assert!(proxy.opens(authority).await, "{authority}");
    }
}

#[tokio::test]
async fn each_connection_checks_the_addresses_to_which_it_goes() {
    let echo = echo().await;
    let network = TestNetwork::with_api(echo.address);
    network.answers("rebinding.example", PUBLIC);
    network.answers("rebinding.example", "127.0.0.1");
    let proxy = Running::start(&network, &["rebinding.example"]).await;
    assert!(proxy.opens("rebinding.example:443").await);
    assert!(proxy.says(connect_to("rebinding.example:443")).await.starts_with("HTTP/1.1 403"));
    assert_eq!(network.addresses(), [PUBLIC]);
    assert_eq!(network.resolved.lock().unwrap().len(), 2, "each connection resolves once");
}

#[tokio::test]
async fn withdrawn_host_closes_its_tunnels() {
    let echo = echo().await;
    let network = TestNetwork::with_api(echo.address);
    let proxy = Running::start(&network, &["api.example.com", "other.example"]).await;
    let mut stream = proxy.connect().await;
    stream.write_all(connect_to("api.example.com:443").as_bytes()).await.unwrap();
    head(&mut stream).await;
    proxy.hosts.send_replace(hosts(&["api.example.com"]));
    stream.write_all(b"still").await.unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    proxy.hosts.send_replace(hosts(&["other.example"]));
    assert_eq!(stream.read(&mut said).await.unwrap_or(0), 0);
    assert!(proxy.says(connect_to("api.example.com:443")).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn servers_that_fail_are_reported_as_such() {
    let network = TestNetwork::new();
    network.answers("down.example", PUBLIC);
    let proxy = Running::start(&network, &["down.example", "unknown.example"]).await;
    for name in ["down.example", "unknown.example"] {
        let said = proxy.says(connect_to(&format!("{name}:443"))).await;
        assert!(said.starts_with("HTTP/1.1 502"), "{name}: {said}");
    }
    assert!(matches!(proxy.outcomes()[0].2, ExchangeOutcome::Failed(_)));
}

#[tokio::test(start_paused = true)]
async fn slow_heads_are_given_up() {
    let network = TestNetwork::new();
    let proxy = Running::start(&network, &["*"]).await;
    for beginning in [
        &b""[..],
        b"CONNECT api.exam",
        b"GET http://api.example.com/ HTTP/1.1\r\nX: ",
        b"\x05",
        b"\x05\x01\x00\x05\x01\x00\x03\xff",
    ] {
        let mut stream = proxy.connect().await;
        stream.write_all(beginning).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{beginning:?}");
    }
}

#[tokio::test]
async fn long_heads_are_refused() {
    let network = TestNetwork::new();
    let proxy = Running::start(&network, &["*"]).await;
    let long = "x".repeat(64 << 10);
    for request in [
        format!("GET http://api.example.com/{long} HTTP/1.1\r\n\r\n"),
        format!("GET http://api.example.com/ HTTP/1.1\r\nX: {long}\r\n\r\n"),
        format!("GET http://api.example.com/ HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200)),
    ] {
        let said = proxy.says(&request).await;
        assert!(said.starts_with("HTTP/1.1 4") || said.is_empty(), "{said}");
    }
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn flood_of_connections_waits_and_others_go_on_after_it() {
    let echo = echo().await;
    let network = TestNetwork::with_api(echo.address);
    let proxy = Running::start(&network, &["api.example.com"]).await;
    let mut open = Vec::new();
    for _ in 0..128 {
        let mut stream = proxy.connect().await;
        stream.write_all(connect_to("api.example.com:443").as_bytes()).await.unwrap();
        head(&mut stream).await;
        open.push(stream);
    }
    let mut one_more = proxy.connect().await;
    one_more.write_all(connect_to("api.example.com:443").as_bytes()).await.unwrap();
    let mut byte = [0];
    let waits = tokio::time::timeout(Duration::from_millis(50), one_more.peek(&mut byte)).await;
    assert!(waits.is_err() && network.addresses().len() == 128);
    drop(open);
    assert!(head(&mut one_more).await.starts_with("HTTP/1.1 200"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// For all bytes that a program sends, nothing but the allowed host is resolved, and the proxy serves the next one.
    #[test]
    fn any_bytes_lead_nowhere_else(bytes in requests()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let echo = echo().await;
            let network = TestNetwork::with_api(echo.address);
            let proxy = Running::start(&network, &["api.example.com"]).await;
            proxy.hangs_up_after(&bytes).await;
            assert!(proxy.opens("api.example.com:443").await);
            assert!(network.resolved.lock().unwrap().iter().all(|name| name == "api.example.com"));
            assert!(network.addresses().iter().all(|address| address == PUBLIC));
        });
    }
}

/// Generates requests, texts that resemble them, and bytes.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let host = prop_oneof![
        Just("api.example.com".to_owned()),
        "(api\\.example\\.com|evil\\.example|127\\.0\\.0\\.1|\\[::1\\]|[\\x00-\\x7f]{0,4}){1,3}",
        any::<String>(),
    ];
    let port = prop_oneof![Just(String::new()), Just(":443".to_owned()), "(:[0-9]{0,6}){0,2}"];
    let method = prop_oneof![Just("CONNECT "), Just("GET http://"), Just("GET "), Just("POST HTTP://")];
    let http = (method, host.clone(), port, any::<String>())
        .prop_map(|(method, host, port, rest)| format!("{method}{host}{port} HTTP/1.1\r\n{rest}\r\n\r\n").into_bytes());
    let socks = (host, any::<u16>()).prop_map(|(host, port)| {
        let host = &host.as_bytes()[..host.len().min(255)];
        let length = u8::try_from(host.len()).unwrap_or(255);
        [&[5, 1, 0, 5, 1, 0, 3, length], host, &port.to_be_bytes()].concat()
    });
    prop_oneof![http, socks, proptest::collection::vec(any::<u8>(), 0..300)]
}
