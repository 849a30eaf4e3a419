//! Servers that send the secret back to the plugin.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use pinion_tests::{HttpServer, answer};
use std::io::Write as _;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The places of a response where a server can put a text.
const PLACES: [&str; 16] = [
    "body",
    "body of an error",
    "body in chunks",
    "body in gzip",
    "body in gzip in chunks",
    "header",
    "name of a header",
    "cookie",
    "challenge",
    "location",
    "location of no redirect",
    "content type",
    "reason",
    "trailer",
    "extension of a chunk",
    "early hints",
];

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A body in chunks of a few bytes, with the same extension each.
fn chunked(body: &[u8], extension: &str) -> Vec<u8> {
    let chunk = |piece: &[u8]| [format!("{:x}{extension}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    body.chunks(3).flat_map(chunk).chain(*b"0\r\n").collect()
}

/// Returns a response with a text in a place.
fn response(place: &str, text: &str) -> Vec<u8> {
    let said = format!("a {text} b");
    let with = |status: &str, headers: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let in_chunks = |headers: &str, body: &[u8]| {
        [format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{headers}\r\n").as_bytes(), body].concat()
    };
    match place {
        "body" => with("200 OK", "", said.as_bytes()),
        "body of an error" => with("401 Unauthorized", "", said.as_bytes()),
        "body in chunks" => in_chunks("", &[chunked(said.as_bytes(), ""), b"\r\n".to_vec()].concat()),
        "body in gzip" => with("200 OK", "content-encoding: gzip\r\n", &gzip(&said)),
        "body in gzip in chunks" => {
            in_chunks("content-encoding: gzip\r\n", &[chunked(&gzip(&said), ""), b"\r\n".to_vec()].concat())
        }
        "header" => with("200 OK", &format!("x-echo: a {text} b\r\n"), b"ok"),
        "name of a header" => {
            // Only some forms are names.
            let name: String = text.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            with("200 OK", &format!("x-{name}: 1\r\n"), b"ok")
        }
        "cookie" => with("200 OK", &format!("set-cookie: key={text}; path=/\r\n"), b"ok"),
        "challenge" => with("401 Unauthorized", &format!("www-authenticate: Bearer error=\"{text}\"\r\n"), b"ok"),
        "location" => with("302 Found", &format!("location: /v1/end?key={text}\r\n"), b"ok"),
        "location of no redirect" => with("201 Created", &format!("location: /v1/{text}\r\n"), b"ok"),
        "content type" => with("200 OK", &format!("content-type: text/{text}\r\n"), b"ok"),
        "reason" => with(&format!("200 {text}"), "", b"ok"),
        "trailer" => {
            let trailer = format!("x-echo: {text}\r\n\r\n");
            in_chunks("trailer: x-echo\r\n", &[chunked(b"ok", ""), trailer.into_bytes()].concat())
        }
        "extension of a chunk" => {
            in_chunks("", &[chunked(b"ok", &format!(";key=\"{text}\"")), b"\r\n".to_vec()].concat())
        }
        "early hints" => {
            let hints = format!("HTTP/1.1 103 Early Hints\r\nlink: <{text}>\r\n\r\n");
            [hints.into_bytes(), with("200 OK", "", b"ok")].concat()
        }
        other => panic!("{other}"),
    }
}

/// Reads a request up to the end of its header.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap_or(b'\n'));
    }
    String::from_utf8(head).unwrap()
}

/// A server on this machine that answers `/v1/PLACE/FORM`, by their indices. Returns everything that it received, too.
async fn echo(secret: &'static str) -> (Arc<TestNetwork>, HttpServer, Arc<Mutex<String>>) {
    let received = Arc::new(Mutex::new(String::new()));
    let kept = received.clone();
    let server = HttpServer::raw(move |mut stream| {
        let kept = kept.clone();
        async move {
            let head = head(&mut stream).await;
            let mut path = head.split(['/', ' ', '?']).skip(3).map(|index| index.parse::<usize>());
            let said = match (path.next(), path.next()) {
                (Some(Ok(place)), Some(Ok(form))) => response(PLACES[place], &forms(secret)[form].1),
                _ => response("body", "the end"),
            };
            kept.lock().unwrap().push_str(&head);
            let _ = stream.write_all(&said).await;
        }
    })
    .await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address());
    (network, server, received)
}

/// Each form of the secret in each place of a response.
#[tokio::test(flavor = "multi_thread")]
async fn secret_that_a_server_sends_back_is_redacted_in_every_form() {
    let (network, _server, received) = echo(SECRET).await;
    let sandbox = builder(&network, Vault::of_all_placements(), &["http://localhost:3000"]).build().await;
    for client in CLIENTS {
        for (at, place) in PLACES.iter().enumerate() {
            let urls = (0..forms(SECRET).len()).map(|form| format!("http://localhost:3000/v1/{at}/{form}"));
            let request = |url: String| match client.0 {
                "fetcher" => {
                    let mut request = with(client, "bearer", &url);
                    request["max_redirects"] = json!(0);
                    request
                }
                _ => with(client, "bearer", &url),
            };
            let requests: Vec<Value> = urls.map(request).collect();
            let (outcomes, ledger) = attempts(&sandbox, client, &requests).await;
            assert_eq!(ledger.requests, requests.len() as u64);
            for ((form, _), outcome) in forms(SECRET).iter().zip(outcomes) {
                assert!(outcome["status"].is_number(), "{place}, {form}: {outcome}");
                let body = outcome["body"].as_str().unwrap();
                match place.starts_with("body") {
                    true => assert!(
                        body.starts_with("a ") && body.ends_with(" b") && body.contains("[redacted]"),
                        "{place}, {form}: {body}"
                    ),
                    false => assert_eq!(body, "ok", "{place}, {form}"),
                }
            }
        }
    }
    // It did have the secret.
    let sent = format!("authorization: Bearer {SECRET}\r\n");
    assert_eq!(received.lock().unwrap().matches(&sent).count(), 2 * PLACES.len() * forms(SECRET).len());
}

/// A server that kept the secret sends it back to a request without one, and in answer to every placement.
#[tokio::test(flavor = "multi_thread")]
async fn secret_is_redacted_whatever_the_request_names() {
    let (network, _server, received) = echo(SECRET).await;
    let sandbox = builder(&network, Vault::of_all_placements(), &["http://localhost:3000"]).build().await;
    for client in CLIENTS {
        let plain = json!({ "url": "http://localhost:3000/v1/0/0" });
        let named = ["bearer", "basic", "key", "query"].map(|name| with(client, name, "http://localhost:3000/v1/0/0"));
        let requests = [&named[..], &[plain]].concat();
        for outcome in attempts(&sandbox, client, &requests).await.0 {
            assert_eq!(outcome["body"], json!("a [redacted] b"), "{outcome}");
        }
    }
    let received = received.lock().unwrap();
    let basic = STANDARD.encode(format!("me:{SECRET}"));
    let sent =
        [format!("Bearer {SECRET}"), format!("Basic {basic}"), format!("x-key: {SECRET}"), format!("?key={SECRET}")];
    assert!(sent.iter().all(|sent| received.matches(sent).count() == 2), "{received}");
}

/// The URL of the last request, after a redirect that copies the query, has nothing of the secret in the query.
#[tokio::test(flavor = "multi_thread")]
async fn url_of_a_response_has_no_secret() {
    let server = HttpServer::start(|request| match request.uri().path() {
        "/v1/copied" => answer(302, &[("location", &format!("/v1/end?{}&x=1", request.uri().query().unwrap()))], ""),
        "/v1/in-path" => answer(302, &[("location", &format!("/v1/{}", request.uri().query().unwrap()))], ""),
        _ => answer(200, &[], request.uri().to_string()),
    })
    .await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address());
    let sandbox = builder(&network, Vault::of_all_placements(), &["http://localhost:3000"]).build().await;
    let request = |path: &str| with(CLIENTS[0], "query", &format!("http://localhost:3000/v1/{path}"));
    let requests = [request("end?a=b"), request("copied"), request("in-path")];
    let (outcomes, _) = attempts(&sandbox, CLIENTS[0], &requests).await;
    let urls: Vec<&str> = outcomes.iter().map(|outcome| outcome["url"].as_str().unwrap()).collect();
    let local = "http://localhost:3000/v1";
    assert_eq!(urls[0], format!("{local}/end?a=b"));
    assert_eq!(urls[1], format!("{local}/end?key=[redacted]&x=1"));
    assert_eq!(urls[2], format!("{local}/key=[redacted]"));
    assert_eq!(outcomes[0]["body"], json!("/v1/end?a=b&key=[redacted]"));
    assert_eq!(server.lines()[2], format!("GET /v1/end?x=1&key={SECRET}"));
}

/// A secret with signs that encoders write in different ways.
const SIGNED: &str = "Zq7 Xw3~Vb9 Nm2+Kp5 Ld8*Rt6 Hj4'Gf1 Ds9/Qa2 Wx5&Ec8 Rv3=Tb7 Yn1<Um4 Ik6\"Ol0";

/// Encodes some bytes in a form, and leaves the others as they are.
fn encoded(text: &str, form: &dyn Fn(u8) -> String, is_encoded: &dyn Fn(u8) -> bool) -> String {
    let encode = |byte| if is_encoded(byte) { form(byte) } else { char::from(byte).to_string() };
    text.bytes().map(encode).collect()
}

/// The secret as encoders of URLs and JSON write it, with the name of each encoding.
fn encodings() -> Vec<(&'static str, String)> {
    let in_url = |kept: &'static str| {
        let is_encoded = move |byte: u8| !byte.is_ascii_alphanumeric() && !kept.as_bytes().contains(&byte);
        encoded(SIGNED, &|byte| format!("%{byte:02X}"), &is_encoded)
    };
    let json = json!(SIGNED).to_string();
    let numbered = |text: &str, signs: &'static str| {
        encoded(text, &|byte| format!("\\u{byte:04X}"), &move |byte| signs.as_bytes().contains(&byte))
    };
    vec![
        ("RFC 3986", in_url("-._~")),
        ("encodeURIComponent", in_url("-._~!*'()")),
        ("a path", in_url("-._~!*'()$&+,/:;=@")),
        ("a form", in_url("-._* ").replace(' ', "+")),
        ("all of it in a URL", encoded(SIGNED, &|byte| format!("%{byte:02x}"), &|_| true)),
        ("JSON", json.clone()),
        ("JSON in a script", json.replace('/', "\\/")),
        ("JSON of Go", numbered(&json, "<>&")),
        ("JSON of Gson", numbered(&json, "<>&'=")),
        ("JSON of .NET", numbered(SIGNED, "<>&'+`\"")),
    ]
}

/// Returns a text as readers of URLs, of forms and of JSON understand it.
fn decoded(text: &str) -> [String; 4] {
    let read = |text: &str, mark: &str, digits: usize| {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |read, part| match part.get(..digits).map(|number| u8::from_str_radix(number, 16)) {
            Some(Ok(byte)) => format!("{read}{}{}", char::from(byte), &part[digits..]),
            _ => format!("{read}{mark}{part}"),
        })
    };
    let json = read(text, "\\u00", 2).replace("\\\"", "\"").replace("\\/", "/");
    [text.to_owned(), read(text, "%", 2), read(&text.replace('+', " "), "%", 2), json]
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_with_signs_is_redacted_as_encoders_write_it() {
    let windows = |text: &str| {
        let parts = (0..=SIGNED.len() - 8).map(|at| &SIGNED[at..at + 8]);
        parts.filter(|part| decoded(text).iter().any(|read| read.contains(part))).count()
    };
    let server = HttpServer::start(move |request| {
        let path = &request.uri().path()["/v1/".len()..];
        let body = match path.parse::<usize>() {
            Ok(at) => encodings()[at].1.clone(),
            // The request as it was.
            Err(_) => request.uri().to_string(),
        };
        assert_eq!(windows(&body), SIGNED.len() - 7, "{body}");
        answer(200, &[("x-echo", &body)], body.clone())
    })
    .await;
    let network = TestNetwork::new();
    network.serves("127.0.0.1", server.address());
    let vault = Vault { value: SIGNED, ..Vault::of_all_placements() };
    let sandbox = builder(&network, vault, &["http://localhost:3000"]).build().await;
    let mut leaks = Vec::new();
    for client in CLIENTS {
        let echo = ("the URL of the request", "uri".to_owned());
        let paths = encodings().into_iter().enumerate().map(|(at, (encoding, _))| (encoding, at.to_string()));
        for (encoding, path) in paths.chain([echo]) {
            let request = with(client, "query", &format!("http://localhost:3000/v1/{path}"));
            let outcome = attempt(&sandbox, client, request).await;
            let echo = outcome["headers"].as_array().unwrap().iter().find(|field| field[0] == "x-echo").unwrap();
            let texts = [&outcome["body"], &echo[1]].map(|text| text.as_str().unwrap());
            leaks.extend(texts.into_iter().filter(|text| windows(text) > 0).map(|text| format!("{encoding}: {text}")));
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}
