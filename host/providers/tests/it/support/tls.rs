//! A server that speaks HTTP/2 over TLS and nothing else.

use crate::support::formats::directory;
use bytes::Bytes;
use http::{Response, header};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Http2Server {
    pub(crate) url: String,
    task: AbortHandle,
}

impl Drop for Http2Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The authority that signed the server's certificate, as PEM.
pub(crate) fn authority() -> Vec<u8> {
    fs::read(directory().join("tls/authority.pem")).unwrap()
}

impl Http2Server {
    /// Answers every request with this body, in frames of a few bytes.
    pub(crate) async fn answering(kind: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let acceptor = TlsAcceptor::from(Arc::new(config()));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(&acceptor, stream, kind, &body).await;
            }
        });
        Self { url, task: task.abort_handle() }
    }
}

fn config() -> ServerConfig {
    let pem = |name: &str| fs::read(directory().join("tls").join(name)).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn serve(acceptor: &TlsAcceptor, stream: TcpStream, kind: &'static str, body: &[u8]) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = Response::builder().header(header::CONTENT_TYPE, kind).body(()).unwrap();
        let mut out = respond.send_response(head, false).unwrap();
        for piece in body.chunks(100) {
            out.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        }
        out.send_data(Bytes::new(), true).unwrap();
    }
}
