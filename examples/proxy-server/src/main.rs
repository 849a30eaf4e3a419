//! `pinion-proxy-server [ADDRESS]`: serves the proxy protocol, by default on 127.0.0.1:8787.

use pinion_providers::ModelTable;
use pinion_proxy_server::{Settings, serve};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::error::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let token = std::env::var("PINION_PROXY_TOKEN").map_err(|_| "set PINION_PROXY_TOKEN to what clients must send")?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8787".to_owned());
    let settings = Settings {
        token: SecretString::from(token),
        models: ModelTable::builtin(),
        base_urls: BTreeMap::new(),
        variable: Box::new(|name| std::env::var(name).ok()),
    };
    let listener = TcpListener::bind(&address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving");
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, settings, stop.clone()));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(server.await?)
}
