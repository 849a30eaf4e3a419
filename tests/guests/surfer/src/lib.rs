//! Sends the requests in its arguments through `wasi:http`, as HTTP clients of languages do.

use pinion_plugin_sdk::prelude::*;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    requests: Vec<Request>,
    /// Begins all requests before it waits for the first response.
    #[serde(default)]
    at_once: bool,
    /// Returns without waiting for any response.
    #[serde(default)]
    leave: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Request {
    #[serde(default = "get")]
    method: String,
    url: String,
    /// Instead of the one in `url`.
    authority: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// Repeats the body so many times.
    #[serde(default)]
    repeat: usize,
    /// Milliseconds until the first byte of the response.
    first_byte_ms: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn get() -> String {
    "GET".to_owned()
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    }
}

/// Begins a request. An error of the interface is a string that begins with the function that returned it.
fn begin(request: &Request) -> Result<FutureIncomingResponse, String> {
    let fields: Vec<(String, Vec<u8>)> =
        request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    let fields = Fields::from_list(&fields).map_err(|error| format!("fields: {error:?}"))?;
    let outgoing = OutgoingRequest::new(fields);
    let refused = |of: &'static str| move |()| format!("{of}: refused");
    let (scheme, rest) = request.url.split_once("://").unwrap_or(("https", &request.url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing.set_method(&method(&request.method)).map_err(refused("method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(refused("scheme"))?;
    let authority = request.authority.as_deref().unwrap_or(authority);
    outgoing.set_authority(Some(authority)).map_err(refused("authority"))?;
    outgoing.set_path_with_query(Some(path)).map_err(refused("path"))?;
    let options = RequestOptions::new();
    let first_byte = request.first_byte_ms.map(|ms| ms * 1_000_000);
    options.set_first_byte_timeout(first_byte).map_err(refused("options"))?;
    let body = outgoing.body().map_err(refused("body"))?;
    let future = handle(outgoing, Some(options)).map_err(|error| format!("handle: {error:?}"))?;
    let content = request.body.repeat(request.repeat.max(1)).into_bytes();
    let written = body.write().map_err(refused("write"))?;
    for piece in content.chunks(4096) {
        // The host stops reading when it refuses the request; the response says why.
        if written.blocking_write_and_flush(piece).is_err() {
            break;
        }
    }
    drop(written);
    let _ = OutgoingBody::finish(body, None);
    Ok(future)
}

fn end(future: &FutureIncomingResponse) -> Result<Value, String> {
    future.subscribe().block();
    let response = future.get().ok_or("get: not ready")?.map_err(|()| "get: taken")?;
    read(response.map_err(|error| format!("{error:?}"))?)
}

fn read(response: IncomingResponse) -> Result<Value, String> {
    let headers: Vec<(String, String)> = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let status = response.status();
    let body = response.consume().map_err(|()| "consume: taken")?;
    let stream = body.stream().map_err(|()| "stream: taken")?;
    let (mut start, mut size) = (Vec::new(), 0);
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(bytes) => {
                size += bytes.len();
                start.extend(bytes.into_iter().take(4096_usize.saturating_sub(start.len())));
            }
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(format!("{} after {size} bytes", error.to_debug_string()));
            }
        }
    }
    Ok(json!({ "status": status, "headers": headers, "body": String::from_utf8_lossy(&start), "size": size }))
}

fn outcome(result: Result<Value, String>) -> Value {
    result.unwrap_or_else(|error| json!({ "error": error }))
}

fn all(arguments: Arguments) -> Result<String> {
    let requests = arguments.requests;
    if arguments.leave {
        let begun: Vec<_> = requests.iter().map(begin).collect();
        // The host closes open requests when the call ends.
        return Ok(begun.iter().filter(|begun| begun.is_ok()).count().to_string());
    }
    let outcomes: Vec<Value> = if arguments.at_once {
        let begun: Vec<_> = requests.iter().map(begin).collect();
        begun.into_iter().map(|begun| outcome(begun.and_then(|future| end(&future)))).collect()
    } else {
        requests.iter().map(|request| outcome(begin(request).and_then(|future| end(&future)))).collect()
    };
    Ok(Value::from(outcomes).to_string())
}

/// Keeps as many fields as the host lets it.
fn hoard() -> Result<String> {
    let mut kept = Vec::new();
    loop {
        let fields = Fields::new();
        for at in 0..6 {
            let _ = fields.append(&format!("x-{at}"), &[b'x'; 2048]);
        }
        kept.push(fields);
    }
}

struct Surfer;

impl Plugin for Surfer {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("surf", "Sends requests.", |a: Arguments, _: &Call| all(a)).network(),
            Tool::new("surf_quietly", "Sends requests, and does not say so.", |a: Arguments, _: &Call| all(a)),
            Tool::new("hoard", "Keeps fields without end.", |_: Nothing, _: &Call| hoard()).network(),
        ]
    }

    fn commands() -> Vec<Command> {
        Vec::new()
    }
}

export!(Surfer, exports = [tools], asks = { "http": true, "secrets": true });
