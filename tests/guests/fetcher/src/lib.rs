//! Sends the requests in its arguments, from wherever a plugin runs: tools, commands, completions and `init`.

use pinion_plugin_sdk::bindings::imports::pinion::plugin::http::{self, HttpError};
use pinion_plugin_sdk::prelude::*;
use std::sync::OnceLock;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    requests: Vec<Request>,
}

#[derive(Deserialize, JsonSchema)]
struct Request {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// Repeats the body so many times.
    #[serde(default)]
    repeat: usize,
    credential: Option<String>,
    timeout_ms: Option<u32>,
    max_redirects: Option<u32>,
    max_body: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    /// Requested by `init`.
    url: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

static INIT: OnceLock<Value> = OnceLock::new();

/// Sends a request and returns the outcome: the response, or the case of the error with its content.
fn send(request: Request) -> Value {
    let sent = http::send(&http::Request {
        method: request.method,
        url: request.url,
        headers: request.headers,
        body: request.body.repeat(request.repeat.max(1)).into_bytes(),
        credential: request.credential,
        timeout_ms: request.timeout_ms,
        max_redirects: request.max_redirects,
        max_body: request.max_body,
        extra: None,
    });
    let failure = |case: &str, failure: http::Failure| json!({ case: failure.message, "sent": failure.request_sent });
    match sent {
        Ok(response) => {
            let size = response.body.len();
            let start = String::from_utf8_lossy(&response.body[..size.min(4096)]).into_owned();
            json!({
                "status": response.status,
                "headers": response.headers,
                "body": start,
                "size": size,
                "url": response.url,
            })
        }
        Err(HttpError::Denied(text)) => json!({ "denied": text }),
        Err(HttpError::Invalid(text)) => json!({ "invalid": text }),
        Err(HttpError::TooLarge(limit)) => json!({ "too-large": limit }),
        Err(HttpError::TimedOut(said)) => failure("timed-out", said),
        Err(HttpError::Cancelled(said)) => failure("cancelled", said),
        Err(HttpError::Failed(said)) => failure("failed", said),
    }
}

fn request(url: &str) -> Request {
    let (headers, body) = (Vec::new(), String::new());
    Request {
        method: get(),
        url: url.to_owned(),
        headers,
        body,
        repeat: 1,
        credential: None,
        timeout_ms: None,
        max_redirects: None,
        max_body: None,
    }
}

fn all(arguments: Arguments) -> Result<String> {
    let outcomes: Vec<Value> = arguments.requests.into_iter().map(send).collect();
    Ok(Value::from(outcomes).to_string())
}

struct Fetcher;

impl Plugin for Fetcher {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("fetch", "Sends requests.", |a: Arguments, _: &Call| all(a)).network(),
            Tool::new("fetch_quietly", "Sends requests, and does not say so.", |a: Arguments, _: &Call| all(a)),
            Tool::new("init_outcome", "Returns the outcome of the request of `init`.", |_: Nothing, _: &Call| {
                Ok(INIT.get().map_or_else(|| "none".to_owned(), Value::to_string))
            }),
        ]
    }

    fn commands() -> Vec<Command> {
        let run = |typed: &str, _: &Call| Ok(vec![Action::Print(send(request(typed)).to_string())]);
        let complete = |typed: &str| vec![Completion { value: send(request(typed)).to_string(), description: None }];
        vec![Command::new("fetch", "Sends a request.", run).complete(complete)]
    }

    fn init() -> Result<(), String> {
        if let Some(url) = config::<Config>()?.url {
            let _ = INIT.set(send(request(&url)));
        }
        Ok(())
    }
}

export!(Fetcher, exports = [tools, commands, lifecycle], asks = { "http": true, "secrets": true });
