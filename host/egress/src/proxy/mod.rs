//! A proxy for programs without network access: HTTP, with `CONNECT` for everything but plain HTTP, and SOCKS5.
//!
//! The first byte of a connection tells which. Every request passes the same checks, in the same order:
//!
//! 1. Host and port have one reading: no control bytes, user names, escapes, or unusual characters.
//! 2. A rule of the [`Hosts`] covers them.
//! 3. The rules admit every address of the host, which only the proxy resolves.
//! 4. The connection goes to one of these addresses.
//!
//! A connection whose host is no longer covered, after the rules changed, is closed. The proxy does not see the content
//! of a tunnel: a server that serves several names, such as a content network's server, is allowed with each of them.
//!
//! The exception are tunnels to the hosts of credentials that programs use through placeholders: there the proxy reads
//! the requests ([`inspect`]) and puts secrets in the place of placeholders ([`credentials`]).

mod authority;
mod credentials;
mod forward;
mod http;
mod inspect;
mod socks;

pub use credentials::{AuthorityError, CredentialValues, ProxyCredential, ProxyCredentials};

use crate::dial::{Network, dial};
use crate::error::ExchangeFailure;
use crate::limits::Clock;
use crate::observer::Metered;
use crate::observer::{ExchangeOutcome, ExchangeReport, Meter, Observer};
use crate::policy::{Denial, Hosts};
use crate::target::{InvalidUrl, RequestTarget, Scheme};
use crate::tls::ConnectionStream;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Connections at a time; others wait.
const MAX_CONNECTIONS: usize = 128;
/// Time until the head of a request is complete.
const HEAD: Duration = Duration::from_secs(15);
/// Time to resolve a name and to connect to its addresses.
const CONNECT: Duration = Duration::from_secs(15);
/// Time without a byte before a connection is closed, at the latest when it has passed twice.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// Pause after the system refused a connection, for example because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum characters of a malformed host in a report.
const SHOWN: usize = 100;

/// Configuration of a [`Proxy`].
#[derive(Clone)]
pub struct ProxySettings {
    /// The resolver and the sockets.
    pub network: Arc<dyn Network>,
    /// The hosts that are allowed now. Connections are closed when the sender is dropped.
    pub hosts: watch::Receiver<Arc<Hosts>>,
    /// Receives a report for each request, and for each attempt that was refused.
    pub observer: Option<Arc<dyn Observer>>,
    /// Returns how to allow a refused request, for a line that begins with `hint:`.
    pub advice: fn(&Denial) -> Option<String>,
    /// The credentials that programs use through placeholders.
    pub credentials: Option<Arc<ProxyCredentials>>,
}

/// Connects programs to allowed hosts.
pub struct Proxy {
    settings: ProxySettings,
    connections: Arc<Semaphore>,
    handshakes: watch::Sender<usize>,
}

/// One connection of a program.
struct Connection {
    settings: ProxySettings,
    /// The target of the request that is being served.
    current: Mutex<Option<RequestTarget>>,
    /// The number of TLS handshakes with programs.
    handshakes: watch::Sender<usize>,
}

/// A connection to a target, and the report that is made when it is dropped.
struct TargetConnection {
    stream: Metered<Box<dyn ConnectionStream>>,
    report: ExchangeReport,
}

/// A tunnel that the rules allow.
enum Tunnel {
    /// Moves bytes to and from a server.
    Opaque(TargetConnection),
    /// Serves the requests to this origin one by one, because credentials belong to it.
    Inspected(RequestTarget),
}

/// A request that was not served.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    kind: RefusalKind,
    /// The reason, and perhaps a hint in a second line.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalKind {
    Malformed,
    Denied,
    Failed,
    TimedOut,
}

impl Proxy {
    /// Creates a proxy without clients.
    pub fn new(settings: ProxySettings) -> Self {
        Self { settings, connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)), handshakes: watch::Sender::new(0) }
    }

    /// Returns the number of TLS handshakes with programs that are in progress. When it is 0, all that failed were reported.
    pub fn handshakes(&self) -> watch::Receiver<usize> {
        self.handshakes.subscribe()
    }

    /// Serves the connections that arrive. Dropping the future closes all of them.
    pub async fn serve(&self, listener: TcpListener) {
        let mut serving = JoinSet::new();
        loop {
            while serving.try_join_next().is_some() {}
            let Ok(permit) = self.connections.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (settings, handshakes) = (self.settings.clone(), self.handshakes.clone());
                    let connection = Connection { settings, current: Mutex::default(), handshakes };
                    serving.spawn(async move {
                        connection.run(stream).await;
                        drop(permit);
                    });
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

impl Connection {
    /// Serves the connection until it ends, is idle, or may no longer be open.
    async fn run(self, stream: TcpStream) {
        let mut first = [0];
        if !matches!(timeout(HEAD, stream.peek(&mut first)).await, Ok(Ok(1))) {
            return;
        }
        let _ = stream.set_nodelay(true);
        let connection = Arc::new(self);
        let meter = Arc::new(Meter::default());
        let stream = Metered::new(stream, meter.clone());
        let serve = async {
            match first {
                [socks::VERSION] => socks::serve(&connection, stream).await,
                _ => http::serve(&connection, stream).await,
            }
        };
        tokio::select! {
            () = serve => {}
            () = idle(&meter) => {}
            () = connection.withdrawn() => {}
        }
    }

    /// Connects to a target if the rules allow it. `method` is for the report.
    async fn open(&self, method: &str, target: &RequestTarget) -> Result<TargetConnection, Refusal> {
        let mut report = ExchangeReport::new(self.settings.observer.clone(), method, target);
        // Before the rules are read, so that no change of them is missed.
        self.set_current(Some(target.clone()));
        match self.connect(target).await {
            Ok((stream, address)) => {
                report.exchange.address = Some(address);
                Ok(TargetConnection { stream: Metered::new(stream, report.meter.clone()), report })
            }
            Err(failure) => {
                self.set_current(None);
                let refusal = self.refusal(failure);
                report.exchange.outcome = refusal.outcome();
                Err(refusal)
            }
        }
    }

    /// Connects to the server of `target`, with TLS if it is an origin inside of a tunnel.
    async fn connect(
        &self,
        target: &RequestTarget,
    ) -> Result<(Box<dyn ConnectionStream>, SocketAddr), ExchangeFailure> {
        let ProxySettings { network, hosts, credentials, .. } = &self.settings;
        let hosts = hosts.borrow().clone();
        hosts.check(target)?;
        let clock = Clock::start(CONNECT, CancellationToken::new());
        let check = |address| hosts.check_address(target, address);
        let (stream, address) = dial(&**network, target, check, &clock).await?;
        let stream: Box<dyn ConnectionStream> = match (target.scheme(), credentials) {
            (Scheme::Https, Some(credentials)) => credentials.tls().connect(target, stream, &clock).await?,
            _ => Box::new(stream),
        };
        Ok((stream, address))
    }

    /// Opens a tunnel if the rules allow it. `method` is for the report.
    async fn tunnel(&self, method: &str, target: &RequestTarget) -> Result<Tunnel, Refusal> {
        let credentials = self.settings.credentials.as_ref();
        let Some(origin) = credentials.and_then(|credentials| credentials.inside(target)) else {
            return self.open(method, target).await.map(Tunnel::Opaque);
        };
        // Before the rules are read, so that no change of them is missed.
        self.set_current(Some(origin.clone()));
        let hosts = self.settings.hosts.borrow().clone();
        match hosts.check(&origin) {
            Ok(()) => Ok(Tunnel::Inspected(origin)),
            Err(denial) => {
                let refusal = self.refusal(denial.into());
                let mut report = ExchangeReport::new(self.settings.observer.clone(), method, target);
                report.exchange.outcome = refusal.outcome();
                Err(refusal)
            }
        }
    }

    fn refusal(&self, failure: ExchangeFailure) -> Refusal {
        let kind = match &failure {
            ExchangeFailure::Denied(_) => RefusalKind::Denied,
            ExchangeFailure::Invalid(_) => RefusalKind::Malformed,
            ExchangeFailure::TimedOut(_) => RefusalKind::TimedOut,
            ExchangeFailure::TooLarge(_) | ExchangeFailure::Cancelled | ExchangeFailure::Failed(_) => {
                RefusalKind::Failed
            }
        };
        let advice = match &failure {
            ExchangeFailure::Denied(denial) => {
                self.settings.observer.iter().for_each(|observer| observer.denied(denial));
                (self.settings.advice)(denial)
            }
            _ => None,
        };
        let text = match (&failure, advice) {
            (ExchangeFailure::TimedOut(after), _) => format!("no connection within {} s", after.as_secs()),
            (failure, None) => failure.to_string(),
            (failure, Some(advice)) => format!("{failure}\nhint: {advice}"),
        };
        Refusal { kind, text }
    }

    /// Reports a request without a valid target.
    fn malformed(&self, method: &str, host: &str, port: u16, reason: &str) -> Refusal {
        let refusal = Refusal { kind: RefusalKind::Malformed, text: reason.to_owned() };
        let shown = host.chars().take(SHOWN).flat_map(char::escape_debug).collect();
        let mut report = ExchangeReport::for_exchange(self.settings.observer.clone(), method, shown, port);
        report.exchange.outcome = refusal.outcome();
        refusal
    }

    fn set_current(&self, target: Option<RequestTarget>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Returns when the rules no longer cover the current target.
    async fn withdrawn(&self) {
        let mut hosts = self.settings.hosts.clone();
        while hosts.changed().await.is_ok() {
            let now = hosts.borrow_and_update().clone();
            let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if current.is_some_and(|target| now.check(&target).is_err()) {
                return;
            }
        }
    }
}

impl Refusal {
    fn outcome(&self) -> ExchangeOutcome {
        match self.kind {
            RefusalKind::Malformed | RefusalKind::Denied => ExchangeOutcome::Denied(self.text.clone()),
            RefusalKind::Failed | RefusalKind::TimedOut => ExchangeOutcome::Failed(self.text.clone()),
        }
    }
}

impl Tunnel {
    /// Serves the program until an end closes the tunnel.
    async fn serve(
        self,
        connection: &Arc<Connection>,
        mut program: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) {
        match self {
            Self::Inspected(origin) => inspect::serve(connection, &origin, program).await,
            Self::Opaque(mut opened) => {
                let ended = copy_bidirectional(&mut program, &mut opened.stream).await;
                opened.report.exchange.outcome = match ended {
                    Ok(_) => ExchangeOutcome::Complete,
                    Err(error) => ExchangeOutcome::Failed(error.to_string()),
                };
            }
        }
    }
}

/// Returns when no byte has passed for a while.
async fn idle(meter: &Meter) {
    let mut before = meter.total();
    loop {
        sleep(IDLE).await;
        let now = meter.total();
        if now == before {
            return;
        }
        before = now;
    }
}

/// Returns the target of `host:port`, where the host is a name, an IPv4 address or an IPv6 address in brackets.
fn target_of(authority: &str) -> Result<RequestTarget, InvalidUrl> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
    match authority.chars().all(is_plain) {
        true => RequestTarget::parse(&format!("http://{authority}/")),
        false => Err(InvalidUrl("its host contains a character that is not allowed in names".into())),
    }
}
