//! Starting, ending and restarting servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pinion_mcp::config::ToolFilter;
use pinion_mcp::{CallContext, McpError, NoPerson, Request, ServerState, Servers};
use serde_json::json;

use crate::fake::{Bench, Io, NAME, call, initialized, ports, stdio, text, tool, tools, until};

/// Answers each call with the number of its process.
async fn obliging(number: usize, mut io: Io) {
    while let Some(request) = io.connect(&tools()).await {
        if request["method"] == "tools/call" {
            io.reply(&request, text(&format!("process {number}"))).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_starts_with_its_first_request_and_is_shared() {
    let bench = Bench::new(obliging);
    assert!(!bench.servers.list()[0].is_known);
    assert_eq!(bench.launches(), 0);
    let calls = (0..50).map(|_| bench.call("echo"));
    for result in futures_util::future::join_all(calls).await {
        assert!(result.unwrap().contains("process 0"));
    }
    assert_eq!(bench.launches(), 1);
    let info = bench.servers.list().remove(0);
    assert_eq!((info.state, info.protocol.as_deref()), (ServerState::Ready, Some("2025-11-25")));
    assert_eq!(info.software.as_deref(), Some("fake 1.0"));
}

#[tokio::test(start_paused = true)]
async fn cached_catalogue_offers_tools_without_a_process() {
    let bench = Bench::new(obliging);
    bench.servers.request(NAME, Request::Connect, CallContext::within(Duration::from_secs(9))).await.unwrap();
    let next = Servers::new(vec![stdio()], ports(bench.fakes.clone(), bench.cache.path(), Arc::new(NoPerson)));
    let info = next.list().remove(0);
    assert_eq!(info.tools[0].name, "echo");
    assert_eq!(info.tools[0].definition.parse::<serde_json::Value>().unwrap(), tool("echo"));
    assert_eq!((info.state, info.is_known, bench.launches()), (ServerState::Idle, true, 1));
}

#[tokio::test(start_paused = true)]
async fn other_configuration_of_the_same_name_has_another_catalogue() {
    let bench = Bench::new(obliging);
    bench.call("echo").await.unwrap();
    let mut config = stdio();
    if let pinion_mcp::config::ServerTransport::Stdio { args, .. } = &mut config.transport {
        args.push("--other".into());
    }
    let next = Servers::new(vec![config], ports(bench.fakes.clone(), bench.cache.path(), Arc::new(NoPerson)));
    assert!(!next.list()[0].is_known);
}

#[tokio::test(start_paused = true)]
async fn fingerprint_changes_with_a_catalogue_and_not_with_a_connection() {
    let bench = Bench::new(|number, mut io| async move {
        let tools = json!([tool(if number < 2 { "one" } else { "two" })]);
        while let Some(request) = io.connect(&tools).await {
            io.reply(&request, text("ok")).await;
        }
    });
    // Another process with the same cache.
    let other = Servers::new(vec![stdio()], ports(bench.fakes.clone(), bench.cache.path(), Arc::new(NoPerson)));
    let connect = async || {
        bench.servers.reconnect(NAME, CallContext::within(Duration::from_secs(9))).await.unwrap();
        other.fingerprint()
    };
    let unknown = other.fingerprint();
    let known = connect().await;
    assert_ne!(known, unknown);
    assert_eq!(connect().await, known);
    assert_ne!(connect().await, known);
    assert_eq!(other.list()[0].tools[0].name, "two");
}

#[tokio::test(start_paused = true)]
async fn idle_server_is_closed_and_started_again() {
    let mut config = stdio();
    config.idle_timeout = Some(Duration::from_secs(60));
    let bench = Bench::with(config, Arc::new(NoPerson), obliging);
    bench.call("echo").await.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    bench.call("echo").await.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(bench.alive(), 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((bench.alive(), bench.servers.list()[0].state), (0, ServerState::Idle));
    assert!(bench.call("echo").await.unwrap().contains("process 1"));
}

#[tokio::test(start_paused = true)]
async fn server_that_ended_while_idle_is_replaced_within_the_request() {
    let bench = Bench::new(|number, io| async move {
        let mut io = io;
        let request = io.connect(&tools()).await.unwrap();
        io.reply(&request, text(&format!("process {number}"))).await;
    });
    assert!(bench.call("echo").await.unwrap().contains("process 0"));
    assert!(bench.call("echo").await.unwrap().contains("process 1"));
}

#[tokio::test(start_paused = true)]
async fn server_without_an_answer_to_discovery_is_initialized() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(message) = io.read().await {
            match message["method"].as_str() {
                Some("server/discover") => {}
                _ if io.answer_start(&message, &tools()).await => {}
                _ => io.reply(&message, text("late")).await,
            }
        }
    });
    let started = tokio::time::Instant::now();
    assert!(bench.call("echo").await.is_ok());
    assert_eq!((bench.launches(), started.elapsed().as_secs()), (1, 10));
    // The catalogue remembers that.
    bench.servers.reconnect(NAME, CallContext::within(Duration::from_secs(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn server_that_starts_slowly_still_speaks_the_current_protocol() {
    let bench = Bench::new(|_, mut io| async move {
        tokio::time::sleep(Duration::from_secs(8)).await;
        while let Some(message) = io.read().await {
            let result = match message["method"].as_str() {
                Some("server/discover") => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
                }),
                _ => json!({"resultType": "complete", "content": []}),
            };
            io.reply(&message, result).await;
        }
    });
    bench.call("echo").await.unwrap();
    assert_eq!((bench.launches(), bench.servers.list()[0].protocol.as_deref()), (1, Some("2026-07-28")));
}

#[tokio::test(start_paused = true)]
async fn server_that_ends_at_discovery_is_started_again_with_initialize() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(message) = io.read().await {
            match message["method"].as_str() {
                Some("server/discover") => return,
                _ if io.answer_start(&message, &tools()).await => {}
                _ => io.reply(&message, text("ok")).await,
            }
        }
    });
    assert!(bench.call("echo").await.is_ok());
    assert_eq!(bench.launches(), 2);
    // The catalogue remembers the protocol.
    let next = Servers::new(vec![stdio()], ports(bench.fakes.clone(), bench.cache.path(), Arc::new(NoPerson)));
    let _ = next.list();
    next.request(NAME, call("echo"), CallContext::within(Duration::from_secs(9))).await.unwrap();
    assert_eq!((bench.launches(), bench.log().count("server/discover")), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn current_protocol_needs_no_handshake() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(message) = io.read().await {
            let result = match message["method"].as_str() {
                Some("server/discover") => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                }),
                Some("tools/list") => {
                    json!({"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"})
                }
                _ => json!({"resultType": "complete", "content": []}),
            };
            io.reply(&message, result).await;
        }
    });
    bench.call("echo").await.unwrap();
    assert_eq!(bench.servers.list()[0].protocol.as_deref(), Some("2026-07-28"));
    assert_eq!(bench.log().count("initialize"), 0);
    let call = bench.log().all().pop().unwrap();
    assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test(start_paused = true)]
async fn silent_server_fails_with_its_name_and_the_limit() {
    let bench = Bench::new(|_, io| async move {
        let _io = io;
        std::future::pending().await
    });
    let error = bench.call("echo").await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `fake` was not ready within 30 s");
    assert!(!error.request_sent());
    until(|| bench.alive() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn failure_to_start_shows_standard_error_cleaned() {
    let bench = Bench::new(|_, mut io| async move {
        io.complain("warming up\n\u{1b}[31mError: API_KEY is not set\u{1b}[0m \u{202e}\n").await;
    });
    let text = bench.call("echo").await.unwrap_err().to_string();
    assert!(text.starts_with("MCP server `fake` ended with exit status 1"), "{text}");
    assert!(text.contains("Error: API_KEY is not set"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\n']), "{text}");
    let info = bench.servers.list().remove(0);
    assert_eq!(info.state, ServerState::Failed);
    assert!(info.problem.unwrap().contains("API_KEY"));
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_back_off_and_then_fail_at_once() {
    let bench = Bench::new(|_, io| async move { drop(io) });
    let mut refused = None;
    for _ in 0..20 {
        let error = bench.call("echo").await.unwrap_err().to_string();
        if error.contains("next attempt in") {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("the server was started again and again");
    assert!(refused.contains("failures in a row"), "{refused}");
    let before = bench.launches();
    let started = tokio::time::Instant::now();
    assert!(bench.call("echo").await.is_err());
    assert_eq!((bench.launches(), started.elapsed()), (before, Duration::ZERO));
    // The user's own attempt is not held back.
    let call = CallContext::within(Duration::from_secs(9));
    assert!(bench.servers.reconnect(NAME, call).await.is_err());
    assert!(bench.launches() > before);
}

#[tokio::test(start_paused = true)]
async fn disabled_servers_and_tools_are_refused() {
    let bench = Bench::new(obliging);
    bench.call("echo").await.unwrap();
    bench.servers.set_enabled(NAME, false).unwrap();
    assert_eq!(bench.call("echo").await, Err(McpError::Disabled { server: NAME.into() }));
    assert_eq!(bench.servers.list()[0].state, ServerState::Disabled);
    until(|| bench.alive() == 0).await;
    bench.servers.set_enabled(NAME, true).unwrap();
    bench.servers.set_tools(NAME, ToolFilter { enabled: None, disabled: vec!["ec*".into()] }).unwrap();
    assert!(!bench.servers.list()[0].tools[0].enabled);
    assert!(bench.call("echo").await.unwrap_err().to_string().contains("no enabled tool `echo`"));
    assert_eq!(bench.launches(), 1);
    let missing = bench.servers.request("other", Request::Connect, CallContext::within(Duration::from_secs(1))).await;
    assert_eq!(missing, Err(McpError::NotFound("other".into())));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_all_processes_and_refuses_requests() {
    let bench = Bench::new(obliging);
    bench.call("echo").await.unwrap();
    bench.servers.shutdown().await;
    assert_eq!(bench.alive(), 0);
    assert!(bench.call("echo").await.unwrap_err().to_string().contains("shut down"));
}

#[tokio::test(start_paused = true)]
async fn dropped_servers_leave_no_process() {
    let bench = Bench::new(obliging);
    bench.call("echo").await.unwrap();
    let Bench { servers, fakes, .. } = bench;
    drop(servers);
    until(|| fakes.alive.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn thousand_connections_leave_nothing_behind() {
    let bench = Bench::new(obliging);
    let metrics = tokio::runtime::Handle::current().metrics();
    bench.call("echo").await.unwrap();
    bench.servers.set_enabled(NAME, false).unwrap();
    until(|| bench.alive() == 0).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tasks = metrics.num_alive_tasks();
    for _ in 0..1_000 {
        bench.servers.set_enabled(NAME, true).unwrap();
        bench.call("echo").await.unwrap();
        bench.servers.set_enabled(NAME, false).unwrap();
    }
    until(|| bench.alive() == 0).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.launches(), 1_001);
    assert!(metrics.num_alive_tasks() <= tasks, "{} tasks, {tasks} before", metrics.num_alive_tasks());
}

#[tokio::test(start_paused = true)]
async fn request_that_gives_up_does_not_stop_the_start_for_others() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(message) = io.read().await {
            if message["method"] == "initialize" {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            if !io.answer_start(&message, &tools()).await {
                io.reply(&message, text("ok")).await;
            }
        }
    });
    let (hasty, patient) = tokio::join!(bench.call_within("echo", Duration::from_secs(1)), bench.call("echo"));
    assert!(matches!(hasty, Err(McpError::TimedOut { request_sent: false, .. })));
    assert!(patient.is_ok());
    assert_eq!(bench.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_protocol_version_still_works_as_far_as_it_goes() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(message) = io.read().await {
            match message["method"].as_str() {
                Some("initialize") => {
                    let mut result = initialized();
                    result["protocolVersion"] = json!("2024-11-05");
                    io.reply(&message, result).await;
                }
                _ if io.answer_start(&message, &tools()).await => {}
                _ => io.reply(&message, text("ok")).await,
            }
        }
    });
    assert!(bench.call("echo").await.is_ok());
    assert_eq!(bench.servers.list()[0].protocol.as_deref(), Some("2024-11-05"));
}

#[tokio::test(start_paused = true)]
async fn changed_configuration_restarts_only_the_servers_that_it_changes() {
    let bench = Bench::new(obliging);
    bench.call("echo").await.unwrap();
    let changed = bench.servers.changed();
    let mut second = stdio();
    second.name = "second".into();
    assert_eq!(bench.servers.replace(vec![stdio(), second.clone()]), ["second"]);
    assert!(changed.has_changed().unwrap());
    // The connection of the first stays.
    assert!(bench.call("echo").await.unwrap().contains("process 0"));
    // Tools are switched without a restart, and a choice of the session survives other changes.
    bench.servers.set_tools(NAME, ToolFilter { enabled: None, disabled: vec!["echo".into()] }).unwrap();
    let mut limited = second.clone();
    limited.call_timeout = Duration::from_secs(5);
    assert_eq!(bench.servers.replace(vec![stdio(), limited]), ["second"]);
    assert!(bench.call("echo").await.unwrap_err().to_string().contains("no enabled tool"));
    let mut filtered = stdio();
    filtered.tools.disabled = vec!["other".into()];
    assert_eq!(bench.servers.replace(vec![filtered]), [NAME, "second"]);
    assert!(bench.call("echo").await.unwrap().contains("process 0"));
    let mut other = stdio();
    if let pinion_mcp::config::ServerTransport::Stdio { args, .. } = &mut other.transport {
        args.push("--other".into());
    }
    assert_eq!(bench.servers.replace(vec![other.clone()]), [NAME]);
    until(|| bench.alive() == 0).await;
    assert!(bench.call("echo").await.unwrap().contains("process 1"));
    assert_eq!(bench.servers.replace(vec![other]), Vec::<String>::new());
    assert_eq!(bench.servers.replace(Vec::new()), [NAME]);
    until(|| bench.alive() == 0).await;
    assert_eq!(bench.call("echo").await, Err(McpError::NotFound(NAME.into())));
}
