//! All configured servers.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use crate::catalogue::cache;
use crate::catalogue::contact::Contact;
use crate::config::{ServerConfig, ToolFilter};
use crate::error::McpError;
use crate::http::Http;
use crate::limits::EXIT_WAIT;
use crate::ports::{LoginMethod, Ports};
use crate::request::{CallContext, Request};
use crate::server::{ConfiguredServer, ServerInfo};
use crate::tasks::Tasks;

/// Wait for all servers to end, before their processes are killed.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);

/// All configured servers. Making it starts and reads nothing.
pub struct Servers {
    servers: RwLock<Vec<Arc<ConfiguredServer>>>,
    ports: Arc<Ports>,
    http: Arc<Http>,
    tasks: Arc<Tasks>,
    changed: watch::Sender<u64>,
}

impl Servers {
    /// Takes over the configured servers. Of several with the same name, the first counts.
    #[must_use]
    pub fn new(configs: Vec<ServerConfig>, ports: Ports) -> Arc<Self> {
        let ports = Arc::new(ports);
        let http = Arc::new(Http::new(ports.http.clone()));
        let tasks = Tasks::new(ports.tasks.clone());
        let servers = Self { servers: RwLock::default(), ports, http, tasks, changed: watch::Sender::new(0) };
        servers.replace(configs);
        Arc::new(servers)
    }

    /// Takes over a new configuration: adds, replaces and removes servers. Those whose entries are the same, apart from the
    /// tools that are switched on, keep their connections. Returns the names of the others and of those that are gone.
    pub fn replace(&self, configs: Vec<ServerConfig>) -> Vec<String> {
        let mut before = std::mem::take(&mut *self.write());
        let mut names = HashSet::new();
        let mut changed = Vec::new();
        let mut servers = Vec::new();
        for config in configs.into_iter().filter(|config| names.insert(config.name.clone())) {
            let same = before.iter().position(|server| server.config.has_same_connection(&config));
            match same.map(|at| before.swap_remove(at)) {
                Some(server) => {
                    if server.take_over(&config) {
                        changed.push(config.name.clone());
                    }
                    servers.push(server);
                }
                None => {
                    changed.push(config.name.clone());
                    let (ports, http, tasks) = (self.ports.clone(), self.http.clone(), self.tasks.clone());
                    servers.push(Arc::new(ConfiguredServer::new(config, ports, http, tasks, self.changed.clone())));
                }
            }
        }
        for server in before {
            server.shut_down();
            if !names.contains(&server.config.name) {
                changed.push(server.config.name.clone());
            }
        }
        *self.write() = servers;
        if !changed.is_empty() {
            self.changed.send_modify(|version| *version += 1);
        }
        changed
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<ConfiguredServer>>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<ConfiguredServer>> {
        self.read().clone()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<ConfiguredServer>>> {
        self.servers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all servers in the order of the configuration. The first call reads the cached catalogues.
    #[must_use]
    pub fn list(&self) -> Vec<ServerInfo> {
        self.all().iter().map(|server| server.info()).collect()
    }

    /// Returns the last contact with a server, also of an earlier process. Reads a file.
    #[must_use]
    pub fn contact(&self, server: &str) -> Option<Contact> {
        self.all().iter().find(|known| known.config.name == server)?.contact()
    }

    /// Returns a text that changes when the servers would offer something else, also from one process to the next. Reads no
    /// catalogue: one look shows whether any of them changed, in this configuration or another one.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let servers = self.all();
        let servers = servers.iter().map(|server| server.fingerprint());
        std::iter::once(cache::state(&self.ports.cache)).chain(servers).collect()
    }

    /// Returns the configuration of a server, as it was read last.
    #[must_use]
    pub fn config(&self, server: &str) -> Option<ServerConfig> {
        self.all().iter().find(|known| known.config.name == server).map(|server| server.entry())
    }

    /// Returns a counter that increases with every change of [`Servers::list`].
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Sends a request, starting the server if it does not run. Dropping the future cancels the request at the server.
    /// Returns the result as JSON of at most [`MAX_MESSAGE`](crate::limits::MAX_MESSAGE) bytes.
    ///
    /// # Errors
    /// See [`McpError`]. A server that needs a login fails with [`McpError::LoginRequired`] and does not ask the user.
    pub async fn request(&self, server: &str, request: Request, call: CallContext) -> Result<String, McpError> {
        self.find(server)?.request(&request, &call).await
    }

    /// Logs in to a server over HTTP with OAuth: shows a page or a code to the user and waits until it was used.
    ///
    /// # Errors
    /// The login failed, was cancelled, or the server needs no login.
    pub async fn login(&self, server: &str, method: LoginMethod, cancel: CancellationToken) -> Result<(), McpError> {
        self.find(server)?.login(method, &cancel).await
    }

    /// Forgets the login of a server and closes its connection. Returns whether there was a login.
    ///
    /// # Errors
    /// The stored tokens cannot be read or removed, or the server needs no login.
    pub async fn logout(&self, server: &str) -> Result<bool, McpError> {
        self.find(server)?.logout().await
    }

    /// Switches a server on or off until the end of the session; off closes its connection.
    ///
    /// # Errors
    /// There is no such server.
    pub fn set_enabled(&self, server: &str, enabled: bool) -> Result<(), McpError> {
        self.find(server)?.set_enabled(enabled);
        Ok(())
    }

    /// Sets the tools of a server that are offered, until the end of the session.
    ///
    /// # Errors
    /// There is no such server.
    pub fn set_tools(&self, server: &str, tools: ToolFilter) -> Result<(), McpError> {
        self.find(server)?.set_tools(tools);
        Ok(())
    }

    /// Closes the connection of a server, forgets its failures, and connects again.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn reconnect(&self, server: &str, call: CallContext) -> Result<(), McpError> {
        let server = self.find(server)?;
        server.reset();
        server.request(&Request::Connect, &call).await.map(|_| ())
    }

    /// Closes all connections and waits for their processes to end; those that do not are killed.
    pub async fn shutdown(&self) {
        let servers = self.all();
        for server in &servers {
            server.shut_down();
        }
        let ended = async {
            for server in &servers {
                server.closed().await;
            }
        };
        let _ = timeout(SHUTDOWN_WAIT.max(EXIT_WAIT), ended).await;
    }

    fn find(&self, name: &str) -> Result<Arc<ConfiguredServer>, McpError> {
        let found = self.read().iter().find(|server| server.config.name == name).cloned();
        found.ok_or_else(|| McpError::NotFound(pinion_protocol::text::one_line(name, 64)))
    }
}

impl Drop for Servers {
    /// Closes the connections, whose tasks would otherwise keep them.
    fn drop(&mut self) {
        for server in self.all() {
            server.shut_down();
        }
    }
}
