//! `pinion mcp test`, `tools`, `call`, `login` and `logout`: commands that talk to a server.

use super::hints::hint;
use super::unknown;
use futures_util::future::join_all;
use pinion_app::failure::{Failure, Result};
use pinion_app::mcp::servers::{first_start, tokens_of};
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, count, json, left, note, print, short, text, written};
use pinion_console::process::signals::interruptible_by;
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::{CallContext, LoginMethod, McpError, Request, RequestProgress, ServerInfo, Servers};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Delay before a line reports that a server has not started yet.
const SILENCE: Duration = Duration::from_secs(3);
/// Time for a call beyond the limit of the server, which ends it with a better message.
const MARGIN: Duration = Duration::from_secs(5);

/// Returns the servers and the config of one of them, which must be switched on.
fn server<'a>(base: &'a Base, name: &str) -> Result<(&'a Arc<Servers>, ServerConfig)> {
    let config = base.mcp_config().find(name).cloned().ok_or_else(|| unknown(base, name))?;
    if !config.enabled {
        return Err(Failure::usage(format!("MCP server `{name}` is disabled"))
            .hint(format!("`pinion mcp enable {name}` switches it on")));
    }
    base.mcp.be_patient();
    Ok((base.mcp_servers(), config))
}

/// Reports a server that has not started soon.
async fn with_notice<T>(name: &str, start: Duration, starting: impl Future<Output = T>) -> T {
    let mut starting = std::pin::pin!(starting);
    tokio::select! {
        biased;
        done = &mut starting => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    note(&text!("… waiting for MCP server `{}` (a start may take {} s)", name, start.as_secs()));
    starting.await
}

/// Sends a request, and cancels it when the user interrupts.
async fn request(servers: &Servers, config: &ServerConfig, request: Request) -> Result<String> {
    let start = first_start(config);
    let mut context = CallContext::within(start + config.call_timeout + MARGIN);
    context.on_progress = Some(Arc::new(|progress: RequestProgress| {
        if let Some(line) = progress.line() {
            note(&text!("… {}", line));
        }
    }));
    let token = context.cancel.clone();
    let sending = with_notice(&config.name, start, servers.request(&config.name, request, context));
    let sent = interruptible_by(move || token.cancel(), sending).await.0;
    sent.map_err(|error| failure(error, config))
}

/// Explains a failure, with a hint.
fn failure(error: McpError, config: &ServerConfig) -> Failure {
    let (name, text) = (&config.name, error.to_string());
    let failure = Failure::failed(&text);
    let hint = match error {
        McpError::LoginRequired { .. } => Some(format!("`pinion mcp login {name}`")),
        McpError::Cancelled { .. } => None,
        _ => hint(config, &text),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Connects, and returns the server's offer.
async fn connect(base: &Base, name: &str) -> Result<(ServerInfo, Duration)> {
    let (servers, config) = server(base, name)?;
    let began = Instant::now();
    request(servers, &config, Request::Connect).await?;
    let time = began.elapsed();
    let info = servers.list().into_iter().find(|info| info.name == name);
    Ok((info.ok_or_else(|| unknown(base, name))?, time))
}

/// Connects to all servers that are switched on, at the same time. Returns how many do not connect.
pub(super) async fn check(base: &Base) -> usize {
    base.mcp.be_patient();
    let servers = base.mcp_servers();
    let config = base.mcp_config();
    let token = CancellationToken::new();
    let connecting = config.servers.iter().filter(|server| server.enabled).map(|server| {
        let within = CallContext::within(first_start(server) + MARGIN);
        let request = servers.request(&server.name, Request::Connect, CallContext { cancel: token.clone(), ..within });
        with_notice(&server.name, first_start(server), request)
    });
    let stop = token.clone();
    let connected = interruptible_by(move || stop.cancel(), join_all(connecting)).await.0;
    base.end_mcp_servers().await;
    connected.iter().filter(|result| result.is_err()).count()
}

/// Fails if servers did not connect.
pub(super) fn checked(failed: usize) -> Result<()> {
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{} did not connect", count(failed as u64, "MCP server")))),
    }
}

pub(super) async fn test(base: &Base, name: &str, as_json: bool) -> Result<()> {
    let (info, time) = connect(base, name).await?;
    base.end_mcp_servers().await;
    if as_json {
        return written(json(&json!({
            "name": info.name,
            "software": info.software,
            "protocol": info.protocol,
            "milliseconds": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            "tools": info.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "prompts": info.prompts.iter().map(|prompt| &prompt.name).collect::<Vec<_>>(),
            "resources": info.has_resources,
            "tokens": tokens_of(&info),
            "problem": info.problem,
            "dropped": info.dropped,
        })));
    }
    let mut text = Text::default();
    let mut row = |key: &'static str, value: String| text.line(text!("{} {}", left(key, 10), value));
    let software = info.software.clone().filter(|name| !name.trim().is_empty());
    row("server", software.unwrap_or_else(|| "does not name itself".to_owned()));
    row("protocol", info.protocol.clone().unwrap_or_default());
    row("connected", format!("in {} ms", time.as_millis()));
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    row("tools", names(info.tools.iter().map(|tool| tool.name.as_str()).collect()));
    row("prompts", names(info.prompts.iter().map(|prompt| prompt.name.as_str()).collect()));
    row("resources", if info.has_resources { "yes" } else { "none" }.to_owned());
    row("tokens", format!("about {} for the definitions of its tools", short(tokens_of(&info))));
    let problems = info.problem.iter().filter(|_| info.dropped.is_empty()).chain(&info.dropped);
    problems.for_each(|problem| row("problem", problem.clone()));
    print(&text)
}

pub(super) async fn tools(base: &Base, name: &str, as_json: bool) -> Result<()> {
    let (info, _) = connect(base, name).await?;
    base.end_mcp_servers().await;
    info.dropped.iter().for_each(|problem| note(&text!("! {}", problem)));
    let definition = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    if as_json {
        let tools: Vec<Value> = info.tools.iter().map(|tool| definition(&tool.definition)).collect();
        return written(json(&tools));
    }
    let mut text = Text::default();
    for tool in &info.tools {
        let definition = definition(&tool.definition);
        let about = definition.get("description").and_then(Value::as_str).unwrap_or_default();
        let state = if tool.enabled { "" } else { " (disabled)" };
        text.line(text!("{}{}  {}", left(&tool.name, 28), state, about.lines().next().unwrap_or_default()));
    }
    if info.tools.is_empty() {
        text.line(text!("MCP server `{}` has no tools", name));
    }
    print(&text)
}

pub(super) async fn call(base: &Base, name: &str, tool: &str, arguments: &str, as_json: bool) -> Result<()> {
    let (servers, config) = server(base, name)?;
    if let Err(error) = serde_json::from_str::<serde_json::Map<String, Value>>(arguments) {
        return Err(Failure::usage("the arguments are not a JSON object").because(error));
    }
    let sent = Request::CallTool { name: tool.to_owned(), arguments: arguments.to_owned() };
    let answer = request(servers, &config, sent).await;
    base.end_mcp_servers().await;
    let answer: Value = serde_json::from_str(&base.secrets.clean(&answer?))
        .map_err(|error| Failure::failed(format!("MCP server `{name}` returned invalid JSON")).because(error))?;
    if as_json {
        written(json(&answer))?;
    } else {
        print(&content(&answer))?;
    }
    match answer.get("isError") == Some(&Value::Bool(true)) {
        true => {
            let failure = Failure::failed(format!("tool `{tool}` of MCP server `{name}` reports an error"));
            Err(match hint(&config, &answer.to_string()) {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
        false => Ok(()),
    }
}

/// Renders the content of a result for people.
fn content(answer: &Value) -> Text {
    let mut text = Text::default();
    let parts = answer.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    for part in &parts {
        let member = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        match (member("type"), part.get("resource")) {
            ("text", _) => text.push(Text::complete(&format!("{}\n", member("text").trim_end_matches('\n')))),
            (kind @ ("image" | "audio"), _) => {
                let size = count(member("data").len() as u64 * 3 / 4, "byte");
                text.line(text!("[{} {}, {}]", kind, member("mimeType"), size));
            }
            ("resource", Some(resource)) => {
                let uri = resource.get("uri").and_then(Value::as_str).unwrap_or_default();
                text.line(text!("[resource {}]", uri));
                if let Some(body) = resource.get("text").and_then(Value::as_str) {
                    text.push(Text::complete(&format!("{body}\n")));
                }
            }
            ("resource_link", _) => text.line(text!("[resource {}]", member("uri"))),
            (other, _) => text.line(text!("[{}]", other)),
        }
    }
    if let Some(structured) = answer.get("structuredContent")
        && parts.is_empty()
    {
        text.line(Text::complete(&structured.to_string()));
    }
    text
}

pub(super) async fn login(base: &Base, name: &str, method: LoginMethod) -> Result<()> {
    let (servers, config) = server(base, name)?;
    if matches!(config.transport, ServerTransport::Stdio { .. }) {
        return Err(Failure::usage(format!("MCP server `{name}` is a program and needs no login")));
    }
    let token = CancellationToken::new();
    let stop = token.clone();
    let done = interruptible_by(move || stop.cancel(), servers.login(name, method, token)).await.0;
    done.map_err(|error| failure(error, &config))?;
    base.end_mcp_servers().await;
    print(&text!("logged in to MCP server `{}`\n", name))
}

pub(super) async fn logout(base: &Base, name: &str) -> Result<()> {
    let config = base.mcp_config().find(name).cloned().ok_or_else(|| unknown(base, name))?;
    if matches!(config.transport, ServerTransport::Stdio { .. }) {
        return Err(Failure::usage(format!("MCP server `{name}` is a program and needs no login")));
    }
    if !base.mcp_servers().logout(name).await.map_err(|error| failure(error, &config))? {
        return Err(Failure::failed(format!("MCP server `{name}` has no login"))
            .hint(format!("`pinion mcp login {name}` logs in")));
    }
    print(&text!("logged out of MCP server `{}`\n", name))
}
