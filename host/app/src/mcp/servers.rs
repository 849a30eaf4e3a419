//! The MCP servers of a command: made when something asks for them first, which starts and reads nothing but their files.

use crate::config::file::FileMcp;
use crate::mcp::launch::ServerLauncher;
use crate::mcp::lazy_servers::McpConfig;
use crate::mcp::sampling::RunningCalls;
use crate::mcp::tokens::TokenFile;
use crate::model::proxies_or;
use crate::workspace_base::Base;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::{CallContext, ChosenProxy, HttpSettings, Ports, RequestProgress, ServerInfo, Servers};
use pinion_plugin_runtime::{McpCall, McpFailure, McpRequest, McpServer, McpServers};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use url::Url;

/// Bytes of a definition for one token.
const BYTES_OF_TOKEN: u64 = 4;

/// Time for a server whose start may download it, unless its entry has a limit.
const FIRST_START: Duration = Duration::from_secs(120);

/// Returns the limit on a start that may be the first one: programs with a network may be downloaded by it.
pub fn first_start(config: &ServerConfig) -> Duration {
    let may_download = config.network && matches!(config.transport, ServerTransport::Stdio { .. });
    match may_download && !config.has_startup_limit {
        true => config.startup_timeout.max(FIRST_START),
        false => config.startup_timeout,
    }
}

/// Estimates the tokens that the definitions of a server's tools take in each request.
pub fn tokens_of(info: &ServerInfo) -> u64 {
    let bytes: usize = info.tools.iter().filter(|tool| tool.enabled).map(|tool| tool.definition.len()).sum();
    (bytes as u64).div_ceil(BYTES_OF_TOKEN)
}

impl Base {
    /// Returns the user's files whose changes count while a conversation runs.
    fn watched_mcp_files(&self) -> [PathBuf; 2] {
        [self.paths.mcp_file(), self.paths.plugin_lock_file()]
    }

    /// Returns the content of the files, as they were when this or [`Base::reload_mcp`] was last called.
    pub fn mcp_config(&self) -> Arc<McpConfig> {
        self.mcp.config(&self.watched_mcp_files(), || self.read_mcp_config())
    }

    /// Reads the user's file and the lock file of packages again if they changed, and adds, changes and removes servers accordingly. Those whose entries are
    /// the same keep their connections. A project's files stay as they were when the user trusted them.
    ///
    /// Returns a text for the user if something changed.
    pub fn reload_mcp(&self) -> Option<String> {
        let (config, is_users) = self.mcp.reload(&self.watched_mcp_files(), || self.read_mcp_config())?;
        let problems = config.all_notices().join("\n");
        let names = self.mcp_servers().replace(config.servers.clone());
        let done = match (names.is_empty(), is_users) {
            // Most installations change no server.
            (true, false) => return None,
            (true, true) => "`mcp.json` changed, and no server with it".to_owned(),
            (false, true) => format!("`mcp.json` changed these MCP servers: {}", names.join(", ")),
            (false, false) => format!("installed packages changed these MCP servers: {}", names.join(", ")),
        };
        Some(format!("{done}\n{problems}").trim_end().to_owned())
    }

    /// Returns the servers. Each starts with its first request.
    pub fn mcp_servers(&self) -> &Arc<Servers> {
        self.mcp.servers.get_or_init(|| {
            let ports = Ports {
                launcher: Arc::new(ServerLauncher::new(self)),
                http: self.mcp_http(),
                cache: self.paths.mcp_catalogues(),
                tasks: self.paths.mcp_tasks(),
                tokens: Arc::new(TokenFile::new(
                    self.paths.mcp_tokens_file(),
                    self.secrets.clone(),
                    self.screen.clone(),
                )),
                person: self.mcp.user.clone(),
                client_metadata: None,
                workspace_roots: vec![self.workspace.clone()],
            };
            let mut configs = self.mcp_config().servers.clone();
            if self.mcp.is_patient.get().is_some() {
                configs.iter_mut().for_each(|config| config.startup_timeout = first_start(config));
            }
            Servers::new(configs, ports)
        })
    }

    /// Returns the proxies and certificate authorities for servers over HTTP: the providers' ones, unless `[mcp]` has
    /// others.
    fn mcp_http(&self) -> HttpSettings {
        let FileMcp { certificates, proxy, .. } = &self.config.mcp;
        let proxies = proxies_or(proxy.as_deref(), "[mcp] proxy");
        let choose = move |url: &Url| match proxies.choose(url) {
            Ok(chosen) => Ok(chosen.map(|proxy| ChosenProxy { shown: proxy.to_string(), url: proxy.url })),
            Err(error) => Err(error.to_string()),
        };
        HttpSettings { proxy: Some(Arc::new(choose)), certificates: certificates.clone() }
    }

    /// Returns whether any server is configured, switched on or not.
    pub fn has_mcp_servers(&self) -> bool {
        !self.mcp_config().servers.is_empty()
    }

    /// Returns the servers for the plugin runtime. The list may be empty so far.
    pub fn mcp_adapter(&self) -> Arc<dyn McpServers> {
        Arc::new(Adapter { servers: self.mcp_servers().clone(), calls: self.mcp.user.calls.clone() })
    }

    /// Closes all connections and ends the servers' processes.
    pub async fn end_mcp_servers(&self) {
        if let Some(servers) = self.mcp.made() {
            servers.shutdown().await;
        }
    }
}

/// Passes requests of plugins on to the servers.
pub(super) struct Adapter {
    pub(super) servers: Arc<Servers>,
    /// Calls during which servers may ask the model.
    pub(super) calls: RunningCalls,
}

impl McpServers for Adapter {
    fn servers(&self) -> Vec<McpServer> {
        self.servers.list()
    }

    fn fingerprint(&self) -> String {
        self.servers.fingerprint()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.servers.changed()
    }

    fn request<'a>(
        &'a self,
        server: &'a str,
        request: McpRequest,
        call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>> {
        Box::pin(async move {
            let McpCall { cancel, deadline, progress, services, only_connected, .. } = call;
            let _running = services.map(|services| self.calls.begin(server, services));
            let on_progress = move |step: RequestProgress| {
                if let Some(line) = step.line() {
                    progress.report(line);
                }
            };
            let on_progress = Some(Arc::new(on_progress) as _);
            let context = CallContext { cancel, deadline, on_progress, only_connected };
            self.servers.request(server, request, context).await
        })
    }
}
