//! `pinion mcp add`, `add-json`, `remove`, `enable` and `disable`.

use super::{ScopeArgument, unknown};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::mcp::edit::{edit, switch_in};
use pinion_app::mcp::files::{file_of, file_with};
use pinion_app::workspace_base::Base;
use pinion_console::output::{note, print, text};
use pinion_mcp::config::{ConfigScope, ConfigSource, Lookup, ServerFile, check_name};
use serde_json::{Map, Value, json};

/// The arguments of `pinion mcp add`.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the server
    name: String,
    /// Address of a server over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Header of requests to the address, as NAME=VALUE or 'NAME: VALUE'
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,
    /// Transport of the address
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value = "http", requires = "url")]
    transport: TransportArgument,
    /// OAuth client registered in advance
    #[arg(long, value_name = "ID", requires = "url")]
    client_id: Option<String>,
    /// Port of the redirect address of a login
    #[arg(long, value_name = "PORT", requires = "url")]
    redirect_port: Option<u16>,
    /// Redirect address of a login, if the client is registered with another one than http://127.0.0.1:PORT/callback
    #[arg(long, value_name = "URL", requires = "url")]
    redirect_uri: Option<String>,
    /// Environment variable of the command
    #[arg(long = "env", value_name = "NAME=VALUE", conflicts_with = "url")]
    environment: Vec<String>,
    /// Working directory of the command [default: the workspace]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<String>,
    /// Let the command use the network
    #[arg(long, conflicts_with = "url")]
    network: bool,
    /// Keep the command from writing in the workspace
    #[arg(long, conflicts_with = "url")]
    read_only: bool,
    /// File to add the server to
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
    scope: ScopeArgument,
    /// Replace a server of this name
    #[arg(long)]
    force: bool,
    /// Command of the server and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TransportArgument {
    /// Streamable HTTP, with a fallback to older servers
    Http,
    /// HTTP with server-sent events, of servers before 2025-03-26
    Sse,
}

impl Add {
    pub(super) fn run(self, base: &Base) -> Result<()> {
        let entry = self.entry()?;
        add(base, &self.name, entry, self.scope.into(), self.force)
    }

    fn entry(&self) -> Result<Value> {
        let mut entry = Map::new();
        match (&self.url, self.command.split_first()) {
            (Some(url), _) => {
                entry.insert(
                    "type".to_owned(),
                    json!(if self.transport == TransportArgument::Sse { "sse" } else { "http" }),
                );
                entry.insert("url".to_owned(), json!(url));
                let headers = pairs(&self.headers, &['=', ':'], "--header")?;
                if !headers.is_empty() {
                    entry.insert("headers".to_owned(), Value::Object(headers));
                }
                let mut oauth = Map::new();
                oauth.extend(self.client_id.as_ref().map(|id| ("clientId".to_owned(), json!(id))));
                oauth.extend(self.redirect_port.map(|port| ("redirectPort".to_owned(), json!(port))));
                oauth.extend(self.redirect_uri.as_ref().map(|uri| ("redirectUri".to_owned(), json!(uri))));
                if !oauth.is_empty() {
                    entry.insert("oauth".to_owned(), Value::Object(oauth));
                }
            }
            (None, Some((command, args))) => {
                entry.insert("command".to_owned(), json!(command));
                entry.insert("args".to_owned(), json!(args));
                let environment = pairs(&self.environment, &['='], "--env")?;
                if !environment.is_empty() {
                    entry.insert("env".to_owned(), Value::Object(environment));
                }
                entry.extend(self.cwd.as_ref().map(|cwd| ("cwd".to_owned(), json!(cwd))));
                if self.network {
                    entry.insert("network".to_owned(), json!(true));
                }
                if self.read_only {
                    entry.insert("write".to_owned(), json!(false));
                }
            }
            (None, None) => {
                return Err(Failure::usage("a server needs a command or an address")
                    .hint(format!("pinion mcp add {} -- COMMAND [ARG]..., or --url URL", self.name)));
            }
        }
        Ok(Value::Object(entry))
    }
}

/// Splits pairs of names and values.
fn pairs(texts: &[String], separators: &[char], option: &str) -> Result<Map<String, Value>> {
    let split = |text: &String| match text.split_once(|c| separators.contains(&c)) {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), json!(value.trim_start()))),
        _ => Err(Failure::usage(format!("`{option}` needs NAME=VALUE")).hint("quote the value, because of the shell")),
    };
    texts.iter().map(split).collect()
}

/// Adds an entry that was written as JSON.
pub(super) fn json(base: &Base, name: &str, entry: &str, scope: ConfigScope, force: bool) -> Result<()> {
    let entry: Value = serde_json::from_str(entry).map_err(|error| {
        Failure::usage("invalid JSON")
            .because(error)
            .hint("for example '{\"command\": \"npx\", \"args\": [\"-y\", \"x\"]}'")
    })?;
    add(base, name, entry, scope, force)
}

/// Checks an entry and adds it to the file of a scope.
fn add(base: &Base, name: &str, entry: Value, scope: ConfigScope, force: bool) -> Result<()> {
    check_name(name).map_err(|why| Failure::usage(format!("cannot add `{name}`: {why}")))?;
    let path = file_of(base, scope);
    for notice in check(name, &entry)? {
        note(&text!("! {}", notice));
    }
    edit(base, scope, &path, |editor| {
        if editor.get(name).is_some() && !force {
            return Err(Failure::usage(format!("`{}` has a server `{name}` already", path.display()))
                .hint("--force replaces it, and `pinion mcp remove` removes it"));
        }
        editor.set(name, entry.clone()).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(((), true))
    })?;
    print(&text!("added MCP server `{}` to `{}`\n", name, path))?;
    if scope == ConfigScope::Project && !base.config.project.is_trusted() {
        note(&text!("! the project is not trusted: `pinion trust add` puts its servers into effect"));
    }
    if is_without_network(&entry) {
        note(&text!("  it runs without a network; `\"network\": true` in its entry, or --network, allows it"));
    }
    note(&text!("  `pinion mcp test {}` connects to it and shows its tools", name));
    Ok(())
}

fn is_without_network(entry: &Value) -> bool {
    entry.get("command").is_some() && entry.get("network") != Some(&Value::Bool(true))
}

/// Checks an entry as it will be read. Variables need not be set yet. Returns notices.
pub(super) fn check(name: &str, entry: &Value) -> Result<Vec<String>> {
    let text = json!({ "mcpServers": { name: entry } }).to_string();
    let file = ServerFile::parse(&text, &ConfigSource::default(), &|_| Lookup::Value("x".to_owned()));
    match file.problems.first() {
        Some(problem) => Err(Failure::usage(format!("cannot add `{name}`: {}", problem.message))),
        None => Ok(file.notices),
    }
}

/// Removes a server from the file that has it.
pub(super) fn remove(base: &Base, name: &str, scope: Option<ConfigScope>) -> Result<()> {
    let scopes = scope.map_or(vec![ConfigScope::User, ConfigScope::Project], |scope| vec![scope]);
    for scope in scopes {
        for path in files(base, scope) {
            if path.exists() && edit(base, scope, &path, |editor| Ok(twice(editor.remove(name))))? {
                return print(&text!("removed MCP server `{}` from `{}`\n", name, path));
            }
        }
    }
    match name.split_once(':').filter(|_| base.read_mcp_config().find(name).is_some()) {
        Some((package, _)) => {
            Err(Failure::usage(format!("`{name}` belongs to the package `{package}`")).hint(format!(
                "`pinion mcp disable {name}` switches it off, and `pinion plugin remove {package}` removes the package"
            )))
        }
        None => Err(unknown(base, name)),
    }
}

fn files(base: &Base, scope: ConfigScope) -> Vec<std::path::PathBuf> {
    match scope {
        ConfigScope::User => vec![base.paths.mcp_file()],
        ConfigScope::Package => Vec::new(),
        ConfigScope::Project => {
            pinion_app::files::paths::PROJECT_SERVERS.iter().map(|path| base.workspace.join(path)).collect()
        }
    }
}

fn twice(value: bool) -> (bool, bool) {
    (value, value)
}

/// Switches a server or one of its tools on or off, in the file that has the server.
pub(super) fn switch(base: &Base, name: &str, tool: Option<&str>, enabled: bool) -> Result<()> {
    let config = base.read_mcp_config();
    let source = config.find(name).map(|server| server.source.clone());
    let broken = || {
        let mut problems = config.problems.iter();
        Some(problems.find(|problem| problem.problem.server.as_deref() == Some(name))?.source.clone())
    };
    let source = source.or_else(broken).ok_or_else(|| unknown(base, name))?;
    let path = file_with(base, &source);
    let changed = switch_in(base, source.scope, &path, name, tool, enabled)?;
    let state = if enabled { "enabled" } else { "disabled" };
    match (changed, tool) {
        (false, _) => Err(unknown(base, name)),
        (true, None) => print(&text!("{} MCP server `{}`\n", state, name)),
        (true, Some(tool)) => print(&text!("{} tool `{}` of MCP server `{}`\n", state, tool, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_the_first_separator() {
        let texts = ["A=b=c".to_owned(), "Authorization: Bearer x".to_owned()];
        let split = pairs(&texts, &['=', ':'], "--header").unwrap();
        assert_eq!(Value::Object(split).to_string(), r#"{"A":"b=c","Authorization":"Bearer x"}"#);
        assert!(
            pairs(&["x".to_owned()], &['='], "--env").is_err() && pairs(&["=x".to_owned()], &['='], "--env").is_err()
        );
    }
}
