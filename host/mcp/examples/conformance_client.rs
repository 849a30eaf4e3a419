//! The client under test of the MCP conformance suite: drives [`Servers`] as the product does.
//!
//! The suite passes the server's address as the last argument, the scenario in `MCP_CONFORMANCE_SCENARIO`, and
//! credentials as JSON in `MCP_CONFORMANCE_CONTEXT`.

#![allow(clippy::print_stderr, reason = "the suite shows the standard error of failed scenarios")]

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::config::{IdpConfig, ServerConfig, ServerTransport};
use pinion_mcp::{
    CallContext, Elicited, HttpSettings, LaunchedServer, Launcher, LoginCode, LoginMethod, LoginPage, McpError,
    MemoryTokens, Person, Ports, Request, Servers, ToolInfo,
};
use pinion_protocol::FormSchema;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

const SERVER: &str = "suite";
/// The tool whose schema one scenario wants back.
const FOCAL_TOOL: &str = "json_schema_2020_12_tool";
const LIMIT: Duration = Duration::from_secs(20);

/// Answers every question, and every login page like a browser whose user agrees.
struct Agreeable;

impl Person for Agreeable {
    fn can_sample(&self) -> bool {
        true
    }

    fn elicit_form<'a>(&'a self, _: &'a str, _: &'a str, form: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        let schema = form.shown();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mut answer = Map::new();
        for name in required.iter().filter_map(Value::as_str) {
            let property = &schema["properties"][name];
            if property.get("default").is_none() {
                answer.insert(name.to_owned(), sample_value(property));
            }
        }
        std::future::ready(Elicited::Accept(Some(Value::Object(answer).to_string()))).boxed()
    }

    fn elicit_url<'a>(&'a self, _: &'a str, _: &'a str, _: &'a Url) -> BoxFuture<'a, Elicited> {
        std::future::ready(Elicited::Accept(None)).boxed()
    }

    fn is_done<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        std::future::ready(true).boxed()
    }

    fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        std::future::ready(true).boxed()
    }

    fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
        let answer = json!({"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "none"});
        std::future::ready(Ok(answer.to_string())).boxed()
    }

    fn open_login<'a>(&'a self, _: &'a str, page: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async move {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
            let response = client.build().ok()?.get(page.url.clone()).send().await.ok()?;
            Some(response.headers().get("location")?.to_str().ok()?.to_owned())
        }
        .boxed()
    }

    fn show_code<'a>(&'a self, _: &'a str, _: &'a LoginCode) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}

/// The suite's servers are all over HTTP.
struct NoLauncher;

impl Launcher for NoLauncher {
    fn launch(&self, _: &ServerConfig) -> io::Result<LaunchedServer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn sample_value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => schema.get("enum").and_then(|values| values.get(0)).cloned().unwrap_or_else(|| json!("text")),
    }
}

/// Returns arguments for all properties of a tool.
fn sample_arguments(definition: &str) -> String {
    let tool: Value = serde_json::from_str(definition).unwrap_or_default();
    let properties = tool["inputSchema"]["properties"].as_object().cloned().unwrap_or_default();
    let arguments: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), sample_value(schema))).collect();
    Value::Object(arguments).to_string()
}

/// Sends a request, logging in as often as the server asks and the product allows.
async fn request(servers: &Servers, request: Request) -> Result<String, McpError> {
    loop {
        match servers.request(SERVER, request.clone(), CallContext::within(LIMIT)).await {
            Err(McpError::LoginRequired { .. }) => {
                servers.login(SERVER, LoginMethod::Browser, CancellationToken::new()).await?
            }
            result => return result,
        }
    }
}

/// Lists skills and, if wanted, loads one: its `SKILL.md`, and a further file if that was accepted.
async fn load_skills(servers: &Servers, is_wanted: bool) -> Result<(), Box<dyn Error>> {
    let page: Value = serde_json::from_str(&request(servers, Request::ListResources { cursor: None }).await?)?;
    let uris = page["resources"].as_array().into_iter().flatten().filter_map(|resource| resource["uri"].as_str());
    for uri in uris.filter(|uri| is_wanted && uri.ends_with("/SKILL.md")) {
        let further = uri.replace("SKILL.md", "references/FORMS.md");
        for uri in [uri.to_owned(), further] {
            if let Err(error) = request(servers, Request::ReadResource { uri }).await {
                eprintln!("refused: {error}");
                break;
            }
        }
    }
    servers.shutdown().await;
    Ok(())
}

fn idp(endpoint: &str, context: &Value) -> Result<IdpConfig, Box<dyn Error>> {
    let text = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
    Ok(IdpConfig {
        issuer: text("idp_issuer"),
        token_endpoint: Url::parse(endpoint)?,
        client_id: text("idp_client_id"),
        client_secret: None,
        id_token: text("idp_id_token").into(),
    })
}

async fn run(scenario: &str, url: Url, context: &Value) -> Result<(), Box<dyn Error>> {
    let mut config = ServerConfig::new(
        SERVER,
        ServerTransport::Http { url, headers: std::collections::BTreeMap::new(), sse: false },
    );
    config.oauth.client_id = context["client_id"].as_str().map(str::to_owned);
    config.oauth.client_secret = context["client_secret"].as_str().map(Into::into);
    config.oauth.private_key = context["private_key_pem"].as_str().map(Into::into);
    config.oauth.signing_algorithm = context["signing_algorithm"].as_str().map(str::to_owned);
    config.oauth.idp = context["idp_token_endpoint"].as_str().map(|endpoint| idp(endpoint, context)).transpose()?;
    let cache = tempfile::tempdir()?;
    let ports = Ports {
        launcher: Arc::new(NoLauncher),
        http: HttpSettings::default(),
        cache: cache.path().to_owned(),
        tasks: cache.path().join("tasks"),
        tokens: Arc::new(MemoryTokens::default()),
        person: Arc::new(Agreeable),
        client_metadata: Some(Url::parse("https://conformance-test.local/client-metadata.json")?),
        workspace_roots: Vec::new(),
    };
    let servers = Servers::new(vec![config], ports);
    request(&servers, Request::Connect).await?;
    if scenario.starts_with("sep-2640") {
        return load_skills(&servers, scenario.contains("verify")).await;
    }
    let calls = context["toolCalls"].as_array().or(context["tool_calls"].as_array()).cloned();
    let calls: Vec<(String, String)> = match calls {
        Some(calls) => calls
            .iter()
            .map(|call| (call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].to_string()))
            .collect(),
        None => {
            let tools = servers.list().remove(0).tools;
            let echo = |name: &str| scenario.starts_with("json-schema-2020-12") && name != FOCAL_TOOL;
            let schema = tools.iter().find(|tool| tool.name == FOCAL_TOOL);
            let schema: Value = schema.and_then(|tool| serde_json::from_str(&tool.definition).ok()).unwrap_or_default();
            let arguments = |tool: &ToolInfo| match echo(&tool.name) {
                true => json!({"schema": schema["inputSchema"]}).to_string(),
                false => sample_arguments(&tool.definition),
            };
            tools.iter().map(|tool| (tool.name.clone(), arguments(tool))).collect()
        }
    };
    for (name, arguments) in calls {
        match request(&servers, Request::CallTool { name: name.clone(), arguments }).await {
            Ok(result) => eprintln!("{name}: {}", result.chars().take(200).collect::<String>()),
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
    if scenario.contains("headers") {
        let info = servers.list().remove(0);
        for prompt in info.prompts {
            let _ = request(&servers, Request::GetPrompt { name: prompt.name, arguments: String::new() }).await;
        }
        if info.has_resources
            && let Ok(page) = request(&servers, Request::ListResources { cursor: None }).await
        {
            let page: Value = serde_json::from_str(&page)?;
            for resource in page["resources"].as_array().into_iter().flatten() {
                let uri = resource["uri"].as_str().unwrap_or_default().to_owned();
                let _ = request(&servers, Request::ReadResource { uri }).await;
            }
        }
    }
    servers.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let scenario = variable("MCP_CONFORMANCE_SCENARIO");
    let context: Value = serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or_default();
    let url = std::env::args().next_back().unwrap_or_default();
    run(&scenario, Url::parse(&url)?, &context).await
}
