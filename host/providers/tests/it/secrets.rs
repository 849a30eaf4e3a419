//! No error, log, recording, event or debug output contains a key, or a part of one that is not the server's own.

use crate::support::formats::fixture;
use crate::support::requests::{Shared, all, built, config, context, head};
use crate::support::server::{Server, Step, answer};
use crate::support::tls::Http2Server;
use crate::support::vendors::{ALL, BEDROCK, Vendor};
use crate::support::{request, text};
use jiff::civil::date;
use pinion_providers::{KeySources, ProviderContext, Recorder, RunSurroundings, provider};
use secrecy::SecretString;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;

const KEY: &str = "sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt";
const HEADER: &str = "gateway-Hj4Gf6Ds1Qa0Po9Iu8";

/// The minimum length of a part of a key that counts as a leak.
const PIECE: usize = 8;

fn assert_hidden(seen: &str, secret: &str, place: &str) {
    for start in 0..=secret.len() - PIECE {
        let piece = &secret[start..start + PIECE];
        let around = |at: usize| seen[at.saturating_sub(80)..].chars().take(200).collect::<String>();
        assert!(!seen.contains(piece), "{place}: {}", seen.find(piece).map(around).unwrap_or_default());
    }
}

/// Collects lines that libraries log without `tracing`. There is one logger per process.
#[derive(Default)]
struct Logged(Mutex<String>);

impl log::Log for Logged {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push_str(&format!("{}: {}\n", record.target(), record.args()));
    }

    fn flush(&self) {}
}

fn logged() -> &'static Logged {
    static LOGGED: OnceLock<&'static Logged> = OnceLock::new();
    LOGGED.get_or_init(|| {
        let logged: &'static Logged = Box::leak(Box::default());
        log::set_logger(logged).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        logged
    })
}

/// Collects everything logged on this thread, at the finest level.
fn traced(out: &Shared) -> tracing::subscriber::DefaultGuard {
    struct Writer(Shared);
    impl<'a> MakeWriter<'a> for Writer {
        type Writer = Shared;
        fn make_writer(&'a self) -> Shared {
            self.0.clone()
        }
    }
    let subscriber = tracing_subscriber::fmt().with_writer(Writer(out.clone())).with_max_level(tracing::Level::TRACE);
    tracing::subscriber::set_default(subscriber.with_ansi(false).finish())
}

/// Returns everything observable about one request: its events and error in both formats, and its recording.
async fn seen(vendor: &Vendor, url: &str, key: &str) -> String {
    let recording = Shared::default();
    let recorder = Arc::new(Recorder::new(recording.clone(), &RunSurroundings::new(date(2026, 11, 20))));
    let context = ProviderContext { recorder: Some(recorder), ..context() };
    let mut config = config(vendor, Some(url));
    config.api_key = Some(SecretString::from(key));
    config.headers = vec![("x-gateway".to_owned(), SecretString::from(HEADER))];
    let mut out = format!("{config:?} {context:?}");
    let provider = built(vendor, config, context);
    let mut request = request(vendor.model, vec![text("hi")]);
    request.options.api_key = Some(SecretString::from(key));
    out.push_str(&format!("{request:?}"));
    let (events, error) = all(provider.stream(request, CancellationToken::new())).await;
    out.push_str(&format!("{events:?} {}", serde_json::to_string(&events).unwrap()));
    out.push_str(&error.map(|error| format!("{error} {error:?} {error:#?}")).unwrap_or_default());
    out + &recording.text()
}

/// Responses of servers to a key that they reject.
fn echoes(key: &str) -> Vec<Vec<u8>> {
    let json = "content-type: application/json\r\n";
    let said = |text: String| serde_json::json!({ "error": { "message": text } }).to_string().into_bytes();
    let (start, end) = (&key[..4], &key[key.len() - 4..]);
    let long = "x".repeat(2_000 - 15);
    vec![
        answer("401 Unauthorized", json, &said(format!("Incorrect API key provided: {key}. Header {HEADER}"))),
        answer("401 Unauthorized", json, &said(format!("bad key {start}********{end}, {start}...{end}, {start}…"))),
        answer("500 Oh", json, &said(format!("{long}{key}"))),
        answer("500 Oh", "", format!("{}{key}", "y".repeat(490)).as_bytes()),
        answer("500 Oh", "", format!("<html><title>{key}</title>").as_bytes()),
        answer("403 Forbidden", &format!("{json}request-id: {key}\r\nx-echo: {key}\r\n"), b"{}"),
        answer("200 OK", "content-type: text/html\r\n", key.as_bytes()),
        answer(
            "200 OK",
            &format!("content-type: text/event-stream\r\nx-echo: {HEADER}\r\n"),
            format!("data: {{\"a\": \"{}{key}\n\n", "z".repeat(40)).as_bytes(),
        ),
        answer("307 Temporary Redirect", &format!("location: https://elsewhere.example/?key={key}\r\n"), b""),
    ]
}

#[tokio::test]
async fn request_leaves_no_key_behind() {
    let logs = Shared::default();
    let logged = logged();
    let guard = traced(&logs);
    for vendor in ALL {
        let good = answer("200 OK", &head(vendor), &fixture(vendor.format, vendor.tools));
        for reply in echoes(KEY).into_iter().chain([good]) {
            let server = Server::start(vec![Step::Send(reply)]).await;
            let seen = seen(vendor, &server.url, KEY).await;
            assert_hidden(&seen, KEY, vendor.name);
            assert_hidden(&seen, HEADER, vendor.name);
        }
        assert_hidden(&seen(vendor, "http://127.0.0.1:1", KEY).await, KEY, vendor.name);
    }
    drop(guard);
    let logs = logs.text() + &logged.0.lock().unwrap();
    assert!(logs.contains("pinion_providers"), "nothing was logged");
    assert_hidden(&logs, KEY, "the log");
    assert_hidden(&logs, HEADER, "the log");
}

/// The server runs on a separate thread, because it logs everything that it receives.
#[tokio::test]
async fn http2_log_contains_no_key() {
    let (started, url) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Http2Server::answering(BEDROCK.content_type, fixture("bedrock", "text.jsonl")).await;
            started.send(server.url.clone()).unwrap();
            let _ = stopped.await;
        });
    });
    let logs = Shared::default();
    let guard = traced(&logs);
    let access = r#"{"AccessKeyId":"AKIAZq7Xw3Vb9Nm2Kp5L","SecretAccessKey":"Hj4Gf6Ds1Qa0Po9Iu8Yt7Re6Ww5","SessionToken":"Mn3Bv2Cx1Zl0Kj9Hg8Fd7"}"#;
    let seen = seen(&BEDROCK, &url.recv().unwrap(), access).await;
    drop((guard, stop));
    server.join().unwrap();
    let all = seen.clone() + &logs.text();
    assert!(logs.text().contains("h2") && seen.contains("Grüße"));
    for secret in ["AKIAZq7Xw3Vb9Nm2Kp5L", "Hj4Gf6Ds1Qa0Po9Iu8Yt7Re6Ww5", "Mn3Bv2Cx1Zl0Kj9Hg8Fd7"] {
        assert_hidden(&all, secret, "HTTP/2");
    }
}

#[tokio::test]
async fn debug_output_of_key_sources_contains_no_key() {
    let keys = KeySources::new(provider("anthropic").unwrap()).environment(|_| Some(KEY.to_owned()));
    assert_hidden(&format!("{keys:?} {keys:#?} {:?}", keys.origin().await), KEY, "keys");
}

/// The same holds when writing fails.
#[tokio::test]
async fn failing_recording_shows_no_key() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert_hidden(&String::from_utf8_lossy(bytes), KEY, "the recording");
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let recorder = Arc::new(Recorder::new(Full, &RunSurroundings::new(date(2026, 11, 20))));
    let context = ProviderContext { recorder: Some(recorder.clone()), ..context() };
    let server = Server::start(vec![Step::Send(echoes(KEY).remove(0))]).await;
    let mut config = config(&BEDROCK, Some(&server.url));
    config.api_key = Some(SecretString::from(KEY));
    all(built(&BEDROCK, config, context).stream(request(BEDROCK.model, vec![text("hi")]), CancellationToken::new()))
        .await;
    assert!(recorder.finish().is_err());
}
