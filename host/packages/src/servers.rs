//! MCP servers of packages: their places in each format, and the checks of their entries.
//!
//! An entry is taken over in the form of the user's `mcp.json`, with few members. Its program is a bare name or a file of
//! the package. Variables stand for values of the user's environment only in the formats that say so; the user sees the
//! names. A mistake in an entry costs this entry alone.

use crate::files::PackageFiles;
use crate::json::parse_strict;
use crate::package::PackageError;
use crate::placeholders::{Placeholders, leads_out, package_path, with_own_names};
use crate::source::checked_url;
use serde_json::{Map, Value, json};

/// The schema that version 1.0.0 of Agent Plugins names.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
/// Maximum servers of a package, arguments or variables of one, and bytes of a text in an entry.
const MAX_SERVERS: usize = 64;
const MAX_TEXTS: usize = 256;
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Maximum bytes of a name.
const MAX_NAME: usize = 64;
/// Variables that the host sets for the programs of a package.
const HOST_VARIABLES: [&str; 4] = ["PLUGIN_ROOT", "PLUGIN_DATA", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"];

/// An MCP server of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedServer {
    /// Name in the package.
    pub name: String,
    /// Entry in the form of `mcp.json`, as JSON in one line. `${PLUGIN_ROOT}` stands for the directory of the package, and
    /// `${PLUGIN_DATA}` for a directory that updates keep.
    pub entry: String,
    /// Variables of the user's environment whose values it gets.
    pub variables: Vec<String>,
}

impl PackagedServer {
    /// Describes the server for the user: its command line or address, its variables and its access.
    pub fn summary(&self) -> String {
        let entry: Value = serde_json::from_str(&self.entry).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let words = entry["args"].as_array().into_iter().flatten().map(text);
        let mut parts = match entry["command"].as_str() {
            Some(command) => vec![std::iter::once(command.to_owned()).chain(words).collect::<Vec<_>>().join(" ")],
            None => vec![text(&entry["url"])],
        };
        let named = |member: &str| -> Vec<String> {
            let members = entry[member].as_object().into_iter().flatten();
            let members = members.filter(|(name, _)| !HOST_VARIABLES.contains(&name.as_str()));
            members.map(|(name, value)| format!("{name}={}", text(value))).collect()
        };
        for (member, verb) in [("env", "sets"), ("headers", "sends")] {
            let named = named(member);
            parts.extend((!named.is_empty()).then(|| format!("{verb} {}", named.join(" "))));
        }
        if !self.variables.is_empty() {
            parts.push(format!("reads your environment: {}", self.variables.join(" ")));
        }
        let access = [("network", "uses the network"), ("write", "writes the workspace")];
        parts.extend(access.iter().filter(|(member, _)| entry[member] == true).map(|(_, phrase)| (*phrase).to_owned()));
        parts.join("; ")
    }

    /// Returns the file of the package that is its program, if it is one.
    pub(crate) fn program(&self) -> Option<String> {
        let entry: Value = serde_json::from_str(&self.entry).ok()?;
        Some(entry["command"].as_str()?.strip_prefix("${PLUGIN_ROOT}/")?.to_owned())
    }
}

/// The rules of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerFormat {
    /// Agent Plugins: a closed set of members, and no variables of the environment.
    Agent,
    /// Claude's and Codex' formats.
    Vendor,
}

/// The servers of a package, while its manifests are read.
#[derive(Debug, Default)]
pub(crate) struct ServerList {
    pub(crate) servers: Vec<PackagedServer>,
    /// Files that were read, which a manifest may name, too.
    read: Vec<String>,
}

impl ServerList {
    /// Reads the files with fixed names. `access` is the part of the manifest that adds members of this program.
    pub(crate) fn read_files(
        &mut self,
        files: &PackageFiles,
        access: &Value,
        notices: &mut Vec<String>,
    ) -> Result<(), PackageError> {
        for (path, format) in [("mcp.json", ServerFormat::Agent), (".mcp.json", ServerFormat::Vendor)] {
            if files.get(path).is_some() {
                self.read_file(files, path, format, access, notices)?;
            }
        }
        Ok(())
    }

    /// Reads the member `mcpServers` of a manifest: a path, an object of servers, or a list of these.
    pub(crate) fn read_member(
        &mut self,
        files: &PackageFiles,
        manifest: &str,
        member: &Value,
        notices: &mut Vec<String>,
    ) -> Result<(), PackageError> {
        match member {
            Value::Null => Ok(()),
            Value::String(path) => match package_path(path).filter(|path| files.get(path).is_some()) {
                Some(path) => self.read_file(files, &path, ServerFormat::Vendor, &Value::Null, notices),
                None => {
                    notices.push(format!("`mcpServers` in {manifest} names no file of the package: `{}`", shown(path)));
                    Ok(())
                }
            },
            Value::Object(servers) => {
                let servers = servers.get("mcpServers").and_then(Value::as_object).unwrap_or(servers);
                self.add_all(files, manifest, servers, (ServerFormat::Vendor, &Value::Null), notices)
            }
            Value::Array(members) if members.len() <= MAX_SERVERS && !members.iter().any(Value::is_array) => {
                members.iter().try_for_each(|member| self.read_member(files, manifest, member, notices))
            }
            _ => {
                notices.push(format!("`mcpServers` in {manifest} is neither a path nor an object of servers"));
                Ok(())
            }
        }
    }

    fn read_file(
        &mut self,
        files: &PackageFiles,
        path: &str,
        format: ServerFormat,
        access: &Value,
        notices: &mut Vec<String>,
    ) -> Result<(), PackageError> {
        if self.read.iter().any(|read| read == path) {
            return Ok(());
        }
        self.read.push(path.to_owned());
        let servers = parse_strict(files.get(path).unwrap_or_default());
        match servers.and_then(|servers| servers_of(servers, format)) {
            Ok(servers) => self.add_all(files, path, &servers, (format, access), notices),
            Err(problem) => {
                notices.push(format!("`{}` is not used: {problem}", shown(path)));
                Ok(())
            }
        }
    }

    fn add_all(
        &mut self,
        files: &PackageFiles,
        place: &str,
        servers: &Map<String, Value>,
        (format, access): (ServerFormat, &Value),
        notices: &mut Vec<String>,
    ) -> Result<(), PackageError> {
        for (name, value) in servers {
            let mut value = value.clone();
            if format == ServerFormat::Vendor {
                let known = |member: &str| VENDOR_MEMBERS.contains(&member) || IGNORED_MEMBERS.contains(&member);
                let unknown: Vec<String> =
                    value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
                for member in unknown.iter().filter(|member| !known(member)) {
                    let (member, name) = (shown(member), shown(name));
                    notices.push(format!("`{member}` of MCP server `{name}` in {place} has no effect"));
                }
            }
            for member in ["network", "write"] {
                if access[name.as_str()][member] == true
                    && let Some(members) = value.as_object_mut()
                {
                    members.insert(member.to_owned(), Value::Bool(true));
                }
            }
            match read_server(files, name, &value, format) {
                Ok(server) => self.add(server, place, notices)?,
                Err(problem) => {
                    notices.push(format!("MCP server `{}` in {place} is not used: {problem}", shown(name)));
                }
            }
        }
        Ok(())
    }

    /// Adds a server. Two places that define a name differently may mean different things to the reviewer and the user.
    fn add(&mut self, server: PackagedServer, place: &str, notices: &mut Vec<String>) -> Result<(), PackageError> {
        match self.servers.iter().find(|known| known.name.eq_ignore_ascii_case(&server.name)) {
            Some(known) if known.name == server.name && has_same_target(known, &server) => Ok(()),
            Some(known) => Err(PackageError::Manifest {
                path: place.to_owned(),
                problem: format!("the MCP server `{}` differs from another one called `{}`", server.name, known.name),
            }),
            None if self.servers.len() >= MAX_SERVERS => {
                let name = &server.name;
                notices.push(format!("MCP server `{name}` is not used: more than {MAX_SERVERS} servers"));
                Ok(())
            }
            None => {
                self.servers.push(server);
                Ok(())
            }
        }
    }
}

/// Members of an entry that Claude's formats have and this program uses, and members that it need not mention.
const VENDOR_MEMBERS: &[&str] = &["type", "command", "args", "env", "cwd", "url", "headers", "network", "write"];
const IGNORED_MEMBERS: &[&str] = &["description", "transport"];
/// Members that Agent Plugins 1.0 has for a program and for an address, with the ones that a manifest adds.
const PROGRAM_MEMBERS: &[&str] = &["type", "command", "args", "env", "cwd", "network", "write"];
const ADDRESS_MEMBERS: &[&str] = &["type", "url", "headers", "network", "write"];

fn shown(text: &str) -> String {
    text.chars().take(MAX_NAME).collect::<String>().escape_debug().to_string()
}

/// Returns the servers of a file.
fn servers_of(file: Value, format: ServerFormat) -> Result<Map<String, Value>, String> {
    let members = file.as_object().ok_or("it is not an object")?;
    if format == ServerFormat::Agent && members.get("$schema").is_some_and(|schema| schema != SCHEMA) {
        return Err("its version is not the version of plugin.json".to_owned());
    }
    let is_entry = |value: &Value| value.get("command").is_some() || value.get("url").is_some();
    let servers = match members.get("mcpServers") {
        Some(servers) => servers.as_object().ok_or("`mcpServers` is not an object")?,
        // Some plugins of Claude list servers without a member around them.
        None if format == ServerFormat::Vendor && members.values().any(is_entry) => members,
        None => return Err("it names no server".to_owned()),
    };
    if servers.is_empty() { Err("it names no server".to_owned()) } else { Ok(servers.clone()) }
}

/// Returns whether two entries start the same program or ask the same address.
fn has_same_target(one: &PackagedServer, other: &PackagedServer) -> bool {
    let target = |server: &PackagedServer| -> Vec<Value> {
        let entry: Value = serde_json::from_str(&server.entry).unwrap_or_default();
        ["command", "args", "url"].map(|member| entry[member].clone()).to_vec()
    };
    target(one) == target(other)
}

fn read_server(
    files: &PackageFiles,
    name: &str,
    value: &Value,
    format: ServerFormat,
) -> Result<PackagedServer, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
        return Err(format!("a name has 1 to {MAX_NAME} letters, digits, `_`, `-` and `.`"));
    }
    let members = value.as_object().ok_or("it is not an object")?;
    let mut placeholders = Placeholders::default();
    let kind = members.get("type").map(|kind| kind.as_str().ok_or("`type` is not a text")).transpose()?;
    let is_program = match (kind, members.contains_key("command"), members.contains_key("url")) {
        (Some("stdio"), true, _) | (None, true, false) => true,
        (Some("http" | "streamable-http" | "streamableHttp" | "sse"), _, true) | (None, false, true) => false,
        (Some(_), ..) => return Err("its `type` fits neither its program nor its address".to_owned()),
        (None, ..) => return Err("it needs either `command` or `url`".to_owned()),
    };
    if format == ServerFormat::Agent {
        let known = if is_program { PROGRAM_MEMBERS } else { ADDRESS_MEMBERS };
        if let Some(other) = members.keys().find(|member| !known.contains(&member.as_str())) {
            return Err(format!("`{}` is not a member of its format", shown(other)));
        }
        kind.ok_or("`type` is missing")?;
    }
    let mut entry = match is_program {
        true => read_program(files, members, format, &mut placeholders)?,
        false => read_address(members, kind == Some("sse"), &mut placeholders)?,
    };
    let switch = |member: &str| match members.get(member) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| format!("`{member}` is neither true nor false")),
    };
    if is_program {
        // Deny by default: an entry has to ask for both.
        entry.insert("network".to_owned(), switch("network")?.into());
        entry.insert("write".to_owned(), switch("write")?.into());
    }
    let variables = if format == ServerFormat::Vendor { placeholders.variables() } else { Vec::new() };
    Ok(PackagedServer { name: name.to_owned(), entry: Value::Object(entry).to_string(), variables })
}

fn read_program(
    files: &PackageFiles,
    members: &Map<String, Value>,
    format: ServerFormat,
    placeholders: &mut Placeholders,
) -> Result<Map<String, Value>, String> {
    let mut entry = Map::new();
    let command = with_own_names(&text(members.get("command"), "command")?);
    let below = command.strip_prefix("${PLUGIN_ROOT}/").or_else(|| command.strip_prefix("./"));
    let command = match below.map(package_path) {
        Some(Some(path)) if files.get(&path).is_some() => format!("${{PLUGIN_ROOT}}/{path}"),
        Some(Some(path)) => return Err(format!("the package has no file `{}`", shown(&path))),
        Some(None) => return Err("its command leads out of the package".to_owned()),
        None if is_bare(&command) => command,
        None => return Err("its command is neither the name of a program nor a file of the package".to_owned()),
    };
    entry.insert("command".to_owned(), command.into());
    let mut args = Vec::new();
    for arg in list(members.get("args"), "args")? {
        let arg = with_own_names(&text(Some(arg), "args")?);
        placeholders.scan(&arg)?;
        if leads_out(&arg) {
            return Err(format!("its argument `{}` leads out of the package", shown(&arg)));
        }
        args.push(Value::from(arg));
    }
    entry.insert("args".to_owned(), args.into());
    let mut variables = pairs(members.get("env"), "env", placeholders)?;
    if let Some(reserved) = variables.keys().find(|name| HOST_VARIABLES.contains(&name.as_str())) {
        return Err(format!("`env` sets `{reserved}`, which the host sets"));
    }
    let own = if format == ServerFormat::Agent { &HOST_VARIABLES[..2] } else { &HOST_VARIABLES[..] };
    for name in own {
        let place = if name.ends_with("ROOT") { "${PLUGIN_ROOT}" } else { "${PLUGIN_DATA}" };
        variables.insert((*name).to_owned(), place.into());
    }
    entry.insert("env".to_owned(), variables.into());
    match members.get("cwd") {
        Some(cwd) => {
            let cwd = with_own_names(&text(Some(cwd), "cwd")?);
            let cwd = cwd.strip_prefix("./").map_or(cwd.clone(), |rest| format!("${{PLUGIN_ROOT}}/{rest}"));
            let is_own = ["${PLUGIN_ROOT}", "${PLUGIN_DATA}"]
                .iter()
                .any(|own| cwd.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
            if !is_own || leads_out(&cwd) || cwd.matches("${").count() > 1 {
                return Err("its `cwd` leads out of the package".to_owned());
            }
            entry.insert("cwd".to_owned(), cwd.into());
        }
        None if format == ServerFormat::Agent => {
            entry.insert("cwd".to_owned(), "${PLUGIN_ROOT}".into());
        }
        None => {}
    }
    Ok(entry)
}

fn read_address(
    members: &Map<String, Value>,
    is_sse: bool,
    placeholders: &mut Placeholders,
) -> Result<Map<String, Value>, String> {
    let url = text(members.get("url"), "url")?;
    placeholders.scan(&url)?;
    let parsed = checked_url(&url)?;
    // Braces are percent-encoded in paths, but a host keeps them or is refused.
    if parsed.host_str().is_none_or(|host| host.contains(['$', '{', '}', '%'])) {
        return Err("the host of its `url` is a variable".to_owned());
    }
    let headers = pairs(members.get("headers"), "headers", placeholders)?;
    let kind = if is_sse { "sse" } else { "http" };
    let entry = json!({ "type": kind, "url": url, "headers": headers });
    Ok(entry.as_object().cloned().unwrap_or_default())
}

/// Returns whether a command is a single name, which the system looks for in the directories of programs.
fn is_bare(command: &str) -> bool {
    let is_other = |c: char| c.is_whitespace() || c.is_control() || "/\\$~".contains(c);
    !command.is_empty() && !command.starts_with('-') && !command.contains(is_other) && command != ".."
}

fn text(value: Option<&Value>, member: &str) -> Result<String, String> {
    let text = match value {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => return Err(format!("`{member}` is not a text")),
    };
    if text.len() > MAX_TEXT_BYTES || text.contains('\0') {
        return Err(format!("`{member}` is longer than {MAX_TEXT_BYTES} bytes, or has a zero byte"));
    }
    Ok(text)
}

fn list<'a>(value: Option<&'a Value>, member: &str) -> Result<&'a [Value], String> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(values)) if values.len() <= MAX_TEXTS => Ok(values),
        Some(_) => Err(format!("`{member}` is not a list of at most {MAX_TEXTS} texts")),
    }
}

/// Reads names with values.
fn pairs(value: Option<&Value>, member: &str, placeholders: &mut Placeholders) -> Result<Map<String, Value>, String> {
    let given = match value {
        None => return Ok(Map::new()),
        Some(Value::Object(given)) if given.len() <= MAX_TEXTS => given,
        Some(_) => return Err(format!("`{member}` is not an object of at most {MAX_TEXTS} texts")),
    };
    let mut pairs = Map::new();
    for (name, value) in given {
        if name.is_empty()
            || name.len() > MAX_NAME
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        {
            return Err(format!("`{member}` has the invalid name `{}`", shown(name)));
        }
        let value = with_own_names(&text(Some(value), member)?);
        placeholders.scan(&value)?;
        pairs.insert(name.clone(), value.into());
    }
    Ok(pairs)
}
