//! `pinion mcp`: MCP servers, and plugins offered as one.

mod add;
mod hints;
mod import;
mod list;
mod serve;
mod talk;

use clap::{Args, Subcommand};
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_mcp::LoginMethod;
use pinion_mcp::config::ConfigScope;
use std::path::PathBuf;

/// The arguments of `pinion mcp`.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Add a server: a command after `--`, or the address of a server over HTTP
    ///
    /// Its programs run in the sandbox, without a network unless --network is given. Variables such as ${TOKEN} are
    /// written as they are, and expand when the server starts.
    #[command(after_help = "Examples:\n  pinion mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  \
                            pinion mcp add docs --url https://example.com/mcp --header 'Authorization=Bearer ${TOKEN}'")]
    Add(add::Add),
    /// Add a server from its entry in JSON
    AddJson {
        /// Name of the server
        name: String,
        /// Entry as in `mcpServers` of mcp.json, such as {"command": "npx", "args": ["-y", "x"]}
        entry: String,
        /// File to add it to
        #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
        scope: ScopeArgument,
        /// Replace a server of this name
        #[arg(long)]
        force: bool,
    },
    /// List servers, their offers, and the result of the last contact with each
    ///
    /// Starts no server, unless --check is given.
    List {
        /// Connect to each server that is enabled; exit with 1 if one does not connect
        #[arg(long)]
        check: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a server's settings
    Get {
        /// Name of the server
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a server from its file
    Remove {
        /// Name of the server
        name: String,
        /// File to remove it from [default: the one that has it, the user's first]
        #[arg(long, value_enum, value_name = "SCOPE")]
        scope: Option<ScopeArgument>,
    },
    /// Switch a server on, or one of its tools
    Enable {
        /// Name of the server
        name: String,
        /// Tool of the server
        tool: Option<String>,
    },
    /// Switch a server off, or one of its tools
    Disable {
        /// Name of the server
        name: String,
        /// Tool of the server
        tool: Option<String>,
    },
    /// Show the servers of other programs, and add them
    ///
    /// Looks for servers of Claude Code, Claude Desktop, Codex, Cursor and VS Code. Adds nothing without --yes or an answer.
    Import {
        /// File to read [default: all known ones]
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Import only servers of these names
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        only: Option<Vec<String>>,
        /// Add them without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Log in to a server over HTTP
    ///
    /// Opens a page in the browser, or prints its address. Where the browser is on another machine, enter the address to
    /// which the page redirected, or use --device.
    Login {
        /// Name of the server
        name: String,
        /// Log in with a code that can be entered on any device, if the server supports it
        #[arg(long)]
        device: bool,
    },
    /// Forget the login of a server
    Logout {
        /// Name of the server
        name: String,
    },
    /// Connect to a server and show its offer
    Test {
        /// Name of the server
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tools of a server
    Tools {
        /// Name of the server
        name: String,
        /// Print the tools as the server sent them, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool of a server and print its result
    Call {
        /// Name of the server
        server: String,
        /// Name of the tool
        tool: String,
        /// Arguments of the tool as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print the result as the server sent it, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Offer the tools of plugins to other agents, over stdio or HTTP
    ///
    /// The plugins have the grants, limits and ledgers that they have in a run. Calls pass the same rules, hooks and approval
    /// mode; those that need approval ask the client's user, and are denied if the client cannot ask.
    Serve(serve::Serve),
}

/// `--scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ScopeArgument {
    /// mcp.json beside config.toml, for all projects
    User,
    /// .mcp.json of the project, for everyone who works on it
    Project,
}

impl From<ScopeArgument> for ConfigScope {
    fn from(scope: ScopeArgument) -> Self {
        match scope {
            ScopeArgument::User => Self::User,
            ScopeArgument::Project => Self::Project,
        }
    }
}

impl Mcp {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = &invocation.base()?;
        match self.command {
            McpCommand::Add(add) => add.run(base),
            McpCommand::AddJson { name, entry, scope, force } => add::json(base, &name, &entry, scope.into(), force),
            McpCommand::List { check, json } => {
                let failed = if check { talk::check(base).await } else { 0 };
                list::list(base, json)?;
                talk::checked(failed)
            }
            McpCommand::Get { name, json } => list::get(base, &name, json),
            McpCommand::Remove { name, scope } => add::remove(base, &name, scope.map(ConfigScope::from)),
            McpCommand::Enable { name, tool } => add::switch(base, &name, tool.as_deref(), true),
            McpCommand::Disable { name, tool } => add::switch(base, &name, tool.as_deref(), false),
            McpCommand::Import { from, only, yes } => import::run(base, from.as_deref(), only.as_deref(), yes),
            McpCommand::Login { name, device } => {
                let method = if device { LoginMethod::Device } else { LoginMethod::Browser };
                talk::login(base, &name, method).await
            }
            McpCommand::Logout { name } => talk::logout(base, &name).await,
            McpCommand::Test { name, json } => talk::test(base, &name, json).await,
            McpCommand::Tools { name, json } => talk::tools(base, &name, json).await,
            McpCommand::Call { server, tool, arguments, json } => {
                talk::call(base, &server, &tool, &arguments, json).await
            }
            McpCommand::Serve(serve) => serve.run(base, invocation).await,
        }
    }
}

/// The failure of a command that names an unknown server.
fn unknown(base: &pinion_app::workspace_base::Base, name: &str) -> Failure {
    let config = base.read_mcp_config();
    let failure = Failure::usage(format!("no MCP server `{name}`"));
    if let Some(problem) = config.problems.iter().find(|problem| problem.problem.server.as_deref() == Some(name)) {
        return Failure::usage(problem.text());
    }
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    match pinion_app::names::nearest(name, names.iter().copied()) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None if names.is_empty() => failure.hint("`pinion mcp add` adds one"),
        None => failure.hint(format!("the servers are: {}", names.join(", "))),
    }
}
