//! `/mcp`: the MCP servers of a conversation.

use pinion_console::args::RunArgs;
use pinion_console::output::{count, line, short};
use pinion_console::process::signals::interruptible_by;
use crate::actions::definition::{ConversationAction, choice};
use crate::chat::Chat;
use crate::context_report::{Described, Servers, described_servers};
use crate::perform::NextPrompt;
use pinion_agent::Agent;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::workspace_base::Base;
use pinion_app::failure::Result;
use pinion_app::mcp::edit::switch_in;
use pinion_app::mcp::files::file_with;
use pinion_app::names::nearest;
use pinion_app::run::setup::Ready;
use pinion_mcp::config::ConfigScope;
use pinion_mcp::{CallContext, LoginMethod, McpError, ServerInfo, ServerState};
use pinion_tui::PickChoice;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The action.
pub(super) const ACTION: ChangeServers = ChangeServers;

/// The action `mcp`.
pub(super) struct ChangeServers;

impl ConversationAction for ChangeServers {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(servers(base))
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let token = CancellationToken::new();
            let running = run(chat.base, chat.args, &chat.ready, arguments, token.clone());
            let page = interruptible_by(move || token.cancel(), running).await.0;
            chat.page(&page);
            Ok(NextPrompt::default())
        })
    }
}

/// Runs the command and returns the Markdown that it prints. `token` cancels its waiting.
async fn run(base: &Base, args: &RunArgs, ready: &Ready, arguments: &str, token: CancellationToken) -> String {
    let changed = base.refresh_offers(&args.options(), &ready.runtime).await;
    let (verb, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let done = match (verb, rest.trim()) {
        ("reload", _) => Ok(changed.unwrap_or_else(|| "`mcp.json` has not changed".to_owned())),
        ("" | "list", _) => Ok(list(base, &ready.agent)),
        (verb, name) => with_server(base, &ready.agent, verb, name, token).await,
    };
    done.unwrap_or_else(|CommandProblem { text, hint }| format!("{text}\n\nhint: {hint}"))
}

/// The form of the arguments.
const HINT: &str = "[tools|reload|reconnect|enable|disable|login|logout <name> [tool]]";

/// The reason why a command did nothing, and the user's remedy.
struct CommandProblem {
    text: String,
    hint: String,
}

impl CommandProblem {
    fn new(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { text: text.into(), hint: hint.into() }
    }

    /// The problem of a request to a server.
    fn from_error(error: &McpError, base: &Base, name: &str) -> Self {
        let shown = line(name);
        let hint = match error {
            McpError::NotFound(_) => return unknown(base, name),
            McpError::Disabled { .. } => format!("`/mcp enable {shown}` switches it on"),
            McpError::LoginRequired { .. } => format!("`/mcp login {shown}` logs in"),
            _ => format!("`/mcp reconnect {shown}` tries again, and `pinion mcp get {shown}` shows its settings"),
        };
        Self::new(line(&error.to_string()), hint)
    }
}

/// The problem of a name that no server has.
fn unknown(base: &Base, name: &str) -> CommandProblem {
    let config = base.mcp_config();
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean `{}`?", line(meant)),
        None if names.is_empty() => "`pinion mcp add` adds one".to_owned(),
        None => "`/mcp` lists the servers".to_owned(),
    };
    CommandProblem::new(format!("no MCP server `{}`", line(name)), hint)
}

/// Runs a command about one server.
async fn with_server(
    base: &Base,
    agent: &Agent,
    verb: &str,
    name: &str,
    token: CancellationToken,
) -> Result<String, CommandProblem> {
    let failed = |name: &str, error: McpError| CommandProblem::from_error(&error, base, name);
    match verb {
        "tools" | "reconnect" | "enable" | "disable" | "login" | "logout" if name.is_empty() => {
            Err(CommandProblem::new(format!("`/mcp {verb}` needs the name of a server"), "`/mcp` lists the servers"))
        }
        "tools" => tools(base, agent, name),
        "enable" | "disable" => switch(base, agent, name, verb == "enable"),
        "reconnect" => {
            let limit = base.mcp_config().find(name).map_or(Duration::from_secs(60), |server| server.startup_timeout);
            let mut context = CallContext::within(limit + Duration::from_secs(5));
            context.cancel = token;
            base.mcp_servers().reconnect(name, context).await.map_err(|error| failed(name, error))?;
            Ok(list(base, agent))
        }
        "login" => {
            let (name, method) = match name.strip_suffix("--device").map(str::trim_end) {
                Some(name) => (name, LoginMethod::Device),
                None => (name, LoginMethod::Browser),
            };
            base.mcp_servers().login(name, method, token).await.map_err(|error| failed(name, error))?;
            Ok(format!("logged in to `{}`", line(name)))
        }
        "logout" => match base.mcp_servers().logout(name).await {
            Ok(true) => Ok(format!("logged out of `{}`", line(name))),
            Ok(false) => Err(CommandProblem::new(
                format!("MCP server `{}` has no login", line(name)),
                format!("`/mcp login {}` logs in", line(name)),
            )),
            Err(error) => Err(failed(name, error)),
        },
        other => Err(CommandProblem::new(format!("`/mcp` knows no `{}`", line(other)), format!("`/mcp {HINT}`"))),
    }
}

/// Lists the tools of a server, with the tokens that each takes in the next request.
fn tools(base: &Base, agent: &Agent, name: &str) -> Result<String, CommandProblem> {
    let info = base.mcp_servers().list().into_iter().find(|info| info.name == name);
    let info = info.ok_or_else(|| unknown(base, name))?;
    if !info.is_known {
        let text = format!("the tools of MCP server `{}` are not known yet", line(name));
        return Err(CommandProblem::new(text, format!("`/mcp reconnect {}` starts it", line(name))));
    }
    let mut servers = described_servers(agent);
    let part = part_of(name, &servers);
    let (described, sum) = servers.remove(&part).unwrap_or_default();
    Ok(tool_table(&info, &part, described, sum))
}

fn tool_table(info: &ServerInfo, part: &str, mut described: Vec<Described>, sum: u64) -> String {
    if info.tools.is_empty() {
        return format!("MCP server `{}` has no tools", line(&info.name));
    }
    let (number, mut rows) = (described.len(), String::new());
    let mut missing = Vec::new();
    for tool in &info.tools {
        let name = format!("{part}__{}", letters(&tool.name));
        match described.iter().position(|described| described.tool.name == name) {
            Some(at) => rows.push_str(&row(&tool.name, &described.remove(at))),
            None => missing.push(tool),
        }
    }
    // Names that look like others, or are long, differ from the server's names.
    let renamed = described.len();
    rows.extend(described.iter().map(|described| row(&described.tool.name, described)));
    for tool in missing.iter().filter(|tool| !tool.enabled) {
        rows.push_str(&format!("| {} | | disabled |\n", line(&tool.name)));
    }
    let unlisted = missing.iter().filter(|tool| tool.enabled).skip(renamed);
    rows.extend(unlisted.map(|tool| format!("| {} | | not in the prompt |\n", line(&tool.name))));
    let tools = count(number as u64, "tool");
    format!("| tool | tokens | |\n|---|---:|---|\n{rows}\n{tools} in the prompt, {} tokens", short(sum))
}

fn row(name: &str, described: &Described) -> String {
    let about = described.tool.description.lines().next().unwrap_or_default();
    // The bridge names the server first.
    let about = about.split_once("] ").map_or(about, |(_, about)| about);
    format!("| {} | {} | {} |\n", line(name), short(described.tokens), line(&about.replace('|', "¦")))
}

/// Returns the part of the bridge's names that stands for a server. Labels of its tools begin with the name of the server.
fn part_of(server: &str, described: &Servers) -> String {
    let beginning = format!("{server}: ");
    let is_its = |tools: &[Described]| tools.iter().any(|described| described.tool.label.starts_with(&beginning));
    let found = described.iter().find(|(_, (tools, _))| is_its(tools));
    found.map_or_else(|| letters(server), |(part, _)| part.clone())
}

fn letters(name: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if is_letter(c) { c } else { '_' }).collect()
}

/// Lists the servers with their state and the tokens that their tools take in the next request.
fn list(base: &Base, agent: &Agent) -> String {
    let (config, servers) = (base.mcp_config(), base.mcp_servers().list());
    let described = described_servers(agent);
    let mut text = String::new();
    if servers.is_empty() && config.problems.is_empty() {
        return "no MCP servers; `pinion mcp add` adds one".to_owned();
    }
    text.push_str("| server | state | offers | tokens |\n|---|---|---|---:|\n");
    for info in &servers {
        let tokens = tokens(info, &described);
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

/// Returns the tokens of a server's tools, as `/context` shows them.
fn tokens(info: &ServerInfo, described: &Servers) -> String {
    match described.get(&part_of(&info.name, described)) {
        Some((_, sum)) => short(*sum),
        None if info.is_known && info.tools.iter().any(|tool| tool.enabled) => "not in the prompt".to_owned(),
        None => String::new(),
    }
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
fn switch(base: &Base, agent: &Agent, arguments: &str, enabled: bool) -> Result<String, CommandProblem> {
    let servers = base.mcp_servers();
    // Names of servers may have blanks, but names of tools do not.
    let (name, tool) = match base.mcp_config().find(arguments) {
        Some(_) => (arguments, None),
        None => match arguments.rsplit_once(char::is_whitespace) {
            Some((name, tool)) => (name.trim(), Some(tool)),
            None => (arguments, None),
        },
    };
    let config = servers.config(name).ok_or_else(|| unknown(base, name))?;
    let info = servers.list().into_iter().find(|info| info.name == name);
    let tools = info.map(|info| info.tools).unwrap_or_default();
    if let Some(tool) = tool.filter(|tool| !tools.is_empty() && !tools.iter().any(|known| known.name == *tool)) {
        let hint = match nearest(tool, tools.iter().map(|known| known.name.as_str())) {
            Some(meant) => format!("did you mean `{}`?", line(meant)),
            None => format!("`/mcp tools {}` lists its tools", line(name)),
        };
        return Err(CommandProblem::new(format!("MCP server `{}` has no tool `{}`", line(name), line(tool)), hint));
    }
    let done = match tool {
        None => servers.set_enabled(name, enabled),
        Some(tool) => {
            let mut filter = config.tools.clone();
            // Tools that earlier commands of this session switched off stay off.
            filter.disabled.extend(tools.into_iter().filter(|tool| !tool.enabled).map(|tool| tool.name));
            filter.disabled.retain(|other| other != tool);
            match (enabled, &mut filter.enabled) {
                (true, Some(only)) => only.push(tool.to_owned()),
                (true, None) => {}
                (false, _) => filter.disabled.push(tool.to_owned()),
            }
            servers.set_tools(name, filter)
        }
    };
    done.map_err(|error| CommandProblem::from_error(&error, base, name))?;
    let scope = config.source.scope;
    if scope != ConfigScope::Project
        && let Err(failure) = switch_in(base, scope, &file_with(base, &config.source), name, tool, enabled)
    {
        return Ok(format!("{}\n\n(only for this session: {})", list(base, agent), line(&failure.message())));
    }
    Ok(list(base, agent))
}

/// Lists the actions of `/mcp`, with the names of servers.
fn servers(base: &Base) -> Vec<PickChoice> {
    let config = base.mcp_config();
    let of_server = |verb: &str| {
        config.servers.iter().map(|server| choice(&format!("{verb} {}", server.name), "")).collect::<Vec<_>>()
    };
    let verbs = ["tools", "reconnect", "enable", "disable", "login", "logout"];
    verbs.into_iter().flat_map(of_server).chain([choice("reload", "reads the files of servers again")]).collect()
}
