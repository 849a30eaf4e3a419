//! Connections over a long time: servers that hang, subscriptions that are cut, lists that grow old.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pinion_mcp::{McpError, NoPerson};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::fake::{Bench, Io, stdio, text, tool, tools, until};

/// Answers everything but a call of the tool `hang`; nothing at all after one if `hangs` has this process.
async fn hanging(mut io: Io, hangs: bool) {
    while let Some(request) = io.connect(&json!([tool("echo"), tool("hang")])).await {
        match request["params"]["name"].as_str() {
            Some("hang") if hangs => std::future::pending().await,
            Some("hang") => {}
            Some(_) => io.reply(&request, text("fine")).await,
            None if request["method"] == "ping" => io.reply(&request, json!({})).await,
            None => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_hangs_after_a_limit_is_replaced() {
    let bench = Bench::new(|number, io| hanging(io, number == 0));
    assert!(matches!(bench.call("hang").await, Err(McpError::TimedOut { request_sent: true, .. })));
    let started = Instant::now();
    assert!(bench.call("echo").await.unwrap().contains("fine"));
    assert_eq!((bench.launches(), started.elapsed().as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn server_that_is_only_slow_keeps_its_process() {
    let bench = Bench::new(|_, io| hanging(io, false));
    for _ in 0..2 {
        assert!(matches!(bench.call("hang").await, Err(McpError::TimedOut { .. })));
        let started = Instant::now();
        assert!(bench.call("echo").await.unwrap().contains("fine"));
        assert_eq!((bench.launches(), started.elapsed().as_secs()), (1, 0));
    }
    assert_eq!(bench.log().count("ping"), 2);
}

#[tokio::test(start_paused = true)]
async fn server_that_works_on_another_request_is_not_given_up() {
    // A program that does one thing after another, and reports progress.
    let bench = Bench::new(|number, mut io| async move {
        while let Some(request) = io.connect(&json!([tool("echo"), tool("long")])).await {
            if request["params"]["name"] == "long" {
                for step in 0..10 {
                    sleep(Duration::from_secs(20)).await;
                    let token = &request["params"]["_meta"]["progressToken"];
                    let params = json!({"progressToken": token, "progress": step});
                    io.write(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
                }
            }
            io.reply(&request, text(&format!("process {number}"))).await;
        }
    });
    let (long, ()) = tokio::join!(bench.call("long"), async {
        sleep(Duration::from_secs(1)).await;
        assert!(matches!(bench.call("echo").await, Err(McpError::TimedOut { .. })));
        assert!(matches!(bench.call("echo").await, Err(McpError::TimedOut { .. })));
    });
    assert!(long.unwrap().contains("process 0"));
    assert!(bench.call("echo").await.unwrap().contains("process 0"));
}

/// Speaks protocol 2026-07-28, with these capabilities for tools and this lifetime of lists.
struct Modern {
    capability: Value,
    lifetime: u64,
    offered: Value,
}

impl Modern {
    /// Answers a message. Returns false for those that are up to the test.
    async fn answer(&self, io: &mut Io, message: &Value) -> bool {
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": self.capability},
                "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/list") => json!({"tools": self.offered, "ttlMs": self.lifetime, "cacheScope": "private"}),
            Some("tools/call") => json!({"content": []}),
            _ => return false,
        };
        let mut result = result;
        result["resultType"] = json!("complete");
        io.reply(message, result).await;
        true
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_is_opened_again_however_often_it_is_cut() {
    for (cut_after, within) in [(60, 65), (1, 70)] {
        let listens = Arc::new(AtomicUsize::new(0));
        let counted = listens.clone();
        let mut config = stdio();
        config.idle_timeout = None;
        let bench = Bench::with(config, Arc::new(NoPerson), move |_, mut io| {
            let listens = counted.clone();
            async move {
                let modern = Modern { capability: json!({"listChanged": true}), lifetime: 0, offered: tools() };
                let mut open: Option<(Value, Instant)> = None;
                loop {
                    let cut = open.as_ref().map_or(Instant::now() + Duration::from_secs(9_999), |(_, cut)| *cut);
                    let message = tokio::select! {
                        message = io.read() => message,
                        () = sleep_until(cut) => {
                            let (message, _) = open.take().unwrap();
                            io.reply(&message, json!({"resultType": "complete"})).await;
                            continue;
                        }
                    };
                    let Some(message) = message else { return };
                    if modern.answer(&mut io, &message).await || message["method"] != "subscriptions/listen" {
                        continue;
                    }
                    listens.fetch_add(1, Ordering::SeqCst);
                    let params = json!({
                        "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
                        "notifications": {"toolsListChanged": true},
                    });
                    let method = "notifications/subscriptions/acknowledged";
                    io.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                    open = Some((message, Instant::now() + Duration::from_secs(cut_after)));
                }
            }
        });
        bench.call("echo").await.unwrap();
        for count in 1..20 {
            let before = Instant::now();
            until(|| listens.load(Ordering::SeqCst) >= count).await;
            assert!(before.elapsed() <= Duration::from_secs(within), "listen {count}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_grew_old_is_fetched_again_if_the_server_is_used() {
    let offers = Arc::new(AtomicUsize::new(0));
    let counted = offers.clone();
    let bench = Bench::new(move |_, mut io| {
        let lists = counted.clone();
        async move {
            let mut modern = Modern { capability: json!({}), lifetime: 90_000, offered: tools() };
            while let Some(message) = io.read().await {
                if message["method"] == "tools/list" && lists.fetch_add(1, Ordering::SeqCst) > 0 {
                    modern.offered = json!([tool("echo"), tool("extra")]);
                }
                modern.answer(&mut io, &message).await;
            }
        }
    });
    bench.call("echo").await.unwrap();
    sleep(Duration::from_secs(80)).await;
    assert_eq!(offers.load(Ordering::SeqCst), 1);
    sleep(Duration::from_secs(20)).await;
    assert_eq!((offers.load(Ordering::SeqCst), bench.servers.list()[0].tools.len()), (2, 2));
    // It was not used since.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(offers.load(Ordering::SeqCst), 2);
}
