//! Servers that are real processes.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::config::ServerConfig;
use pinion_mcp::{CallContext, LaunchedServer, Launcher, NoPerson, ServerProcess, Servers};
use tokio::process::{Child, Command};

use crate::fake::{NAME, call, ports, stdio, until};
use crate::http::PATIENCE;

/// A server of protocol 2025-11-25 in the language of shells.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"fine"}]}}' ;;
  esac
done
"#;

/// Starts shells and remembers their ids.
#[derive(Default)]
struct Shells(Mutex<Vec<u32>>);

struct Shell(Child);

impl ServerProcess for Shell {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        async { self.0.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()) }.boxed()
    }
}

impl Launcher for Shells {
    fn launch(&self, _: &ServerConfig) -> io::Result<LaunchedServer> {
        let mut command = Command::new("sh");
        command.args(["-c", SERVER]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        self.0.lock().unwrap().push(child.id().unwrap());
        Ok(LaunchedServer {
            stdin: Box::new(child.stdin.take().unwrap()),
            stdout: Box::new(child.stdout.take().unwrap()),
            stderr: child.stderr.take().map(|pipe| Box::new(pipe) as _),
            process: Box::new(Shell(child)),
        })
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Other tests of this program open files at the same time, but not hundreds. With `PINION_LONG`, there are 1,000 processes.
#[tokio::test]
async fn connecting_again_and_again_leaves_no_process_and_no_file_open() {
    let count = if std::env::var_os("PINION_LONG").is_some() { 1_000 } else { 150 };
    let (shells, cache) = (Arc::new(Shells::default()), tempfile::tempdir().unwrap());
    let servers = Servers::new(vec![stdio()], ports(shells.clone(), cache.path(), Arc::new(NoPerson)));
    let before = open_files();
    for _ in 0..count {
        servers.set_enabled(NAME, true).unwrap();
        let context = CallContext::within(PATIENCE);
        assert!(servers.request(NAME, call("echo"), context).await.unwrap().contains("fine"));
        servers.set_enabled(NAME, false).unwrap();
    }
    let started = shells.0.lock().unwrap().clone();
    assert_eq!(started.len(), count);
    until(|| started.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())).await;
    // Three pipes for each would be hundreds.
    until(|| open_files() < before + 100).await;
}
