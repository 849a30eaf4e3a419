//! A plugin that passes on everything that it gets of a secret, in the command with all output enabled: its progress,
//! its log lines, its stored values, its results, the session and the audit log.

use super::*;
use crate::hostile::plugin_secrets::{run, seen};
use pinion_tests::{Ended, HttpServer, Pinion, answer};
use tokio::task::block_in_place;

/// A config that lets the guest `keeper` use two secrets, for requests to this server, and for programs.
fn config(server: &str) -> String {
    let secret = |name: &str, placement: &str| {
        format!("[secrets.{name}]\nenv = \"HIDDEN_VARIABLE\"\nhosts = [\"{server}/v1/\"]\n{placement}\n")
    };
    let grants = format!("secrets = [\"bearer\", \"query\"]\nhttp = [\"{server}\"]\nprocess = true\nstorage = true\n");
    format!("{}{}[plugins.keeper.grants]\n{grants}", secret("bearer", ""), secret("query", "query = \"key\""))
}

/// Asserts that a run passed a text on everywhere, and that the secret is nowhere: neither in a form that the host
/// recognizes, nor as the plugin hides it from the host.
fn assert_spread_without_secret(pinion: &Pinion, run: &Ended, text: &str) {
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| {
        let events = events.iter().filter(|event| event["type"] == kind).map(Value::to_string);
        events.collect::<String>()
    };
    let hidden = dotted(text);
    for kind in ["progress", "tool_execution_update", "tool_execution_end"] {
        assert!(of(kind).contains(&hidden), "{kind}: {run:?}");
    }
    assert!(run.stderr.contains(&hidden), "the log: {run:?}");
    let stored = crate::product::providers::all_files(&pinion.home().join("plugin-storage"));
    let stored = stored.iter().map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
    assert!(stored.filter(|values| values.contains(&hidden)).count() >= 3, "{run:?}");
    let seen = seen(pinion, run);
    assert_hidden(&seen, "everything");
    assert_hidden(&seen.replace('.', ""), "everything that the plugin hid");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_has_nothing_of_the_secret_to_pass_on() {
    let server = HttpServer::start(|request| {
        let sent = request.headers().get("authorization").map_or("none", |value| value.to_str().unwrap());
        let echo = format!("{sent} {}", request.uri());
        match request.uri().path() {
            "/v1/round" => answer(302, &[("location", &request.uri().to_string())], ""),
            _ => answer(200, &[("x-echo", &echo), ("set-cookie", &echo)], echo.clone()),
        }
    })
    .await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let pinion = Pinion::default();
    let text = config(&server.url(""));
    let hosts = format!("hosts = [\"http://{closed}/\", ");
    pinion.config(&text.replace("hosts = [", &hosts).replace("http = [", &format!("http = [\"http://{closed}\", ")));
    let (echo, round, closed) =
        (server.url("/v1/x?zzz=1"), server.url("/v1/round"), format!("http://{closed}/v1/x?zzz=1"));
    let beyond = server.url("/v2/x?zzz=1");
    let steps: Vec<Vec<&str>> = ["bearer", "query"]
        .iter()
        .flat_map(|secret| [&closed, &beyond, &round, &echo].map(|url| vec!["spread", "send", secret, url]))
        .collect();
    let steps: Vec<&[&str]> = steps.iter().map(Vec::as_slice).collect();
    let run = block_in_place(|| run(&pinion, "keep_sending", &steps));
    assert_eq!(run.code, Some(0), "{run:?}");
    for text in ["could not connect to", "must not be sent to", "redirects more than 10 times", "Bearer [redacted]"] {
        assert!(run.stdout.contains(&dotted(text)) && run.stderr.contains(&dotted(text)), "{text}: {run:?}");
    }
    assert_spread_without_secret(&pinion, &run, "key=[redacted]");
    let sent = |part: &str| server.requests().iter().filter(|request| format!("{request:?}").contains(part)).count();
    assert_eq!((sent(&format!("Bearer {SECRET}")), sent(&format!("key={SECRET}"))), (12, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_a_plugin_talks_to_passes_nothing_of_the_secret_on() {
    let pinion = Pinion::default();
    pinion.config(&config("http://127.0.0.1:1"));
    let print = "echo to stdout $TOKEN; echo to stderr $TOKEN >&2; printf %s $TOKEN | base64; \
                 printf :%s $TOKEN | base64; printf %s $TOKEN | od -An -v -tx1 | tr -d ' \\n'; echo ${#TOKEN}";
    let slowly = "for n in $(seq ${#TOKEN}); do printf %s \"$(printf %s $TOKEN | cut -c$n)\"; done; echo after";
    let steps: [&[&str]; 3] = [
        &["spread", "talk", "bearer", print],
        &["spread", "talk", "bearer", slowly],
        &["spread", "talk", "unknown", print],
    ];
    let run = block_in_place(|| run(&pinion, "keep_running", &steps));
    assert_eq!(run.code, Some(0), "{run:?}");
    for text in ["to stdout [redacted]", "to stderr [redacted]", "24", "[redacted]after"] {
        assert!(run.stdout.contains(&dotted(text)), "{text}: {run:?}");
    }
    assert!(run.stdout.contains("may not use the secret `unknown`"), "{run:?}");
    let seen = seen(&pinion, &run);
    assert_hidden(&seen, "everything");
    assert_hidden(&seen.replace('.', ""), "everything that the plugin hid");
}
