//! The imports `http` and `wasi:http`.

use super::request::{credentials, denied};
use super::wasi::{Sending, internal_error};
use super::{DEFAULT_TIMEOUT, Http, MAX_BODY};
use crate::bindings::pinion::plugin::http::{self, Failure, HttpError, Request, Response};
use crate::calls::state::State;
use crate::capability::authority::CallAuthority;
use pinion_egress::{Client, Limit, Redirects, RequestAccess, RequestLimits, SendError};
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_limits::{FaultKind, ReservedMemory};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::HasSelf;
use wasmtime_wasi_http::p2::bindings;
use wasmtime_wasi_http::{Error, WasiHttp, WasiHttpCtxView, WasiHttpView};

/// Bytes of the body of a response unless the request says more.
const DEFAULT_BODY: u32 = 4 << 20;
/// Maximum number of redirects.
const MAX_REDIRECTS: u8 = 10;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    http::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    link_wasi(linker.unrecorded())
}

fn link_wasi(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    let options = bindings::LinkOptions::default();
    bindings::http::types::add_to_linker::<_, WasiHttp>(linker, &options.into(), |state| {
        state.note_unrecorded("wasi:http");
        state.http()
    })?;
    bindings::http::outgoing_handler::add_to_linker::<_, WasiHttp>(linker, |state| {
        // Called once for each request, before it is passed on.
        state.note_unrecorded("wasi:http");
        let next = sending(state);
        state.wasi_http.expect(next);
        state.http()
    })
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.wasi_http.view(&mut self.table)
    }
}

/// Returns everything that the next request through `wasi:http` needs of its call, or the reason why it is not sent.
fn sending(state: &mut State) -> Result<Sending, Error> {
    let authority = state.call.authority.clone();
    if let Err(denied) = authority.check::<Http>() {
        return Err(internal_error(denied));
    }
    let http = &mut state.account.capabilities.http;
    http.spend().map_err(|_| {
        internal_error(format!("{:#}", FaultKind::Requests { limit: http.max }.for_plugin(&state.plugin)))
    })?;
    let (slot, ended) = http.open.get_or_insert_default().slot()?;
    Ok(Sending {
        authority,
        deadline: state.call.deadline.clone(),
        client: state.client.clone(),
        traffic: http.traffic.clone(),
        reserved: state.limiter.reserve(),
        slot,
        ended,
    })
}

impl http::Host for State {
    async fn send(&mut self, request: Request) -> wasmtime::Result<Result<Response, HttpError>> {
        let authority = self.call.authority.clone();
        let policy = match authority.check::<Http>() {
            Ok(policy) => policy,
            Err(denied) => return Ok(Err(HttpError::Denied(denied.to_string()))),
        };
        self.account.capabilities.http.spend()?;
        let credentials = match credentials(&authority, request.credential.as_deref()).await {
            Ok(credentials) => credentials,
            Err(denied) => return Ok(Err(HttpError::Denied(denied))),
        };
        let left = self.call.deadline.at().saturating_duration_since(Instant::now());
        let access = RequestAccess {
            limits: limits(&request, left),
            observer: Some(self.account.capabilities.http.traffic.clone()),
            cancel: self.call.deadline.token().clone(),
            ..RequestAccess::new(policy, &credentials)
        };
        let mut reserved = self.limiter.reserve();
        match exchange(&self.client, outgoing(request), &access, &mut reserved).await {
            Ok(response) => Ok(Ok(response)),
            Err(Unfinished::Failed(error)) => Ok(Err(http_error(error, &authority))),
            Err(Unfinished::NoMemory) => {
                self.limiter.refuse_total();
                Err(wasmtime::Error::msg("the response does not fit into the memory of the plugin's calls"))
            }
        }
    }
}

/// The reason why a request has no response.
enum Unfinished {
    Failed(SendError),
    NoMemory,
}

/// Sends a request and reads the whole response. Counts the bytes of the body before it keeps them.
async fn exchange(
    client: &Client,
    request: pinion_egress::Request,
    access: &RequestAccess<'_>,
    reserved: &mut ReservedMemory,
) -> Result<Response, Unfinished> {
    let mut response = client.send(request, access).await.map_err(Unfinished::Failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = response.headers().map(|(name, value)| (name.to_owned(), text(value))).collect();
    let (status, url) = (response.status(), response.url().to_owned());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unfinished::Failed)? {
        if !reserved.add(chunk.len() as u64) {
            return Err(Unfinished::NoMemory);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Response { status, headers, body, url })
}

/// The bounds of a request, never later than the end of the call, which is `left` away.
fn limits(request: &Request, left: Duration) -> RequestLimits {
    let asked = request.timeout_ms.map_or(DEFAULT_TIMEOUT, |ms| Duration::from_millis(ms.into()));
    RequestLimits {
        request_body: MAX_BODY.into(),
        response_body: request.max_body.unwrap_or(DEFAULT_BODY).min(MAX_BODY).into(),
        total: asked.min(left),
        ..RequestLimits::default()
    }
}

fn outgoing(request: Request) -> pinion_egress::Request {
    let most = request.max_redirects.unwrap_or(MAX_REDIRECTS.into());
    pinion_egress::Request {
        method: request.method,
        url: request.url,
        headers: request.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
        body: request.body.into(),
        credential: request.credential,
        redirects: match u8::try_from(most).unwrap_or(MAX_REDIRECTS) {
            0 => Redirects::Return,
            most => Redirects::AtMost(most.min(MAX_REDIRECTS)),
        },
    }
}

fn http_error(error: SendError, authority: &CallAuthority) -> HttpError {
    let failure = Failure { message: error.to_string(), request_sent: error.request_sent() };
    match error {
        SendError::Denied { denial, request_sent } => HttpError::Denied(denied(&denial, request_sent, authority)),
        SendError::InvalidRequest(problem) => HttpError::Invalid(problem),
        SendError::TooLarge { limit: Limit::ResponseBody(limit), .. } => {
            HttpError::TooLarge(u32::try_from(limit).unwrap_or(u32::MAX))
        }
        SendError::TooLarge { limit: Limit::RequestBody(_) | Limit::RequestHeaders(_), .. } => {
            HttpError::Invalid(failure.message)
        }
        SendError::TimedOut { .. } => HttpError::TimedOut(failure),
        SendError::Cancelled { .. } => HttpError::Cancelled(failure),
        _ => HttpError::Failed(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(timeout_ms: Option<u32>, max_body: Option<u32>, max_redirects: Option<u32>) -> Request {
        Request {
            method: "GET".to_owned(),
            url: "https://a.example".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            credential: None,
            timeout_ms,
            max_redirects,
            max_body,
            extra: None,
        }
    }

    #[test]
    fn bounds_of_a_request_stay_within_those_of_the_host_and_the_call() {
        let minute = Duration::from_secs(60);
        let bounds = |timeout, body, left| {
            let limits = limits(&request(timeout, body, None), left);
            (limits.total.as_millis(), limits.response_body)
        };
        assert_eq!(bounds(None, None, minute), (30_000, 4 << 20));
        assert_eq!(bounds(Some(u32::MAX), Some(u32::MAX), minute), (60_000, 16 << 20));
        assert_eq!(bounds(Some(10), Some(1), Duration::from_millis(5)), (5, 1));
    }

    #[test]
    fn redirects_are_followed_as_often_as_asked_and_at_most_ten_times() {
        let redirects = |most| outgoing(request(None, None, most)).redirects;
        assert_eq!([None, Some(3), Some(300)].map(redirects), [10, 3, 10].map(Redirects::AtMost));
        assert_eq!(redirects(Some(0)), Redirects::Return);
    }
}
