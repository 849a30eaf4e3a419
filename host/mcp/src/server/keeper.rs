//! Tasks that live as long as a connection: its end, idleness, and changes of its lists.

use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::model::{ErrorCode, ServerNotification};
use rmcp::service::ServiceError;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::ConfiguredServer;
use super::fetch::{fetch, wanted_notices};
use crate::connection::{Connection, OpenedConnection};
use crate::limits::{COALESCE, EXIT_WAIT, HEALTHY, LISTEN_WAIT_MAX, REFETCH_GAP, REFETCH_LIFETIME};

/// Wait for the messages of a closing connection.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Keeps a connection until it ends, then ends the process.
pub(super) async fn keep(
    server: Weak<ConfiguredServer>,
    opened: OpenedConnection,
    connection: Arc<Connection>,
    changes: Arc<Notify>,
    idle: Option<Duration>,
) {
    let OpenedConnection { running, process, .. } = opened;
    let mut tasks = JoinSet::new();
    tasks.spawn(listen(connection.clone(), changes.clone()));
    tasks.spawn(refresh(server.clone(), connection.clone(), changes));
    let cancel = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    let is_wanted = tokio::select! {
        biased;
        () = connection.stop.cancelled() => true,
        () = idleness(&connection, idle) => true,
        _ = &mut ended => false,
    };
    connection.stop.cancel();
    tasks.shutdown().await;
    if let Some(server) = server.upgrade() {
        server.ended(&connection, is_wanted);
    }
    if is_wanted {
        cancel.cancel();
        let _ = timeout(CLOSE_WAIT, ended).await;
    }
    if let Some(mut process) = process {
        // Its input is closed now, which well-behaved servers take as the end.
        let _ = timeout(EXIT_WAIT, process.wait()).await;
    }
}

/// Returns when the connection was idle for the limit.
async fn idleness(connection: &Connection, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    loop {
        match connection.idle_at(limit) {
            Some(at) if at <= Instant::now() => return,
            Some(at) => sleep_until(at).await,
            None => sleep(limit).await,
        }
    }
}

/// Fetches the catalogue again whenever the server says that it changed, or when it is out of date.
async fn refresh(server: Weak<ConfiguredServer>, connection: Arc<Connection>, changes: Arc<Notify>) {
    loop {
        tokio::select! {
            () = changes.notified() => sleep(COALESCE).await,
            () = connection.outdated(REFETCH_LIFETIME) => {}
        }
        let Some(limit) = server.upgrade().map(|server| server.config.startup_timeout) else { return };
        match fetch(&connection, limit).await {
            Ok(catalogue) => {
                let Some(server) = server.upgrade() else { return };
                server.replace(catalogue);
            }
            Err(failure) => tracing::warn!("cannot fetch a changed list: {failure:?}"),
        }
        sleep(REFETCH_GAP).await;
    }
}

/// Subscribes to notices of changes, which servers of protocol 2026-07-28 send only then. A further resource that was read
/// replaces the subscription, and so does the next one after a cut: load balancers cut streams that are idle.
async fn listen(connection: Arc<Connection>, changes: Arc<Notify>) {
    let mut cuts = 0;
    let mut is_first = true;
    loop {
        let Some(filter) = wanted_notices(&connection) else {
            connection.watched.added.notified().await;
            continue;
        };
        let opened = Instant::now();
        match connection.peer().listen(filter).await {
            Ok(mut subscription) => {
                // Changes before the subscription sent no notice; the first fetch came before it.
                if !std::mem::take(&mut is_first) {
                    changes.notify_one();
                }
                let is_replaced = loop {
                    tokio::select! {
                        notice = subscription.next() => match notice {
                            Ok(Some(ServerNotification::ResourceUpdatedNotification(notice))) => {
                                connection.watched.changed(&notice.params.uri);
                            }
                            Ok(Some(_)) => changes.notify_one(),
                            Ok(None) | Err(_) => break false,
                        },
                        () = connection.watched.added.notified() => break true,
                    }
                };
                if is_replaced {
                    sleep(COALESCE).await;
                    continue;
                }
            }
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return,
            Err(error) => tracing::debug!("cannot subscribe to changes: {error}"),
        }
        cuts = if opened.elapsed() < HEALTHY { cuts + 1 } else { 0 };
        sleep(Duration::from_secs(1 << cuts.min(6)).min(LISTEN_WAIT_MAX)).await;
    }
}
