//! Operations of HTTP interfaces as tools.

use pinion_agent::tool::ToolInvocation;
use pinion_agent::{Authority, ToolExecutor as _};
use pinion_plugin_runtime::{HostDirectories, NoInfo, OpenApi, OpenApiError, Runtime, RuntimeConfig};
use pinion_tests::{HttpServer, Pinion, Progress, Received, answer, call, say};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A server that shows the requests that it received.
async fn server() -> HttpServer {
    HttpServer::start(|request: &Received| match request.uri().path() {
        "/spec" => answer(200, &[("content-type", "application/json")], spec("https://elsewhere.example").to_string()),
        _ => {
            let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let seen = json!({ "uri": request.uri().to_string(), "authorization": header("authorization") });
            answer(200, &[("content-type", "application/json")], seen.to_string())
        }
    })
    .await
}

fn spec(base: &str) -> Value {
    json!({ "openapi": "3.1.0", "servers": [{ "url": base }], "paths": { "/pets/{id}": {
        "get": { "operationId": "getPet", "summary": "Returns a pet.", "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "all", "in": "query", "schema": { "type": "boolean" } } ] },
        "delete": { "operationId": "dropPet", "parameters": [{ "name": "id", "in": "path", "schema": {} }] } } } })
}

/// Runs calls of an interface whose document is a file, with a grant for `granted`. Returns their results.
async fn results(server: &HttpServer, granted: String, calls: Vec<Value>) -> String {
    let pinion = Pinion::default();
    let spec = pinion.write("pets.json", spec(&server.url("/v1")).to_string());
    let (spec, workspace) = (spec.display(), pinion.workspace());
    pinion.config(&format!(
        "[plugins.openapi.config.apis.pets]\nspec = \"{spec}\"\n[plugins.openapi.grants]\nhttp = [\"{granted}\"]\n\
         files = {{ \"{}\" = \"read\" }}\n",
        workspace.display()
    ));
    let ended = tokio::task::spawn_blocking(move || {
        let script = pinion.script(&[calls, vec![say("done")]].concat());
        let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay"];
        pinion.run(arguments.iter().copied().chain([script.to_str().unwrap(), "go"]))
    });
    let ended = ended.await.unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = events.filter(|event| event["type"] == "message_end" && event["message"]["role"] == "tool_result");
    messages.map(|event| event["message"]["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operation_of_a_file_is_a_tool() {
    let server = server().await;
    let get = |arguments: Value| call("pets__getPet", arguments);
    let calls = vec![get(json!({ "id": "../a b", "all": true })), get(json!({ "id": ".." }))];
    let results = results(&server, server.url(""), calls).await;
    let url = server.url("/v1/pets/..%2Fa%20b?all=true");
    assert!(results.starts_with(&format!("GET {url} → 200\n\n{{")), "{results}");
    assert!(results.contains("`id` cannot be `..` in a path"), "{results}");
    assert_eq!(server.lines(), ["GET /v1/pets/..%2Fa%20b?all=true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_grant_is_not_reached() {
    let server = server().await;
    let calls = vec![call("pets__getPet", json!({ "id": "1" }))];
    let results = results(&server, "https://pets.example".to_owned(), calls).await;
    assert!(results.contains("may not send `GET`"), "{results}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_is_inserted_by_the_host_and_never_shown() {
    let server = server().await;
    let pinion = Pinion::default();
    let url = server.url("");
    pinion.config(&format!(
        "[secrets.pets]\nenv = \"PETS_TOKEN\"\nhosts = [\"{url}/\"]\n\
         [plugins.openapi.config.apis.pets]\nspec = \"{url}/spec\"\nbase-url = \"{url}/v1\"\ncredential = \"pets\"\n\
         [plugins.openapi.grants]\nhttp = [\"{url}\"]\nsecrets = [\"pets\"]\nstorage = true\n"
    ));
    let ended = tokio::task::spawn_blocking(move || {
        let script = pinion.script(&[call("pets__getPet", json!({ "id": "1" })), say("done")]);
        let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay"];
        let mut command = pinion.command(arguments.iter().copied().chain([script.to_str().unwrap(), "go"]));
        let run =
            |command: &mut std::process::Command| command.env("PETS_TOKEN", "t0psecret-t0psecret").output().unwrap();
        let first = run(&mut command);
        assert!(run(&mut command).status.success());
        first
    })
    .await
    .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && text.contains("/v1/pets/1") && !text.contains("t0psecret"), "{text}");
    let requests = server.requests();
    let sent = |at: usize| requests[at].headers().get("authorization").map(|value| value.to_str().unwrap());
    // The document is read once, and without the secret.
    assert_eq!(server.lines(), ["GET /spec", "GET /v1/pets/1", "GET /v1/pets/1"]);
    assert_eq!((sent(0), sent(1)), (None, Some("Bearer t0psecret-t0psecret")));
}

/// The configuration of an application without plugins.
fn bare(workspace: &Path) -> RuntimeConfig {
    RuntimeConfig {
        policy: Arc::new(BTreeMap::new()),
        workspace: workspace.to_owned(),
        cache: None,
        engine_limits: None,
        compiler: None,
        host: HostDirectories::default(),
        exclusions: Arc::default(),
        confinement: None,
        mcp: None,
        info: Arc::new(NoInfo),
        journal: None,
    }
}

/// An application builds its runtime with the feature `openapi` and no plugin file.
#[tokio::test(flavor = "multi_thread")]
async fn application_adds_interfaces_by_file_url_and_text() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("spec.json");
    std::fs::write(&file, spec("https://elsewhere.example").to_string()).unwrap();
    let api = |name: &str| OpenApi::new(name, server.url("/v1")).operations(["getPet"]);
    let config = bare(directory.path())
        .with_openapi_file(api("filed"), &file)
        .and_then(|config| config.with_openapi_url(api("fetched"), &server.url("/spec")))
        .and_then(|config| config.with_openapi_spec(api("given"), &spec("https://elsewhere.example").to_string()))
        .unwrap();
    let runtime = Runtime::new(config, |_| {}).unwrap();
    runtime.begin_offers();
    runtime.add(vec![OpenApi::source()]).await;
    runtime.offers_settled().await;
    assert_eq!(runtime.problems(), []);
    let tools = runtime.definitions();
    let names: BTreeSet<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, BTreeSet::from(["fetched__getPet", "filed__getPet", "given__getPet"]));
    let info = &runtime.plugins()[0];
    let granted =
        |name: &str| info.capabilities.iter().find(|capability| capability.name == name).unwrap().granted.is_some();
    assert!(granted("http") && granted("files") && !granted("secrets") && !granted("storage"), "{info:?}");
    for tool in tools {
        let call = ToolInvocation {
            call_id: "call-1".into(),
            session_id: "session-1".into(),
            run_id: "loop-1".into(),
            tool,
            arguments: json!({ "id": "7" }),
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token: CancellationToken::new(),
        };
        let output = runtime.call(call, &Progress::default()).await.result.unwrap();
        assert!(output.to_text().contains("/v1/pets/7 → 200"), "{}", output.to_text());
    }
    let get = "GET /v1/pets/7";
    assert_eq!(server.lines(), ["GET /spec", get, get, get]);
}

#[test]
fn interface_without_an_address_is_an_error() {
    let error = bare(Path::new("/w")).with_openapi_spec(OpenApi::new("pets", "no server"), "{}").err().unwrap();
    assert!(matches!(&error, OpenApiError::Address { url, .. } if url == "no server"), "{error}");
}
