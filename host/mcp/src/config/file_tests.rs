use super::*;
use crate::config::expand::Lookup;
use proptest::prelude::*;
use secrecy::ExposeSecret as _;

fn parse(text: &str) -> ServerFile {
    let variables = |name: &str| match name {
        "TOKEN" => Lookup::Value("t0k".to_owned()),
        _ => Lookup::NotSet,
    };
    ServerFile::parse(text, &ConfigSource::default(), &variables)
}

fn problem(text: &str) -> (usize, String) {
    let file = parse(text);
    assert_eq!(file.servers.len(), 0, "{text}");
    let problem = file.problems.into_iter().next().unwrap();
    (problem.line, problem.message)
}

#[test]
fn both_transports_are_read_with_all_their_members() {
    let file = parse(
        r#"{ // a comment
        "mcpServers": {
          "files": {"command": "npx", "args": ["-y", "x", "${TOKEN}"], "env": {"A": "${NO:-d}", "N": 1, "B": true},
                    "cwd": "sub", "network": true, "write": false, "idleTimeoutSeconds": 0, "startupTimeoutSeconds": 2.5,
                    "disabledTools": ["rm"],},
          "web": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
                  "oauth": {"clientId": "c", "callbackPort": 8123}, "callTimeoutSeconds": 9},
          "old": {"type": "sse", "url": "http://127.0.0.1:1/sse", "enabledTools": ["a*"]}
        }}"#,
    );
    assert_eq!((file.problems, file.notices), (vec![], vec![]));
    let [files, web, old] = &file.servers[..] else { panic!("three servers") };
    let ServerTransport::Stdio { command, args, env, cwd } = &files.transport else { panic!("a program") };
    assert_eq!((command.as_str(), &args[2][..], cwd.as_deref()), ("npx", "t0k", Some("sub".as_ref())));
    assert_eq!(env.values().map(String::as_str).collect::<Vec<_>>(), ["d", "true", "1"]);
    assert!(files.network && !files.write && files.idle_timeout.is_none() && !files.tools.allows("rm"));
    assert_eq!(files.startup_timeout, Duration::from_millis(2500));
    let ServerTransport::Http { url, headers, sse: false } = &web.transport else { panic!("HTTP") };
    assert_eq!((url.as_str(), headers["Authorization"].expose_secret()), ("https://h/mcp", "Bearer t0k"));
    let redirect = web.oauth.redirect.as_ref().map(url::Url::as_str);
    assert_eq!((redirect, web.call_timeout), (Some("http://localhost:8123/callback"), Duration::from_secs(9)));
    assert!(matches!(old.transport, ServerTransport::Http { sse: true, .. }) && old.tools.allows("ab") && !old.network);
}

#[test]
fn mistake_disables_one_server_and_names_its_line() {
    let file =
        parse("{\"mcpServers\": {\n\"a\": {\"command\": \"x\"},\n\"b\": {\n\"command\": 1},\n\"c\": {\"args\": []}}}");
    assert_eq!(file.servers.len(), 1);
    let lines: Vec<_> = file.problems.iter().map(|problem| (problem.server.as_deref(), problem.line)).collect();
    assert_eq!(lines, [(Some("b"), 4), (Some("c"), 5)]);
    assert!(file.problems[0].message.starts_with("`command`: invalid type: integer"), "{:?}", file.problems);
}

#[test]
fn null_is_a_member_that_is_not_set() {
    let file = parse(
        r#"{"mcpServers": {
          "a": {"type": null, "command": "x", "args": ["--port", 8080, true], "env": null, "cwd": null, "url": null,
                "disabled": null, "disabledTools": null, "startupTimeoutSeconds": null, "oauth": null},
          "b": {"command": "x", "env": {"A": null, "B": 1}, "args": null},
          "c": {"url": "https://h/mcp", "command": null, "headers": {"X-A": null, "X-B": 1}}
        }}"#,
    );
    assert_eq!((file.problems, file.notices), (vec![], vec![]));
    let [a, b, c] = &file.servers[..] else { panic!("three servers") };
    let ServerTransport::Stdio { args, env, .. } = &a.transport else { panic!("a program") };
    assert_eq!((args.join(" "), env.len(), a.has_startup_limit), ("--port 8080 true".to_owned(), 0, false));
    let ServerTransport::Stdio { env, .. } = &b.transport else { panic!("a program") };
    assert_eq!(env.keys().collect::<Vec<_>>(), ["B"]);
    let ServerTransport::Http { headers, .. } = &c.transport else { panic!("HTTP") };
    assert_eq!((headers.len(), headers["X-B"].expose_secret()), (1, "1"));
}

#[test]
fn unusable_entries_are_explained() {
    for (entry, text) in [
        (r#"{"command": "x", "url": "http://h"}"#, "both"),
        (r#"{"url": "file:///etc/passwd"}"#, "http://"),
        (r#"{"url": "http://"}"#, "`url`"),
        (r#"{"url": "http://u:p@h"}"#, "password"),
        (r#"{"type": "websocket", "url": "http://h"}"#, "websocket"),
        (r#"{"type": "http"}"#, "no `url`"),
        (r#"{"command": " "}"#, "program"),
        (r#"{"command": "x", "env": {"A=B": "1"}}"#, "variable"),
        (r#"{"command": "x", "callTimeoutSeconds": -1}"#, "seconds"),
        (r#"{"command": "x", "callTimeoutSeconds": 1e99}"#, "seconds"),
        (r#"{"url": "http://h", "headers": {"A": "b\nc: d"}}"#, "header"),
        (r#"{"url": "http://h", "headers": {"A\r\n": "b"}}"#, "header"),
        (r#"{"command": "${UNSET}"}"#, "`UNSET` is not set"),
        (r#"{"command": "x", "command": "y"}"#, "twice"),
        ("[]", "expected an object"),
    ] {
        let (line, message) = problem(&format!("{{\"mcpServers\": {{\n\"a\": {entry}}}}}"));
        assert!(message.contains(text) && line >= 2, "{entry}: {line} {message}");
    }
    for name in ["", "a/b", " a", "a\\u001b", &"x".repeat(65)] {
        problem(&format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x\"}}}}}}"));
    }
}

#[test]
fn servers_that_are_off_need_no_variables() {
    let file = parse(
        r#"{"mcpServers": {"a": {"command": "${UNSET}", "disabled": true}, "b": {"enabled": false, "command": "x"}}}"#,
    );
    assert_eq!(file.problems, []);
    assert!(file.servers.iter().all(|server| !server.enabled) && file.servers.len() == 2);
}

#[test]
fn unknown_members_are_reported_and_bounded() {
    let unknown: String = (0..50).map(|n| format!("\"m{n}\": {n}, ")).collect();
    let file = parse(&format!("{{\"other\": [1], \"mcpServers\": {{\"a\": {{{unknown} \"command\": \"x\"}}}}}}"));
    assert_eq!((file.servers.len(), file.problems.len(), file.notices.len()), (1, 0, MAX_NOTICES + 1));
    assert!(file.notices[0].contains("`other`") && file.notices[MAX_NOTICES].contains("31 more"));
}

#[test]
fn hostile_files_are_bounded() {
    let many: String = (0..300).map(|n| format!("\"s{n}\": {{\"command\": \"x\"}},")).collect();
    assert!(problem(&format!("{{\"mcpServers\": {{{many}}}}}")).1.contains("300 servers"));
    assert!(problem(&" ".repeat(MAX_FILE_BYTES).replacen(' ', "{", 1).replacen(' ', "x", 1)).1.contains("key"));
    assert!(problem(&format!("{{\"a\": {}1", "[".repeat(100_000))).0 == 1);
    assert!(problem(&format!("{{{}", " ".repeat(MAX_FILE_BYTES))).1.contains("longer"));
    assert!(parse("").problems.is_empty());
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "[\\[\\]{}\":,/* \\n\\\\a-e0-9$-]{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("{{\"mcpServers\": {{\"a\": {text}}}}}"));
    }

    #[test]
    fn lines_of_mistakes_are_in_the_file(before in 0usize..40, text in "[ -~]{0,30}") {
        let file = format!("{}{{\"mcpServers\": {{\"a\": {{\"command\": {text}}}}}}}", "\n".repeat(before));
        for problem in parse(&file).problems {
            prop_assert!(problem.line > before && problem.line <= before + 1, "{problem:?}");
        }
    }

    #[test]
    fn arguments_survive_a_round_trip(args in proptest::collection::vec("[^$]{0,20}", 0..5)) {
        let text = serde_json::json!({ "mcpServers": { "a": { "command": "x", "args": args } } }).to_string();
        let file = parse(&text);
        let ServerTransport::Stdio { args: read, .. } = &file.servers[0].transport else { panic!("a program") };
        prop_assert_eq!(read, &args);
    }
}
