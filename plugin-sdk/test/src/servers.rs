//! Scripted servers: the network that the plugin's requests reach.
//!
//! Each scripted name resolves to a separate public address, and every connection goes to one listener on this machine,
//! which answers for all names. So the client checks rules, addresses and certificates as it does outside of tests, and
//! nothing leaves the machine. Names that are not scripted do not exist.

use crate::error::TestError;
use bytes::Bytes;
use http::header::HOST;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pinion_egress::{Client, ClientSettings, Connecting, Network, Resolving};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// A request as a server received it, with an absolute URL.
pub type Received = http::Request<Bytes>;
/// The answer of a server.
pub type Response = http::Response<Bytes>;

/// Creates an answer. A status or header that HTTP does not allow becomes the status 500.
pub fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
    let builder = headers
        .iter()
        .fold(http::Response::builder().status(status), |builder, (name, value)| builder.header(*name, *value));
    builder.body(body.into()).unwrap_or_else(|error| {
        let mut failed = http::Response::new(Bytes::from(format!("the test scripts an invalid answer: {error}")));
        *failed.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}

type Handler = dyn Fn(&Received) -> Response + Send + Sync;

/// The servers by origin, such as `https://api.example.com`, and the requests so far.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    handlers: Vec<(String, Arc<Handler>)>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.iter().map(|(origin, _)| origin)).finish()
    }
}

impl Servers {
    pub(crate) fn add(&mut self, origin: &str, handler: impl Fn(&Received) -> Response + Send + Sync + 'static) {
        self.handlers.push((origin.trim_end_matches('/').to_ascii_lowercase(), Arc::new(handler)));
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the names of the servers, in order.
    fn names(&self) -> Vec<String> {
        let name = |origin: &String| {
            let authority = origin.split_once("://").map_or(origin.as_str(), |(_, authority)| authority);
            authority.rsplit_once(':').map_or(authority, |(name, _)| name).to_owned()
        };
        self.handlers.iter().map(|(origin, _)| name(origin)).collect()
    }

    fn answer(&self, scheme: &str, request: http::Request<Bytes>) -> Response {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let origin = format!("{scheme}://{}", host.to_ascii_lowercase());
        let (mut head, body) = request.into_parts();
        // Values of credentials are hidden in debug output, which a test wants to search.
        head.headers.values_mut().for_each(|value| value.set_sensitive(false));
        head.uri = format!("{origin}{}", head.uri).parse().unwrap_or(head.uri);
        let request = http::Request::from_parts(head, body);
        let found = self.handlers.iter().find(|(known, _)| *known == origin);
        let answer = match found {
            Some((_, handler)) => handler(&request),
            None => response(502, &[], format!("the test scripts no server `{origin}`")),
        };
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        answer
    }
}

/// The listener for all names. It ends when it is dropped.
pub(crate) struct Listener {
    pub(crate) client: Client,
    _task: JoinSet<()>,
}

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// The system gives no port, or a certificate cannot be made.
    pub(crate) async fn start(servers: Servers) -> Result<Self, TestError> {
        let failed =
            |error: &dyn fmt::Display| TestError::new(format!("could not start the scripted servers: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let certificates = Certificates::new().map_err(|error| failed(&error))?;
        let authority = certificates.0.pem();
        let tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        let network = ScriptedNetwork { names: servers.names(), address };
        let settings = ClientSettings { certificates: authority.into_bytes(), network: Arc::new(network) };
        let client = Client::new(settings).map_err(|error| failed(&error))?;
        let mut task = JoinSet::new();
        task.spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), servers));
        Ok(Self { client, _task: task })
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, servers: Servers) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, servers) = (tls.clone(), servers.clone());
        connections.spawn(async move {
            let mut first = [0];
            match stream.peek(&mut first).await {
                Ok(1) if first == [HANDSHAKE] => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, "https", servers).await;
                    }
                }
                _ => serve(stream, "http", servers).await,
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, scheme: &'static str, servers: Servers) {
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let servers = servers.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let answer = servers.answer(scheme, http::Request::from_parts(head, body));
            Ok::<_, Infallible>(answer.map(Full::new))
        }
    });
    // The client may close the connection at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Resolves the names of the scripted servers, and connects every address to the listener.
struct ScriptedNetwork {
    names: Vec<String>,
    address: SocketAddr,
}

impl Network for ScriptedNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let known = self.names.iter().position(|known| known == name).and_then(|at| u8::try_from(at).ok());
        Box::pin(async move {
            match known {
                // Public addresses, which the listener stands behind: nothing connects to their owner.
                Some(at) => Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, at))]),
                None => Err(io::Error::new(io::ErrorKind::NotFound, "the test scripts no server of this name")),
            }
        })
    }

    fn connect(&self, _: SocketAddr) -> Connecting<'_> {
        Box::pin(TcpStream::connect(self.address))
    }
}

/// A certificate authority that certifies every name that is asked for.
struct Certificates(CertifiedIssuer<'static, KeyPair>);

impl Certificates {
    fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Self)
    }

    fn certify(&self, name: &str) -> Result<CertifiedKey, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let params = CertificateParams::new([name.to_owned()]).map_err(|error| error.to_string())?;
        let certificate = params.signed_by(&key, &self.0).map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        let key = sign::any_supported_type(&key).map_err(|error| error.to_string())?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A client that connects to an address sends no name.
        self.certify(hello.server_name().unwrap_or("127.0.0.1")).ok().map(Arc::new)
    }
}
