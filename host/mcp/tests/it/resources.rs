//! Resources that change, and skills.

use std::time::Duration;

use pinion_mcp::{CallContext, Request};
use serde_json::{Value, json};

use crate::fake::{Bench, Io, NAME, initialized, text, tools, until};

/// A server whose resource `file:///a` changes once: after a call, when a client has subscribed to it.
async fn changing(is_current: bool, mut io: Io) {
    let mut subscription = Value::Null;
    let mut watched = Vec::new();
    let mut has_changed = false;
    let capabilities = json!({"tools": {}, "resources": {"subscribe": true}});
    while let Some(message) = io.read().await {
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if is_current => {
                let result = json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "ttlMs": 0, "cacheScope": "private",
                });
                io.reply(&message, result).await;
            }
            "initialize" => {
                let mut result = initialized();
                result["capabilities"] = capabilities.clone();
                io.reply(&message, result).await;
            }
            "tools/list" => {
                let page = json!({"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"});
                io.reply(&message, page).await;
            }
            "subscriptions/listen" => {
                subscription = message["id"].clone();
                let wanted = message["params"]["notifications"].clone();
                watched = wanted["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
                let params = json!({
                    "_meta": {"io.modelcontextprotocol/subscriptionId": subscription}, "notifications": wanted,
                });
                let method = "notifications/subscriptions/acknowledged";
                io.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
            }
            "resources/subscribe" => {
                watched.push(message["params"]["uri"].clone());
                io.reply(&message, json!({})).await;
            }
            "resources/read" => {
                let contents = json!([{"uri": message["params"]["uri"], "text": "content"}]);
                let result =
                    json!({"resultType": "complete", "contents": contents, "ttlMs": 0, "cacheScope": "private"});
                io.reply(&message, result).await;
            }
            "tools/call" => {
                let mut result = text("fine");
                result["resultType"] = json!("complete");
                io.reply(&message, result).await;
                if watched.contains(&json!("file:///a")) && !std::mem::replace(&mut has_changed, true) {
                    let mut params = json!({"uri": "file:///a"});
                    if is_current {
                        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": subscription});
                    }
                    let method = "notifications/resources/updated";
                    io.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
            }
            _ => drop(io.answer_start(&message, &tools()).await),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn change_of_a_resource_that_was_read_is_noted_in_the_next_result() {
    for is_current in [true, false] {
        let bench = Bench::new(move |_, io| changing(is_current, io));
        let read = |uri: &str| {
            let request = Request::ReadResource { uri: uri.to_owned() };
            let servers = bench.servers.clone();
            async move { servers.request(NAME, request, CallContext::within(Duration::from_secs(9))).await.unwrap() }
        };
        let subscribed = |count: usize| {
            let (log, method) =
                (bench.log().clone(), if is_current { "subscriptions/listen" } else { "resources/subscribe" });
            move || log.count(method) == count
        };
        assert!(!bench.call("echo").await.unwrap().contains("changed since"));
        read("file:///b").await;
        until(subscribed(1)).await;
        read("file:///a").await;
        until(subscribed(2)).await;
        // The notice may overtake the result of the call that leads to it.
        let first = bench.call("echo").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let results = [first, bench.call("echo").await.unwrap(), bench.call("echo").await.unwrap()];
        let noted: Vec<_> = results.iter().filter(|result| result.contains("read: file:///a]")).collect();
        assert!(noted.len() == 1 && noted[0].contains("fine"), "{results:?}");
        read("file:///a").await;
        assert!(subscribed(2)());
    }
}

#[tokio::test(start_paused = true)]
async fn skills_are_listed_with_resources_and_read_only_when_someone_wants_one() {
    let uri = "skill://pdf/SKILL.md";
    let good = "---\nname: pdf\ndescription: Fills forms\n---\nBody.\n";
    for served in [good, "---\nname: pdf\ndescription: Fills forms\n---\nEvil!\n"] {
        let bench = Bench::new(move |_, mut io| async move {
            while let Some(message) = io.read().await {
                let result = match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => json!({
                        "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", "capabilities":
                            {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}},
                    }),
                    "resources/list" => json!({"resources": [], "ttlMs": 0, "cacheScope": "private"}),
                    "skills/list" => {
                        let frontmatter = json!({"name": "pdf", "description": "Fills forms"});
                        let digest = rmcp::model::sha256_digest(good.as_bytes());
                        let files = json!([{"uri": uri, "digest": digest, "size": good.len()}]);
                        let skill = json!({"uri": uri, "frontmatter": frontmatter, "resources": files});
                        // Its name is not the name in its address.
                        let mut odd = skill.clone();
                        odd["uri"] = json!("skill://other/SKILL.md");
                        json!({"skills": [skill, odd], "ttlMs": 0, "cacheScope": "private"})
                    }
                    _ => json!({"contents": [{"uri": uri, "text": served}], "ttlMs": 0, "cacheScope": "private"}),
                };
                let mut result = result;
                result["resultType"] = json!("complete");
                io.reply(&message, result).await;
            }
        });
        let ask = |request| bench.servers.request(NAME, request, CallContext::within(Duration::from_secs(9)));
        let list = ask(Request::ListResources { cursor: None }).await.unwrap();
        assert!(list.contains("skill pdf: Fills forms") && !list.contains("skill://other"), "{list}");
        assert_eq!(bench.log().count("resources/read"), 0);
        let read = ask(Request::ReadResource { uri: uri.into() }).await;
        match served == good {
            true => assert!(read.unwrap().contains("Body.")),
            false => {
                let error = read.unwrap_err().to_string();
                assert!(
                    error.contains("MCP server `fake` serves another content of `skill://pdf/SKILL.md`"),
                    "{error}"
                );
            }
        }
    }
}
