//! Calls against answers in memory.

use super::*;
use pinion_plugin_sdk::http::Response;
use pinion_plugin_sdk::testing::{call_tool, respond_with, set_config};

fn answer(body: &Value) -> Response {
    Response { status: 200, headers: Vec::new(), body: body.to_string().into_bytes(), url: String::new() }
}

fn issue(number: u32, comments: u32) -> Value {
    let (user, labels) = (json!({ "login": "ada" }), json!([{ "name": "bug" }]));
    json!({
        "number": number, "title": "It breaks", "state": "open", "body": "Always.", "user": user, "labels": labels,
        "comments": comments,
    })
}

#[test]
fn list_leaves_out_pull_requests() {
    let mut pull_request = issue(2, 0);
    pull_request["pull_request"] = json!({});
    let issues = json!([issue(1, 0), pull_request]);
    respond_with(move |request| {
        assert!(request.url.starts_with("https://api.github.com/repos/a/b/issues?"), "{}", request.url);
        assert!(request.url.ends_with("&state=open&labels=good%20first") && request.credential.is_none());
        Ok(answer(&issues))
    });
    let reply = call_tool::<ForgeIssues>("issue_list", json!({ "repository": "a/b", "label": "good first" })).unwrap();
    assert_eq!((reply.text.as_str(), reply.details), ("#1 It breaks [bug]", json!({ "issues": 1 })));
}

#[test]
fn issue_comes_with_its_comments() {
    set_config(&json!({ "api": "https://codeberg.org/api/v1", "credential": "codeberg" }));
    respond_with(|request| {
        assert_eq!(request.credential.as_deref(), Some("codeberg"));
        let is_comments = request.url.contains("/comments?");
        Ok(answer(&if is_comments {
            json!([{ "body": "Here too.", "user": { "login": "bob" } }])
        } else {
            issue(7, 3)
        }))
    });
    let text = call_tool::<ForgeIssues>("issue_read", json!({ "repository": "a/b", "number": 7 })).unwrap().text;
    assert_eq!(
        text,
        "# #7 It breaks\n\nopen, by ada [bug]\n\nAlways.\n\n---\n\n**bob**: Here too.\n\n(2 more comments)"
    );
}

#[test]
fn name_of_a_repository_cannot_leave_its_path() {
    for name in ["a", "../b", "a/..", "a/b/c", "a/b?x", "a/", "/b", "a/b#c"] {
        assert!(repository(name).is_err(), "{name}");
    }
    assert_eq!(repository("rust-lang/rust.vim"), Ok("rust-lang/rust.vim"));
}

#[test]
fn missing_issue_is_not_found() {
    respond_with(|_| Ok(Response { status: 404, headers: Vec::new(), body: Vec::new(), url: "https://x/".to_owned() }));
    let error = call_tool::<ForgeIssues>("issue_read", json!({ "repository": "a/b", "number": 1 })).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error:?}");
}
