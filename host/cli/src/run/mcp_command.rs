//! `/mcp`: the MCP servers of a conversation.

use crate::args::RunArgs;
use crate::base::Base;
use crate::commands::mcp::switch_in;
use crate::mcp::files::file_with;
use crate::mcp::servers::tokens_of;
use crate::output::{count, line, short};
use pinion_mcp::config::Scope;
use pinion_mcp::{CallContext, LoginMethod, ServerInfo, ServerState};
use pinion_plugin_runtime::Runtime;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Name of the command.
pub(crate) const NAME: &str = "mcp";
/// Hint about its arguments.
pub(crate) const HINT: &str = "[reload|reconnect|enable|disable|login|logout NAME [TOOL]]";

/// Runs the command and returns the Markdown that it prints. `token` cancels what it waits for.
pub(crate) async fn run(
    base: &Base,
    args: &RunArgs,
    runtime: &Runtime,
    arguments: &str,
    token: CancellationToken,
) -> String {
    let (verb, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let rest = rest.trim();
    let changed = base.refresh_offers(args, runtime).await;
    match verb {
        "reload" => changed.unwrap_or_else(|| "`mcp.json` has not changed".to_owned()),
        "" | "list" => list(base),
        "reconnect" | "enable" | "disable" | "login" | "logout" if rest.is_empty() => {
            format!("`/mcp {verb}` needs the name of a server")
        }
        "enable" | "disable" => switch(base, rest, verb == "enable"),
        "reconnect" => {
            let limit = base.mcp_config().find(rest).map_or(Duration::from_secs(60), |server| server.startup_timeout);
            let mut context = CallContext::within(limit + Duration::from_secs(5));
            context.cancel = token;
            match base.mcp_servers().reconnect(rest, context).await {
                Ok(()) => list(base),
                Err(error) => line(&error.to_string()),
            }
        }
        "login" => {
            let (name, method) = match rest.strip_suffix("--device").map(str::trim_end) {
                Some(name) => (name, LoginMethod::Device),
                None => (rest, LoginMethod::Browser),
            };
            match base.mcp_servers().login(name, method, token).await {
                Ok(()) => format!("logged in to `{}`", line(name)),
                Err(error) => line(&error.to_string()),
            }
        }
        "logout" => match base.mcp_servers().logout(rest) {
            Ok(()) => format!("logged out of `{}`", line(rest)),
            Err(error) => line(&error.to_string()),
        },
        other => format!("`/mcp` knows no `{}`: {HINT}", line(other)),
    }
}

/// Lists the servers with their state and the tokens of their definitions.
fn list(base: &Base) -> String {
    let (config, servers) = (base.mcp_config(), base.mcp_servers().list());
    let mut text = String::new();
    if servers.is_empty() && config.problems.is_empty() {
        return "no MCP servers; `pinion mcp add` adds one".to_owned();
    }
    text.push_str("| server | state | offers | tokens |\n|---|---|---|---:|\n");
    for info in &servers {
        let tokens = if info.is_known { short(tokens_of(info)) } else { String::new() };
        text.push_str(&format!("| {} | {} | {} | {tokens} |\n", line(&info.name), state(info), offers(info)));
    }
    for info in servers.iter().filter(|info| info.problem.is_some()) {
        let problem = info.problem.as_deref().unwrap_or_default();
        text.push_str(&format!("\n- `{}`: {}", line(&info.name), line(problem)));
    }
    for problem in config.all_notices() {
        text.push_str(&format!("\n- {}", line(&problem.replace('\n', "; "))));
    }
    text
}

fn state(info: &ServerInfo) -> String {
    match info.state {
        ServerState::Disabled => "disabled".to_owned(),
        ServerState::Idle => "starts with its first call".to_owned(),
        ServerState::Starting => "starting".to_owned(),
        ServerState::Ready => "connected".to_owned(),
        ServerState::Failed => "failed".to_owned(),
        ServerState::LoginRequired => format!("needs `/mcp login {}`", line(&info.name)),
    }
}

fn offers(info: &ServerInfo) -> String {
    if !info.is_known {
        return "not known yet".to_owned();
    }
    let tools = info.tools.iter().filter(|tool| tool.enabled).count();
    let off = info.tools.len() - tools;
    let mut offers = vec![count(tools as u64, "tool")];
    if off > 0 {
        offers.push(format!("{off} disabled"));
    }
    if !info.prompts.is_empty() {
        offers.push(count(info.prompts.len() as u64, "prompt"));
    }
    if info.has_resources {
        offers.push("resources".to_owned());
    }
    offers.join(", ")
}

/// Switches a server or one of its tools for this session, and in the user's file for later ones.
fn switch(base: &Base, arguments: &str, enabled: bool) -> String {
    let servers = base.mcp_servers();
    // Names of servers may have blanks, names of tools have none.
    let (name, tool) = match base.mcp_config().find(arguments) {
        Some(_) => (arguments, None),
        None => match arguments.rsplit_once(char::is_whitespace) {
            Some((name, tool)) => (name.trim(), Some(tool)),
            None => (arguments, None),
        },
    };
    let Some(config) = servers.config(name) else { return format!("no MCP server `{}`", line(name)) };
    let done = match tool {
        None => servers.set_enabled(name, enabled),
        Some(tool) => {
            let mut tools = config.tools.clone();
            let info = servers.list().into_iter().find(|info| info.name == name);
            // What earlier commands of this session switched off stays so.
            let off = info.into_iter().flat_map(|info| info.tools).filter(|tool| !tool.enabled).map(|tool| tool.name);
            tools.disabled.extend(off);
            tools.disabled.retain(|other| other != tool);
            match (enabled, &mut tools.enabled) {
                (true, Some(only)) => only.push(tool.to_owned()),
                (true, None) => {}
                (false, _) => tools.disabled.push(tool.to_owned()),
            }
            servers.set_tools(name, tools)
        }
    };
    if let Err(error) = done {
        return line(&error.to_string());
    }
    if config.source.scope == Scope::User
        && let Err(failure) = switch_in(base, Scope::User, &file_with(base, &config.source), name, tool, enabled)
    {
        return format!("{}\n\n(only for this session: {})", list(base), line(&failure.message()));
    }
    list(base)
}
