//! Approval of web pages: each host is a question, unless a rule decides.

use pinion_tests::{Ended, HttpServer, Pinion, answer, call, say};
use serde_json::{Value, json};

/// A server with one page, and a home whose config grants it and has these rules.
async fn server_and_home(rules: &str) -> (HttpServer, Pinion) {
    let server = HttpServer::start(|_| answer(200, &[("content-type", "text/plain")], "the page")).await;
    let pinion = Pinion::default();
    let rule = format!("GET {}", server.url(""));
    pinion.config(&format!("[plugins.web.grants]\nhttp = [\"{rule}\"]\n[permissions]\n{rules}\n"));
    (server, pinion)
}

async fn fetch(pinion: Pinion, server: &HttpServer, arguments: &'static [&'static str]) -> Ended {
    let replies = [call("fetch", json!({ "url": server.url("/a") })), say("read")];
    tokio::task::spawn_blocking(move || {
        let script = pinion.script(&replies);
        let plain = ["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "go"];
        pinion.run(plain.iter().chain(arguments))
    })
    .await
    .unwrap()
}

/// Returns the results of calls.
fn results(ended: &Ended) -> Vec<String> {
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = events.filter(|event| event["type"] == "message_end" && event["message"]["role"] == "tool_result");
    messages.map(|event| event["message"]["content"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn host_without_a_rule_is_not_reached_when_nobody_can_be_asked() {
    let (server, pinion) = server_and_home("").await;
    let ended = fetch(pinion, &server, &[]).await;
    assert_eq!((ended.code, server.connections()), (Some(4), 0), "{ended:?}");
    assert!(ended.stdout.contains("\"fetch\"") && ended.stderr.contains("denied"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_allows_a_host() {
    let (server, pinion) = server_and_home("allow = [\"net:127.0.0.1\"]").await;
    let ended = fetch(pinion, &server, &[]).await;
    assert_eq!((ended.code, server.lines()), (Some(0), vec!["GET /a".to_owned()]), "{ended:?}");
    assert!(results(&ended).concat().contains("> the page"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_denies_a_host_in_every_mode() {
    let (server, pinion) = server_and_home("allow = [\"net:127.0.0.1\"]\ndeny = [\"net:*\"]").await;
    let ended = fetch(pinion, &server, &["--approve", "all"]).await;
    assert_eq!((ended.code, server.connections()), (Some(0), 0), "{ended:?}");
    assert!(results(&ended).concat().contains("nothing was fetched from `127.0.0.1`: rule `net:*`"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_fetched_while_planning() {
    let (server, pinion) = server_and_home("allow = [\"net:127.0.0.1\"]").await;
    let ended = fetch(pinion, &server, &["--approve", "plan"]).await;
    assert_eq!((ended.code, server.connections()), (Some(0), 0), "{ended:?}");
    assert!(results(&ended).concat().contains("approval mode is `plan`"), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn approval_for_the_session_or_the_project_covers_one_host() {
    use pinion_tests::Terminal;

    let server = HttpServer::start(|_| answer(200, &[("content-type", "text/plain")], "the page")).await;
    let pinion = Pinion::default();
    let (here, there) = (server.url(""), format!("http://localhost:{}", server.port()));
    pinion.config(&format!("[plugins.web.grants]\nhttp = [\"GET {here}\", \"GET {there}\"]\n"));
    let page = |origin: &str, path: &str| call("fetch", json!({ "url": format!("{origin}{path}") }));
    let replies = [page(&here, "/1"), page(&here, "/2"), page(&there, "/3"), page(&there, "/4"), say("finished")];
    let seen = tokio::task::spawn_blocking(move || {
        let script = pinion.script(&replies);
        let command = pinion.command(["--replay", script.to_str().unwrap(), "go"]);
        let mut terminal = Terminal::start(&command, (120, 40), "");
        terminal.wait_for("always `net:127.0.0.1` in this project");
        terminal.wait_for_nth("always in this session", 1);
        terminal.keys("a");
        terminal.wait_for("always `net:localhost` in this project");
        terminal.wait_for_nth("always in this session", 2);
        terminal.keys("p");
        terminal.wait_for("finished");
        terminal.wait_for("›");
        let (_, seen) = terminal.exit();
        let rules = pinion.run(["permissions", "list"]);
        assert!(rules.stdout.contains("net:localhost"), "{rules:?}");
        seen
    })
    .await
    .unwrap();
    assert!(seen.contains("do not ask again for fetch to 127.0.0.1 in this session"), "{seen}");
    assert_eq!(server.lines(), ["GET /1", "GET /2", "GET /3", "GET /4"]);
}
