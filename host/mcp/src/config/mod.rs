//! Configuration of MCP servers.

mod edit;
mod expand;
mod file;
mod import;
mod members;
mod oauth;

pub use edit::{EditError, Editor};
pub use expand::{Lookup, Variables};
pub use file::{ConfigProblem, MAX_FILE_BYTES, MAX_SERVERS, ServerFile, address, check_name, no_variables};
pub use import::{ImportFormat, ImportedServer, import};

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

/// One configured server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Name that tools, commands and messages use for the server.
    pub name: String,
    /// Command or address of the server.
    pub transport: ServerTransport,
    /// False for a server the user switched off: it never starts and offers nothing.
    pub enabled: bool,
    /// Tools of the server that are offered.
    pub tools: ToolFilter,
    /// Limit on connecting and fetching the catalogue.
    pub startup_timeout: Duration,
    /// True if the entry has a limit on connecting.
    pub has_startup_limit: bool,
    /// Limit on one request.
    pub call_timeout: Duration,
    /// Time without requests until the connection is closed; `None` keeps it.
    pub idle_timeout: Option<Duration>,
    /// File the entry comes from.
    pub source: ConfigSource,
    /// Lets a stdio server use the network in the sandbox.
    pub network: bool,
    /// Lets a stdio server write in the workspace.
    pub write: bool,
    /// OAuth settings of a server over HTTP.
    pub oauth: OAuthConfig,
}

impl ServerConfig {
    /// Default limit on connecting. Servers that `npx` or `uvx` installs at their first start take this long.
    pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);
    /// Default limit on one request.
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
    /// Default time without requests until the connection is closed.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

    /// Returns an enabled server with default limits, as if written in the user's file.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: ServerTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            enabled: true,
            tools: ToolFilter::default(),
            startup_timeout: Self::STARTUP_TIMEOUT,
            has_startup_limit: false,
            call_timeout: Self::CALL_TIMEOUT,
            idle_timeout: Some(Self::IDLE_TIMEOUT),
            source: ConfigSource::default(),
            network: false,
            write: true,
            oauth: OAuthConfig::default(),
        }
    }

    /// Returns the address of a server over HTTP.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        match &self.transport {
            ServerTransport::Http { url, .. } => Some(url),
            ServerTransport::Stdio { .. } => None,
        }
    }

    /// Returns whether a server with another entry is reached, started and limited in the same way, so that a connection to
    /// it can stay. Unlike in the identity, all values count. Whether it is switched on, and which of its tools, does not.
    #[must_use]
    pub fn has_same_connection(&self, other: &Self) -> bool {
        let same_transport = match (&self.transport, &other.transport) {
            (
                ServerTransport::Stdio { command, args, env, cwd },
                ServerTransport::Stdio { command: other, args: other_args, env: other_env, cwd: other_cwd },
            ) => (command, args, env, cwd) == (other, other_args, other_env, other_cwd),
            (
                ServerTransport::Http { url, headers, sse },
                ServerTransport::Http { url: other, headers: other_headers, sse: other_sse },
            ) => {
                let values = |headers: &BTreeMap<String, SecretString>| -> Vec<(String, String)> {
                    headers.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect()
                };
                (url, sse) == (other, other_sse) && values(headers) == values(other_headers)
            }
            _ => false,
        };
        let exposed = |secret: Option<SecretString>| secret.map(|secret| secret.expose_secret().to_owned());
        let idp = |idp: IdpConfig| {
            let IdpConfig { issuer, token_endpoint, client_id, client_secret, id_token } = idp;
            (issuer, token_endpoint, client_id, exposed(client_secret), exposed(Some(id_token)))
        };
        let oauth = |oauth: &OAuthConfig| {
            let OAuthConfig { client_id, client_secret, private_key, signing_algorithm, scopes, .. } = oauth.clone();
            let OAuthConfig { redirect, redirect_port, client_metadata, .. } = oauth.clone();
            let client = (client_id, exposed(client_secret), exposed(private_key), signing_algorithm, scopes);
            (client, redirect, redirect_port, client_metadata, oauth.idp.clone().map(idp))
        };
        let limits = |config: &Self| {
            let Self { startup_timeout, call_timeout, idle_timeout, network, write, .. } = config;
            (*startup_timeout, *call_timeout, *idle_timeout, *network, *write)
        };
        same_transport
            && (&self.name, &self.source) == (&other.name, &other.source)
            && limits(self) == limits(other)
            && oauth(&self.oauth) == oauth(&other.oauth)
    }

    /// Returns a digest of the command with its arguments, or of the address, in hex.
    ///
    /// Names of environment variables and headers count, their values do not: a renewed secret keeps the identity.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |part: &str| {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        };
        match &self.transport {
            ServerTransport::Stdio { command, args, env, cwd } => {
                add("stdio");
                add(command);
                add(&args.len().to_string());
                args.iter().for_each(|arg| add(arg));
                add(&env.len().to_string());
                env.keys().for_each(|name| add(name));
                add(&cwd.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default());
            }
            ServerTransport::Http { url, headers, sse } => {
                add(if *sse { "sse" } else { "http" });
                add(url.as_str());
                add(&headers.len().to_string());
                headers.keys().for_each(|name| add(&name.to_ascii_lowercase()));
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Command or address of a server.
#[derive(Clone)]
pub enum ServerTransport {
    /// A program that speaks over its standard input and output.
    Stdio {
        /// Program to run.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables of the program.
        env: BTreeMap<String, String>,
        /// Working directory; `None` is the workspace.
        cwd: Option<PathBuf>,
    },
    /// A server over streamable HTTP, or the older HTTP with server-sent events.
    Http {
        /// Address of the server's endpoint.
        url: Url,
        /// Headers sent with each request to this origin.
        headers: BTreeMap<String, SecretString>,
        /// Speaks the transport of protocol 2024-11-05 without trying the current one first.
        sse: bool,
    },
}

impl fmt::Debug for ServerTransport {
    /// Values of environment variables, headers and queries are left out: they are often secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers, sse } => f
                .debug_struct("Http")
                .field("url", &without_query(url))
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("sse", sse)
                .finish(),
        }
    }
}

fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_password(None);
    url.into()
}

/// Tools of a server that are offered, by name or glob (`*`, `?`, `[…]`, `{a,b}`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Names that are offered; `None` offers all.
    pub enabled: Option<Vec<String>>,
    /// Names that are not offered, even if `enabled` has them.
    pub disabled: Vec<String>,
}

impl ToolFilter {
    /// Returns whether the tool is offered. A pattern that is not a valid glob matches only its own text.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        let matches = |pattern: &String| {
            let is_glob = || pattern.contains(['*', '?', '[', '{']);
            let matches = |glob: globset::Glob| glob.compile_matcher().is_match(tool);
            pattern == tool || (is_glob() && globset::Glob::new(pattern).is_ok_and(matches))
        };
        self.enabled.as_ref().is_none_or(|patterns| patterns.iter().any(matches)) && !self.disabled.iter().any(matches)
    }
}

/// File that configures a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSource {
    /// Owner of the file.
    pub scope: ConfigScope,
    /// Path of the file; empty for a server that no file configures.
    pub path: PathBuf,
}

/// Owner of a configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigScope {
    /// The user's own file, for all projects.
    #[default]
    User,
    /// An installed package, whose servers are called `PACKAGE:SERVER`.
    Package,
    /// A file of the project, which needs trust.
    Project,
}

/// OAuth settings of a server.
#[derive(Clone, Debug, Default)]
pub struct OAuthConfig {
    /// Client registered in advance; `None` registers one.
    pub client_id: Option<String>,
    /// Secret of that client.
    pub client_secret: Option<SecretString>,
    /// Private key of that client in PEM, which proves its identity in place of a secret.
    pub private_key: Option<SecretString>,
    /// Algorithm of its signatures, such as `ES256`; `None` takes the usual one for the key.
    pub signing_algorithm: Option<String>,
    /// Scopes to ask for; empty takes those the server names.
    pub scopes: Vec<String>,
    /// Redirect address on this machine, as the client was registered with it; one without a port gets one. `None` is
    /// `http://127.0.0.1/callback`.
    pub redirect: Option<Url>,
    /// Port of the redirect address; `None` lets the system choose.
    pub redirect_port: Option<u16>,
    /// Address of a document that describes the client. It serves as the client's id at authorization servers that
    /// support it (client ID metadata documents).
    pub client_metadata: Option<Url>,
    /// Identity provider of an organization that decides who may use the server (enterprise-managed authorization).
    pub idp: Option<IdpConfig>,
}

/// Identity provider whose token of the user is exchanged for access to a server.
#[derive(Clone, Debug)]
pub struct IdpConfig {
    /// Its identifier.
    pub issuer: String,
    /// Its token endpoint.
    pub token_endpoint: Url,
    /// Client registered there.
    pub client_id: String,
    /// Secret of that client.
    pub client_secret: Option<SecretString>,
    /// The user's ID token.
    pub id_token: SecretString,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> ServerConfig {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ServerConfig::new("test", ServerTransport::Stdio { command: command.to_owned(), args, env, cwd: None })
    }

    #[test]
    fn identity_covers_arguments_and_names_but_no_values() {
        let base = stdio("run", &["a", "b"], &[("TOKEN", "1")]).identity();
        assert_eq!(base, stdio("run", &["a", "b"], &[("TOKEN", "2")]).identity());
        assert_ne!(base, stdio("run", &["ab"], &[("TOKEN", "1")]).identity());
        assert_ne!(base, stdio("run", &["a", "b"], &[("OTHER", "1")]).identity());
        assert_ne!(base, stdio("run", &["a", "b", "TOKEN"], &[]).identity());
    }

    #[test]
    fn connection_stays_only_if_all_values_are_the_same() {
        let base = stdio("run", &["a"], &[("TOKEN", "1")]);
        let mut other = base.clone();
        (other.enabled, other.tools.disabled) = (false, vec!["x".to_owned()]);
        assert!(base.has_same_connection(&other));
        assert!(!base.has_same_connection(&stdio("run", &["a"], &[("TOKEN", "2")])));
        let changes: [fn(&mut ServerConfig); 4] = [
            |config| config.network = true,
            |config| config.call_timeout = Duration::from_secs(1),
            |config| config.oauth.client_secret = Some("s".into()),
            |config| config.source.scope = ConfigScope::Project,
        ];
        for change in changes {
            let mut other = base.clone();
            change(&mut other);
            assert!(!base.has_same_connection(&other), "{other:?}");
        }
    }

    #[test]
    fn disabled_tools_win_over_enabled_globs() {
        let filter = ToolFilter { enabled: Some(vec!["read_*".into()]), disabled: vec!["read_secret".into()] };
        assert!(filter.allows("read_file"));
        assert!(!filter.allows("read_secret"));
        assert!(!filter.allows("write_file"));
        assert!(ToolFilter::default().allows("anything"));
    }

    #[test]
    fn debug_output_shows_no_secret_values() {
        let config = stdio("run", &[], &[("TOKEN", "hunter2")]);
        assert!(!format!("{config:?}").contains("hunter2"));
        let url = Url::parse("https://user:hunter2@host/mcp?key=hunter2").unwrap();
        let headers = BTreeMap::from([("X-Key".to_owned(), "hunter2".into())]);
        let config = ServerConfig::new("test", ServerTransport::Http { url, headers, sse: false });
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
