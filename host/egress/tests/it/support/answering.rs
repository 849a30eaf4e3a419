//! One connection of a test server that keeps requests and answers them. The integration tests of the repository include this
//! file, too.

#![allow(unreachable_pub, reason = "public where the support crate of the integration tests includes it")]

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};

/// A request as a server received it.
pub type Received = http::Request<Bytes>;
/// The answer of a server.
pub type Answer = http::Response<Bytes>;
/// The requests so far.
pub type Requests = Arc<Mutex<Vec<Received>>>;

/// Creates an answer.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

/// Answers the requests of a connection with a function, and keeps them.
pub async fn serve<S, H>(stream: S, handler: Arc<H>, kept: Requests)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(&Received) -> Answer + Send + Sync + ?Sized + 'static,
{
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let (kept, handler) = (kept.clone(), handler.clone());
        async move {
            let (mut head, body) = request.into_parts();
            // So that debug output shows the values.
            head.headers.values_mut().for_each(|value| value.set_sensitive(false));
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let request = http::Request::from_parts(head, body);
            let response = handler(&request);
            kept.lock().unwrap().push(request);
            Ok::<_, Infallible>(response.map(Full::new))
        }
    });
    // The client may close the connection at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
