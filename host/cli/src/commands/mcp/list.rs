//! `pinion mcp list` and `get`.

use super::unknown;
use pinion_app::failure::Result;
use pinion_app::mcp::lazy_servers::{FileProblem, McpConfig};
use pinion_app::mcp::servers::tokens_of;
use pinion_app::mcp::written::what;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, age, count, left, note, print, result, short, text, written};
use pinion_mcp::config::{ConfigScope, ServerConfig, ServerTransport};
use pinion_mcp::{Contact, ContactOutcome, ServerInfo};
use serde_json::{Value, json};

pub(super) fn list(base: &Base, as_json: bool) -> Result<()> {
    let (config, infos) = (base.mcp_config(), base.mcp_servers().list());
    let info = |server: &ServerConfig| infos.iter().find(|info| info.name == server.name);
    if as_json {
        let values = config.servers.iter().map(|server| as_value(base, &config, server, info(server)));
        let servers: Vec<Value> = values.chain(config.problems.iter().map(broken)).collect();
        return written(result(&json!({ "servers": servers, "notices": config.notices })));
    }
    let mut text = Text::default();
    for server in &config.servers {
        let state = if server.enabled { "enabled" } else { "disabled" };
        let scope = scope(server.source.scope);
        let offers = offers(info(server));
        text.line(text!("{} {} {} {}", left(&server.name, 20), left(state, 10), left(scope, 8), offers));
        text.line(text!("  {}", shown(&config, server)));
        let contact = base.mcp_servers().contact(&server.name).filter(|_| server.enabled);
        if let Some(contact) = &contact {
            let mark = if contact.outcome == ContactOutcome::Ready { " " } else { "!" };
            text.line(text!("  {} {}", mark, described(contact, &server.name)));
        }
        // Tools that were left out, and the like.
        let problem = info(server).filter(|info| info.is_known).and_then(|info| info.problem.as_deref());
        if let Some(problem) =
            problem.filter(|_| contact.is_none_or(|contact| contact.outcome == ContactOutcome::Ready))
        {
            text.line(text!("  ! {}", problem));
        }
    }
    for problem in &config.problems {
        let name = problem.problem.server.as_deref().unwrap_or("-");
        text.line(text!("{} {} {}", left(name, 20), left("broken", 10), scope(problem.source.scope)));
        text.line(text!("  ! {}", Text::block(problem.text())));
    }
    if config.servers.is_empty() && config.problems.is_empty() {
        note(&text!("no MCP servers (`pinion mcp add` adds one, `pinion mcp import` those of other programs)"));
    }
    let notices = config.notices.iter().cloned().chain(base.project_notices());
    notices.for_each(|notice| text.line(text!("! {}", Text::block(notice))));
    print(&text)
}

pub(super) fn get(base: &Base, name: &str, as_json: bool) -> Result<()> {
    let config = base.mcp_config();
    let server = config.find(name).ok_or_else(|| unknown(base, name))?;
    let infos = base.mcp_servers().list();
    let info = infos.iter().find(|info| info.name == name);
    if as_json {
        return written(result(&as_value(base, &config, server, info)));
    }
    let mut text = Text::default();
    let mut row = |key: &'static str, value: String| text.line(text!("{} {}", left(key, 12), value));
    row("name", server.name.clone());
    row("state", if server.enabled { "enabled" } else { "disabled" }.to_owned());
    if let Some(contact) = base.mcp_servers().contact(name) {
        row("contact", described(&contact, name));
    }
    row("offers", offers(info));
    row("file", format!("{} ({})", server.source.path.display(), scope(server.source.scope)));
    match &server.transport {
        ServerTransport::Stdio { env, .. } => {
            let written = config.as_written(name).map(|written| &written.transport);
            let cwd = match written {
                Some(ServerTransport::Stdio { cwd, .. }) => cwd.as_ref(),
                _ => None,
            };
            row("command", shown(&config, server));
            if !env.is_empty() {
                row("environment", env.keys().cloned().collect::<Vec<_>>().join(", "));
            }
            row("directory", cwd.map_or_else(|| "the workspace".to_owned(), |cwd| cwd.display().to_string()));
            row("network", if server.network { "yes" } else { "no (`\"network\": true` allows it)" }.to_owned());
            row("writes", if server.write { "in the workspace" } else { "nothing" }.to_owned());
        }
        ServerTransport::Http { headers, sse, .. } => {
            row("address", shown(&config, server));
            row("transport", if *sse { "HTTP with server-sent events" } else { "streamable HTTP" }.to_owned());
            if !headers.is_empty() {
                row("headers", headers.keys().cloned().collect::<Vec<_>>().join(", "));
            }
        }
    }
    if let Some(enabled) = &server.tools.enabled {
        row("only tools", enabled.join(", "));
    }
    if !server.tools.disabled.is_empty() {
        row("not tools", server.tools.disabled.join(", "));
    }
    let idle = server.idle_timeout.map_or_else(|| "never".to_owned(), |idle| format!("after {} s", idle.as_secs_f64()));
    row(
        "limits",
        format!("start {} s, call {} s", server.startup_timeout.as_secs_f64(), server.call_timeout.as_secs_f64()),
    );
    row("stops idle", idle);
    row("identity", server.identity());
    print(&text)
}

/// Describes the last contact with a server.
fn described(contact: &Contact, name: &str) -> String {
    let when = age(jiff::Timestamp::now().as_second().saturating_sub_unsigned(contact.at));
    match (contact.outcome, contact.problem.as_deref()) {
        (ContactOutcome::Ready, _) => format!("connected {when}"),
        (ContactOutcome::LoginRequired, _) => format!("wanted a login {when} (`pinion mcp login {name}`)"),
        (ContactOutcome::Failed, problem) => format!("failed {when}: {}", problem.unwrap_or("the reason is not known")),
    }
}

/// Describes a server's last known offer.
fn offers(info: Option<&ServerInfo>) -> String {
    match info.filter(|info| info.is_known) {
        Some(info) => {
            let tools = count(info.tools.iter().filter(|tool| tool.enabled).count() as u64, "tool");
            format!("{tools}, about {} tokens", short(tokens_of(info)))
        }
        None => "not connected yet".to_owned(),
    }
}

/// Returns the command line or the address of a server, with its variables not expanded.
fn shown(config: &McpConfig, server: &ServerConfig) -> String {
    config.as_written(&server.name).map_or_else(|| "(known only with its variables)".to_owned(), what)
}

fn scope(scope: ConfigScope) -> &'static str {
    match scope {
        ConfigScope::User => "user",
        ConfigScope::Package => "package",
        ConfigScope::Project => "project",
    }
}

/// Describes a server for programs. Values of variables and headers are left out, because they can be secrets.
fn as_value(base: &Base, config: &McpConfig, server: &ServerConfig, info: Option<&ServerInfo>) -> Value {
    let known_as = config.as_written(&server.name);
    let transport = match known_as.map(|written| &written.transport) {
        Some(ServerTransport::Stdio { command, args, env, cwd }) => json!({
            "type": "stdio", "command": command, "args": args, "env": env.keys().collect::<Vec<_>>(), "cwd": cwd,
            "network": server.network, "write": server.write,
        }),
        Some(ServerTransport::Http { headers, sse, .. }) => json!({
            "type": if *sse { "sse" } else { "http" }, "url": shown(config, server),
            "headers": headers.keys().collect::<Vec<_>>(),
        }),
        None => Value::Null,
    };
    let known = info.filter(|info| info.is_known);
    json!({
        "name": server.name,
        "tools": known.map(|info| info.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()),
        "tokens": known.map(tokens_of),
        "state": if server.enabled { "enabled" } else { "disabled" },
        "last_contact": base.mcp_servers().contact(&server.name),
        "scope": scope(server.source.scope),
        "file": server.source.path,
        "transport": transport,
        "enabled_tools": server.tools.enabled,
        "disabled_tools": server.tools.disabled,
        "identity": server.identity(),
    })
}

fn broken(problem: &FileProblem) -> Value {
    json!({
        "name": problem.problem.server,
        "state": "broken",
        "scope": scope(problem.source.scope),
        "file": problem.source.path,
        "line": problem.problem.line,
        "problem": problem.problem.message,
        "hint": problem.problem.hint,
    })
}
