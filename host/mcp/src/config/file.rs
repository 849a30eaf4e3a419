//! Files of servers: `mcp.json`, `.mcp.json` and `.pinion/mcp.json`.
//!
//! A file is an object with `mcpServers`, an object of servers by name. Mistakes concern one server where possible; the
//! others work. Unknown members are reported and have no effect, because other programs read the same files.

use super::expand::{Lookup, Unexpanded, Variables, expand};
use super::members::{Located, Mistake, without_comments};
use super::oauth::OAuth;
use super::{ConfigScope, ConfigSource, ServerConfig, ServerTransport, ToolFilter};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Bytes of a file.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// Servers of a file.
pub const MAX_SERVERS: usize = 256;
/// Bytes of a server's name.
const MAX_NAME: usize = 64;
/// Seconds of a limit.
const MAX_SECONDS: f64 = 7.0 * 86_400.0;
/// Notices of one file.
const MAX_NOTICES: usize = 20;

/// The content of a file of servers.
#[derive(Debug, Default)]
pub struct ServerFile {
    /// The servers that can be used, in the order of the file.
    pub servers: Vec<ServerConfig>,
    /// Mistakes of servers, and of the file itself.
    pub problems: Vec<ConfigProblem>,
    /// Texts about members without effect.
    pub notices: Vec<String>,
}

/// A mistake in a file, which disables a server or the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The server, unless the whole file is unusable.
    pub server: Option<String>,
    /// Line of the mistake, counted from 1.
    pub line: usize,
    /// The mistake.
    pub message: String,
    /// A remedy.
    pub hint: Option<String>,
}

impl ServerFile {
    /// Parses a file. Variables are looked up with `variables`; variables of switched-off servers need not exist.
    #[must_use]
    pub fn parse(text: &str, source: &ConfigSource, variables: Variables<'_>) -> Self {
        let mut file = Self::default();
        if let Err(mistake) = file.read(text, source, variables) {
            file.problems.push(ConfigProblem {
                server: None,
                line: mistake.line,
                message: mistake.message,
                hint: None,
            });
        }
        if file.notices.len() > MAX_NOTICES {
            let more = file.notices.len() - MAX_NOTICES;
            file.notices.truncate(MAX_NOTICES);
            file.notices.push(format!("{more} more members have no effect"));
        }
        file
    }

    fn read(&mut self, text: &str, source: &ConfigSource, variables: Variables<'_>) -> Result<(), Mistake> {
        if text.trim().is_empty() {
            return Ok(());
        }
        if text.len() > MAX_FILE_BYTES {
            return Err(Mistake::new(1, format!("it is longer than {MAX_FILE_BYTES} bytes")));
        }
        let text = without_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
        for (name, value) in Located::file(&text).members()? {
            match name.as_ref() {
                "mcpServers" => {
                    let servers = value.members()?;
                    if servers.len() > MAX_SERVERS {
                        let count = servers.len();
                        let message = format!("{count} servers, more than the maximum of {MAX_SERVERS}");
                        return Err(Mistake::new(value.line, message));
                    }
                    for (name, value) in servers {
                        self.server(&name, value, source, variables);
                    }
                }
                "$schema" => {}
                "servers" => self.notices.push(format!(
                    "line {}: `servers` is the form of an editor and has no effect (`pinion mcp import` reads it)",
                    value.line
                )),
                _ => self.notices.push(format!("line {}: unknown member `{name}` has no effect", value.line)),
            }
        }
        Ok(())
    }

    fn server(&mut self, name: &str, value: Located<'_>, source: &ConfigSource, variables: Variables<'_>) {
        let mut problem = |line, Unexpanded { message, hint }| {
            self.problems.push(ConfigProblem { server: Some(name.to_owned()), line, message, hint });
        };
        let checked = match name.split_once(':').filter(|_| source.scope == ConfigScope::Package) {
            Some((package, server)) => check_name(package).and_then(|()| check_name(server)),
            None => check_name(name),
        };
        if let Err(why) = checked {
            return problem(value.line, Unexpanded { message: why, hint: None });
        }
        let entry = match ServerEntry::read(value) {
            Ok(entry) => entry,
            Err(mistake) => return problem(mistake.line, Unexpanded { message: mistake.message, hint: None }),
        };
        self.notices.extend(entry.unknown.iter().map(|(member, line)| {
            format!("line {line}: unknown member `{member}` of the server `{name}` has no effect")
        }));
        match entry.config(name, source, variables) {
            Ok(config) => self.servers.push(config),
            Err((line, why)) => self.problems.push(ConfigProblem {
                server: Some(name.to_owned()),
                line,
                message: why.message,
                hint: why.hint,
            }),
        }
    }
}

/// Checks the name of a server: 1 to 64 letters, digits, `_`, `-`, `.` and inner blanks.
///
/// # Errors
/// The text names the problem.
pub fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    match name {
        "" => Err("a server needs a name".to_owned()),
        _ if name.len() > MAX_NAME => Err(format!("the name has more than {MAX_NAME} characters")),
        _ if !name.chars().all(allowed) || name.trim() != name => {
            Err("the name may have letters, digits, `_`, `-`, `.` and inner blanks".to_owned())
        }
        _ => Ok(()),
    }
}

/// The members of a server as written, each with its line.
#[derive(Default)]
struct ServerEntry {
    line: usize,
    kind: Option<(String, usize)>,
    command: Option<(String, usize)>,
    args: (Vec<Plain>, usize),
    env: (BTreeMap<String, Option<Plain>>, usize),
    cwd: Option<(String, usize)>,
    url: Option<(String, usize)>,
    headers: (BTreeMap<String, Option<Plain>>, usize),
    disabled: bool,
    enabled_tools: Option<Vec<String>>,
    disabled_tools: Vec<String>,
    startup: Option<Duration>,
    call: Option<Duration>,
    idle: Option<Option<Duration>>,
    network: bool,
    write: Option<bool>,
    oauth: Option<(OAuth, usize)>,
    unknown: Vec<(String, usize)>,
}

/// A value of an environment variable or header, or an argument.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a text, a number or a switch")]
enum Plain {
    Text(String),
    Number(serde_json::Number),
    Switch(bool),
}

impl Plain {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Switch(switch) => switch.to_string(),
        }
    }
}

/// Returns the members that are not null, which is how some programs write an unset one.
fn given(members: &BTreeMap<String, Option<Plain>>) -> impl Iterator<Item = (&String, &Plain)> {
    members.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
}

impl ServerEntry {
    fn read(value: Located<'_>) -> Result<Self, Mistake> {
        let mut entry = Self { line: value.line, ..Self::default() };
        for (name, value) in value.members()? {
            let line = value.line;
            if value.is_null() {
                continue;
            }
            let named = |mistake: Mistake| Mistake::new(mistake.line, format!("`{name}`: {}", mistake.message));
            fn read<T: DeserializeOwned>(value: Located<'_>) -> Result<T, Mistake> {
                value.read()
            }
            match name.as_ref() {
                "type" | "transport" => entry.kind = Some((read(value).map_err(named)?, line)),
                "command" => entry.command = Some((read(value).map_err(named)?, line)),
                "args" => entry.args = (read(value).map_err(named)?, line),
                "env" => entry.env = (read(value).map_err(named)?, line),
                "cwd" => entry.cwd = Some((read(value).map_err(named)?, line)),
                "url" | "httpUrl" | "serverUrl" => entry.url = Some((read(value).map_err(named)?, line)),
                "headers" => entry.headers = (read(value).map_err(named)?, line),
                "disabled" => entry.disabled = read(value).map_err(named)?,
                "enabled" => entry.disabled = !read::<bool>(value).map_err(named)?,
                "enabledTools" | "includeTools" => entry.enabled_tools = Some(read(value).map_err(named)?),
                "disabledTools" | "excludeTools" => entry.disabled_tools = read(value).map_err(named)?,
                "startupTimeoutSeconds" => entry.startup = Some(seconds(value).map_err(named)?),
                "callTimeoutSeconds" => entry.call = Some(seconds(value).map_err(named)?),
                "idleTimeoutSeconds" => {
                    let never = value.read::<f64>().is_ok_and(|number| number == 0.0);
                    entry.idle = Some(if never { None } else { Some(seconds(value).map_err(named)?) });
                }
                "network" => entry.network = read(value).map_err(named)?,
                "write" => entry.write = Some(read(value).map_err(named)?),
                "oauth" => entry.oauth = Some((read(value).map_err(named)?, line)),
                "description" => {}
                _ => entry.unknown.push((name.into_owned(), line)),
            }
        }
        Ok(entry)
    }

    fn config(
        self,
        name: &str,
        source: &ConfigSource,
        variables: Variables<'_>,
    ) -> Result<ServerConfig, (usize, Unexpanded)> {
        let is_off = self.disabled;
        let filled = |text: &str, line: usize| match expand(text, variables) {
            // A server that is switched off needs no variables, and is shown as it is written.
            Err(_) if is_off => Ok(text.to_owned()),
            expanded => expanded.map_err(|why| (line, why)),
        };
        let wrong = |line, message: String| Err((line, Unexpanded { message, hint: None }));
        let kind = self.kind.as_ref().map(|(kind, line)| (kind.as_str(), *line));
        let transport = match (&self.command, &self.url, kind) {
            (Some(_), Some((_, line)), None) => {
                return wrong(*line, "it has both `command` and `url`".to_owned());
            }
            (Some((command, line)), None, None) | (Some((command, line)), _, Some(("stdio" | "local", _))) => {
                let command = filled(command, *line)?;
                if command.trim().is_empty() || command.contains('\0') {
                    return wrong(*line, "`command` is not the name of a program".to_owned());
                }
                let args = self.args.0.iter().map(|arg| filled(&arg.text(), self.args.1)).collect::<Result<_, _>>()?;
                let mut env = BTreeMap::new();
                for (name, value) in given(&self.env.0) {
                    if name.is_empty() || name.contains(['=', '\0']) {
                        return wrong(self.env.1, "`env` has a name that no variable can have".to_owned());
                    }
                    env.insert(name.clone(), filled(&value.text(), self.env.1)?);
                }
                let cwd = self.cwd.as_ref().map(|(cwd, line)| filled(cwd, *line).map(PathBuf::from)).transpose()?;
                ServerTransport::Stdio { command, args, env, cwd }
            }
            (_, Some((url, line)), kind) => {
                let sse = match kind {
                    None | Some(("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote", _)) => {
                        false
                    }
                    Some(("sse", _)) => true,
                    Some((other, line)) => return wrong(line, format!("unknown `type` \"{other}\"")),
                };
                let text = filled(url, *line)?;
                let url = address(&text).map_err(|message| (*line, Unexpanded { message, hint: None }))?;
                let mut headers = BTreeMap::new();
                for (name, value) in given(&self.headers.0) {
                    let value = filled(&value.text(), self.headers.1)?;
                    let is_valid = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                        && http::HeaderValue::from_str(&value).is_ok();
                    if !is_valid {
                        return wrong(self.headers.1, format!("`headers`: `{name}` is not a valid header"));
                    }
                    headers.insert(name.clone(), SecretString::from(value));
                }
                ServerTransport::Http { url, headers, sse }
            }
            (_, None, Some(("http" | "streamable-http" | "sse", line))) => {
                return wrong(line, "it has no `url`".to_owned());
            }
            (_, None, Some((other, line))) if other != "stdio" => {
                return wrong(line, format!("unknown `type` \"{other}\""));
            }
            (None, None, _) | (Some(_), None, Some(_)) => {
                return wrong(self.line, "it has neither `command` nor `url`".to_owned());
            }
        };
        let mut config = ServerConfig::new(name, transport);
        if let Some((oauth, line)) = &self.oauth {
            config.oauth =
                oauth.config(|text| filled(text, *line).map_err(|(_, why)| why)).map_err(|why| (*line, why))?;
        }
        config.enabled = !self.disabled;
        config.tools = ToolFilter { enabled: self.enabled_tools, disabled: self.disabled_tools };
        config.has_startup_limit = self.startup.is_some();
        config.startup_timeout = self.startup.unwrap_or(config.startup_timeout);
        config.call_timeout = self.call.unwrap_or(config.call_timeout);
        config.idle_timeout = self.idle.unwrap_or(config.idle_timeout);
        config.network = self.network;
        config.write = self.write.unwrap_or(config.write);
        config.source = source.clone();
        Ok(config)
    }
}

/// Parses the address of a server over HTTP.
///
/// # Errors
/// It is no URL of a host, or has another scheme than `http` and `https`.
pub fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`url`: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("`url` must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`url` must not contain a password (use `headers`)".to_owned());
    }
    Ok(url)
}

fn seconds(value: Located<'_>) -> Result<Duration, Mistake> {
    let number: f64 = value.read()?;
    match number > 0.0 && number <= MAX_SECONDS {
        true => Ok(Duration::from_secs_f64(number)),
        false => Err(Mistake::new(value.line, format!("expected seconds from 0 to {MAX_SECONDS}"))),
    }
}

/// Looks up no variables: for files that are only shown or changed.
#[must_use]
pub fn no_variables(_name: &str) -> Lookup {
    Lookup::NotSet
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
