//! `pinion mcp serve`: plugins offered to other agents.

use crate::mcp::OfferedTools;
use clap::Args;
use pinion_agent::approval::ApprovalMode;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::random_token;
use pinion_app::files::private::{check, open_file};
use pinion_app::options::{Approve, RunOptions};
use pinion_app::process::hardening;
use pinion_app::workspace_base::Base;
use pinion_console::args::{APPROVE, one_of};
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, note, text};
use pinion_console::process::signals::interruptible_by;
use pinion_mcp::serve::{HttpServer, HttpServerSettings, Server};
use secrecy::SecretString;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Environment variable with the token of clients over HTTP.
const TOKEN_VARIABLE: &str = "PINION_MCP_TOKEN";
/// Bytes of a token: too many to guess it, and few enough for a header.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1024;

/// The arguments of `pinion mcp serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Load the plugin in this file, with the grants that it has in the config
    #[arg(long = "plugin", value_name = "PATH")]
    plugins: Vec<PathBuf>,
    /// Load only built-in plugins and those given with --plugin
    #[arg(long)]
    no_plugins: bool,
    /// Do not load built-in plugins
    #[arg(long)]
    no_builtin_plugins: bool,
    /// Offer only these tools
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Tool calls that need approval by the client's user, and are denied if it cannot ask [default: smart]
    #[arg(long, value_name = "MODE", value_parser = one_of::<Approve>(APPROVE))]
    approve: Option<Approve>,
    /// Serve over HTTP on this address, such as 127.0.0.1:8931, instead of stdin and stdout
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// File with the token of clients [default: $PINION_MCP_TOKEN, or a new one that is printed]
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Name under which clients may reach the address, besides localhost
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    hosts: Vec<String>,
    /// Origin of a browser that may call, such as http://localhost:3000
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    origins: Vec<String>,
}

impl Serve {
    pub(super) async fn run(self, base: &Base, invocation: &Invocation) -> Result<()> {
        let options = RunOptions {
            plugins: self.plugins.clone(),
            no_plugins: self.no_plugins,
            no_builtin_plugins: self.no_builtin_plugins,
            tools: self.tools.clone(),
            ..invocation.run.options()
        };
        // The user's config may be less strict for conversations, where the user sees every call.
        let mode = self.approve.map(ApprovalMode::from).unwrap_or_default();
        let offered = OfferedTools::load(base, &options, mode).await?;
        let (_watch, quiet) = (offered.watch(base, &options), invocation.global.quiet);
        if !quiet {
            base.project_notices().iter().for_each(|notice| note(&text!("! {}", Text::block(notice))));
        }
        let asked = offered.only_asked();
        if !quiet && !asked.is_empty() {
            let asked = asked.join(", ");
            note(&text!("! offered only to clients that can ask their user, without --approve all: {}", asked));
        }
        let end = CancellationToken::new();
        let server = Server::new(Arc::new(offered), end.clone());
        let stop = move || end.cancel();
        match self.http {
            None => {
                let served = interruptible_by(stop, server.serve_stdio()).await.0;
                served.map_err(|error| Failure::failed("the client failed").because(error))
            }
            Some(address) => {
                let (token, is_new) = self.token(base)?;
                let shown = token.clone();
                let settings = HttpServerSettings { address, token, hosts: self.hosts, origins: self.origins };
                let listening = HttpServer::bind(server, settings)
                    .await
                    .map_err(|error| Failure::failed(error).hint("choose another port, or 0 for any free one"))?;
                announce(&listening.url(), is_new.then_some(&shown));
                interruptible_by(stop, listening.serve()).await;
                Ok(())
            }
        }
    }

    /// Returns the token of clients, and whether it is new.
    fn token(&self, base: &Base) -> Result<(SecretString, bool)> {
        let given = match &self.token_file {
            Some(path) => Some(read_token(&base.workspace.join(path))?),
            None => hardening::variable(TOKEN_VARIABLE).filter(|token| !token.is_empty()),
        };
        let is_new = given.is_none();
        let token = match given {
            Some(token) => token,
            None => random_token().map_err(|error| Failure::failed("could not make a token").because(error))?,
        };
        if !TOKEN_BYTES.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::usage("the token needs 16 to 1024 printable characters without blanks"));
        }
        Ok((SecretString::from(token), is_new))
    }
}

/// Reads a private file with a token.
fn read_token(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("could not read the token in `{}`", path.display())).because(error)
    };
    let file = open_file(path).map_err(failed)?;
    check(&file).map_err(failed)?;
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text).map_err(failed)?;
    Ok(text.trim().to_owned())
}

/// Prints the address, and a new token once: nothing else knows it.
fn announce(url: &str, token: Option<&SecretString>) {
    use secrecy::ExposeSecret as _;
    note(&text!("serving MCP on {}", url));
    if let Some(token) = token {
        note(&text!("clients need the header: Authorization: Bearer {}", token.expose_secret()));
    }
}
