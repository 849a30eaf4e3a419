//! Maps vendors' error responses to the errors that the loop understands.
//!
//! A pure function from status, headers and body to [`ProviderError`]. An overflow of the context window is recognized
//! by its wording, because no two vendors agree on a code. A rate limit never counts as one, although its message
//! mentions tokens too.

use pinion_protocol::ProviderError;
use serde_json::Value;
use std::time::Duration;

/// The limit on the length of an error message, in characters. It is shortened once secrets were redacted, which are not
/// recognized when they are cut.
const MAX_MESSAGE: usize = 64 << 10;

/// Vendors' wordings for a prompt that exceeds the context window, in lower case. `#` matches a number.
const OVERFLOW: &[&str] = &[
    "prompt is too long",                              // Anthropic
    "exceed context limit",                            // Anthropic: input length and `max_tokens` exceed context limit
    "input is too long for requested model",           // Bedrock
    "exceeds the context window",                      // OpenAI
    "maximum context length",                          // OpenAI, OpenRouter, vLLM, DeepSeek
    "context_length_exceeded",                         // OpenAI's code
    "context length exceeded",                         // several
    "exceeds the maximum number of tokens",            // Gemini
    "maximum prompt length",                           // xAI
    "reduce the length of the messages",               // Groq
    "reduce the length of your prompt",                // Together
    "too large for model with # maximum context",      // Mistral
    "exceeds the limit of #",                          // GitHub Models: prompt token count of 1 exceeds the limit of 2
    "exceeds the available context size",              // llama.cpp
    "exceed_context_size_error",                       // llama.cpp's code
    "greater than the context length",                 // LM Studio
    "context window exceeds limit",                    // MiniMax
    "exceeded model token limit",                      // Kimi
    "model_context_window_exceeded",                   // Z.ai
    "input token count exceeds",                       // Vertex
    "input tokens exceeded",                           // Nova
    "exceeds maximum length",                          // Nova: number of input tokens exceeds maximum length
    "too_many_prompt_tokens",                          // Perplexity's type
    "total length of all messages is too long",        // Perplexity
    "prompt too long; exceeded",                       // Ollama
    "too many tokens",                                 // several
    "token limit exceeded",                            // several
    "maximum allowed input length",                    // SambaNova
    "tokens exceeds the model's maximum input length", // Azure
    "input length exceeds the context length",         // Ollama
    "prompt is longer than the context length",        // Ollama
    "too many total text bytes",                       // Bedrock
    "range of input length should be",                 // DashScope
    "the model's context length is only",              // vLLM
    "longer than the maximum model length",            // vLLM
    "is longer than the model's context length",       // SGLang
    "exceeds the maximum allowed length",              // SGLang
    "`inputs` tokens + `max_new_tokens` must be <=",   // TGI, Together
    "`inputs` must have less than # tokens",           // TGI
    "prompt exceeds max length",                       // Zhipu
    "exceed max message tokens",                       // Volcengine
    "loaded with context length of only #",            // LM Studio
    "contextwindowexceeded",                           // LiteLLM's type
    "exceeded this model context window limit",        // Cloudflare
    "exceed context window of #",                      // llama-cpp-python
    "greater than max_seq_len",                        // TabbyAPI
    "should not exceed max_num_tokens",                // TensorRT-LLM
    "is too long to fit into the model",               // vLLM
    "context size has been exceeded",                  // LM Studio
    "must be less than max_seq_len",                   // SiliconFlow
    "cannot exceed the total tokens limit",            // watsonx
    "exceeds maximum input length",                    // TensorRT-LLM
    "prompt tokens too long",                          // Qianfan
    "string_above_max_length",                         // OpenAI's code for a single text
];

/// A response that is not a reply.
pub(crate) struct ErrorResponse<'a> {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body, possibly truncated.
    pub(crate) body: &'a [u8],
    /// The error code in a header.
    pub(crate) code: Option<&'a str>,
    /// The delay before a retry, from the headers.
    pub(crate) retry_after: Option<Duration>,
    /// The vendor's request ID, for its support.
    pub(crate) request_id: Option<&'a str>,
}

/// Classifies an error response.
pub(crate) fn classify(answer: &ErrorResponse<'_>) -> ProviderError {
    let mut body = Envelope::read(answer.body);
    body.codes.extend(answer.code.map(str::to_lowercase));
    let text = body.message.clone().unwrap_or_else(|| reason(answer.status).to_owned());
    let message = match answer.request_id {
        Some(id) => format!("{text} (request {})", bounded(id)),
        None => text,
    };
    // Vendors round some of the delays down, and the largest is never too early.
    let retry_after = [answer.retry_after, body.retry_after, delay_in_text(&message)].into_iter().flatten().max();
    match answer.status {
        // OpenRouter's status for input that a moderator flagged.
        403 if body.is_moderated => api(answer.status, message),
        401 | 403 => ProviderError::Auth { message },
        400 if body.has_code(AUTH) || reports_invalid_key(&message) => ProviderError::Auth { message },
        429 if body.is_used_up(retry_after) => api(answer.status, message),
        429 if body.has_code(&["modelnotready"]) => ProviderError::Overloaded { retry_after, message },
        429 => ProviderError::RateLimited { retry_after, message },
        413 => ProviderError::ContextOverflow { message },
        400 | 422 if body.has_code(MALFORMED_OUTPUT) => ProviderError::Overloaded { retry_after, message },
        400 if answer.body.iter().all(u8::is_ascii_whitespace) => ProviderError::ContextOverflow { message },
        _ if body.is_overflow() => ProviderError::ContextOverflow { message },
        // 409 is a conflict with another request, which the vendors' own clients repeat; 498 is Groq's for a full tier.
        408 | 409 | 424 | 425 | 498 | 500 | 502..=504 | 520..=599 => ProviderError::Overloaded { retry_after, message },
        status => api(status, message),
    }
}

/// Classifies an error from the middle of a stream, or from a response with status 200. If the server reports nothing but
/// a text, it counts as the server's own failure unless the text says otherwise.
pub(crate) fn classify_object(error: &Value) -> ProviderError {
    match classify_details(error) {
        ProviderError::Api { message, .. } if error.is_string() => {
            ProviderError::Overloaded { message, retry_after: None }
        }
        other => other,
    }
}

fn classify_details(error: &Value) -> ProviderError {
    let body = Envelope::from_error(error);
    let message = body.message.clone().unwrap_or_else(|| "the vendor reported an error without a message".to_owned());
    let retry_after = body.retry_after.max(delay_in_text(&message));
    let is_of_server = || {
        body.has_code(OVERLOAD)
            || body.has_code(MALFORMED_OUTPUT)
            || body.codes.iter().any(|code| code.len() == 3 && code.starts_with('5'))
            || (body.codes.iter().all(|code| is_number(code)) && reports_outage(&message))
    };
    if body.is_used_up(retry_after) {
        ProviderError::Api { status: None, message }
    } else if body.has_code(RATE_LIMIT) {
        ProviderError::RateLimited { message, retry_after }
    } else if body.has_code(AUTH) && !body.is_moderated {
        ProviderError::Auth { message }
    } else if body.has_code(&["request_too_large", "413"]) || body.is_overflow() {
        ProviderError::ContextOverflow { message }
    } else if is_of_server() {
        ProviderError::Overloaded { message, retry_after }
    } else {
        ProviderError::Api { status: None, message }
    }
}

/// Fragments of vendors' error types and codes, in lower case.
const NO_CREDIT: &[&str] = &["insufficient_quota", "exceeded_current_quota", "billing", "credit_balance", "perday"];
/// Wordings of used-up credit, in lower case, for vendors whose code for it is a number (Z.ai).
const NO_CREDIT_TEXT: &[&str] = &["insufficient balance", "insufficient credit", "please recharge"];
const RATE_LIMIT: &[&str] =
    &["rate_limit", "request_limit", "too_many_requests", "429", "throttling", "resource_exhausted"];
const AUTH: &[&str] = &[
    "authentication",
    "permission",
    "invalid_api_key",
    "api_key_invalid",
    "unauthorized",
    "unauthenticated",
    "accessdenied",
    "expiredtoken",
    "unrecognizedclient",
    "401",
    "403",
];
const OVERLOAD: &[&str] = &[
    "overloaded",
    "api_error",
    "server_error",
    "internal",
    "timeout",
    "unavailable",
    "slow_down",
    "deadline_exceeded",
    "modelstreamerror",
    "modelnotready",
    "modelerror",
];

/// Groq's codes for output that it could not read as a call or as JSON itself; another attempt usually succeeds.
const MALFORMED_OUTPUT: &[&str] = &["tool_use_failed", "output_parse_failed", "json_validate_failed"];

/// Returns whether the message reports that the prompt exceeds the context window.
pub(crate) fn is_overflow(message: &str) -> bool {
    let text = collapse_numbers(&message.to_lowercase());
    OVERFLOW.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether the message reports an invalid key; xAI and Gemini use status 400 for this.
fn reports_invalid_key(message: &str) -> bool {
    let text = message.to_lowercase();
    ["incorrect api key", "invalid api key", "api key not valid"].iter().any(|phrase| text.contains(phrase))
}

/// Wordings of a failure of the server, in lower case, for errors without a code or with the vendor's own number.
const OUTAGE: &[&str] = &[
    "internal error",
    "internal server error",
    "had an error",
    "timed out",
    "timeout",
    "overloaded",
    "unavailable",
    "too busy",
];

fn reports_outage(message: &str) -> bool {
    let text = message.to_lowercase();
    OUTAGE.iter().any(|phrase| text.contains(phrase))
}

fn is_number(code: &str) -> bool {
    code.bytes().all(|byte| byte.is_ascii_digit())
}

fn api(status: u16, message: String) -> ProviderError {
    ProviderError::Api { status: Some(status), message }
}

/// The content of an error body, independent of its shape.
struct Envelope {
    message: Option<String>,
    /// Types and codes, in lower case.
    codes: Vec<String>,
    /// The delay before a retry.
    retry_after: Option<Duration>,
    /// A moderator flagged the input.
    is_moderated: bool,
}

impl Envelope {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_body(&value),
            Err(_) => Self { message: plain_text(body), codes: Vec::new(), retry_after: None, is_moderated: false },
        }
    }

    fn from_body(body: &Value) -> Self {
        // Gemini wraps the body in a list.
        let body = body.get(0).unwrap_or(body);
        match body.get("error") {
            Some(error) if !error.is_null() => {
                let inner = Self::from_error(error);
                // OAuth errors are a code, with the message next to it.
                let beside = body.get("error_description").and_then(Value::as_str).map(bounded);
                let message = beside.or(inner.message).or_else(|| text_of(body));
                Self { message, retry_after: inner.retry_after.max(delay_in_fields(body)), ..inner }
            }
            _ => Self::from_error(body),
        }
    }

    fn from_error(error: &Value) -> Self {
        let of = |object: &Value, keys: &[&str]| -> Vec<String> {
            let code = |key: &&str| match object.get(*key)? {
                Value::String(code) => Some(code.to_lowercase()),
                Value::Number(code) => Some(code.to_string()),
                _ => None,
            };
            keys.iter().filter_map(code).collect()
        };
        // Google adds a list of details of various types.
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let reasons = details.iter().flat_map(|detail| of(detail, &["reason"]));
        let violations = details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        let quotas = violations.flat_map(|violation| of(violation, &["quotaId"]));
        let codes = of(error, &["type", "code", "error_code", "status", "__type"])
            .into_iter()
            .chain(reasons)
            .chain(quotas)
            .collect();
        let delay = details.iter().find_map(|detail| parse_delay(detail.get("retryDelay")?.as_str()?));
        let is_moderated =
            ["/metadata/reasons", "/metadata/flagged_input"].iter().any(|at| error.pointer(at).is_some());
        Self { codes, message: text_of(error), retry_after: delay.max(delay_in_fields(error)), is_moderated }
    }

    /// Returns whether a limit is used up for longer than a retry can wait: credit, or a daily quota. `delay` is the
    /// vendor's own delay; a quota with a delay may also grow back steadily.
    fn is_used_up(&self, delay: Option<Duration>) -> bool {
        let text = self.message.as_deref().unwrap_or_default().to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        self.has_code(NO_CREDIT) || says(NO_CREDIT_TEXT) || (delay.is_none() && says(&["per day"]))
    }

    fn has_code(&self, parts: &[&str]) -> bool {
        self.codes.iter().any(|code| parts.iter().any(|part| code.contains(part)))
    }

    fn is_overflow(&self) -> bool {
        self.codes.iter().chain(&self.message).any(|text| is_overflow(text))
    }
}

/// Extracts the delay from a field next to the message, as gateways send it.
fn delay_in_fields(error: &Value) -> Option<Duration> {
    let of = |name: &str| error.get(name)?.as_f64();
    let exact = of("retry_after_ms").map(|ms| ms / 1000.0);
    let names = ["retry_after", "retryAfter", "retry_after_seconds"];
    exact.or_else(|| names.into_iter().find_map(of)).and_then(seconds)
}

/// Extracts the message of an error object from `message`, `detail` (which FastAPI makes a list of problems), `error`,
/// Cloudflare's `errors` or the object itself, and appends the message of a router's upstream.
fn text_of(error: &Value) -> Option<String> {
    let message = match error {
        Value::String(text) => Some(text.as_str()),
        _ => ["message", "Message", "detail", "error_description", "error", "errors"].iter().find_map(|key| {
            match error.get(key)? {
                Value::String(text) => Some(text.as_str()),
                Value::Array(list) => ["msg", "message"].iter().find_map(|key| list.first()?.get(*key)?.as_str()),
                // Mistral puts FastAPI's list of problems one level deeper.
                Value::Object(inner) => match inner.get("detail") {
                    Some(Value::Array(list)) => list.first()?.get("msg")?.as_str(),
                    _ => inner.get("message")?.as_str(),
                },
                _ => None,
            }
        }),
    };
    let upstream =
        error.pointer("/metadata/raw").and_then(Value::as_str).and_then(|raw| Envelope::read(raw.as_bytes()).message);
    match (message.filter(|text| !text.trim().is_empty()), upstream) {
        (Some(message), Some(upstream)) => Some(bounded(&format!("{message}: {upstream}"))),
        (Some(message), None) => Some(bounded(message)),
        (None, upstream) => upstream,
    }
}

fn plain_text(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    match text.starts_with('<') {
        true => Some(html_title(text).unwrap_or_else(|| "the response is a web page".to_owned())),
        false => Some(bounded(text)),
    }
}

fn html_title(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(format!("the response is a web page: {}", bounded(title.trim())))
}

/// Truncates a text and removes control characters, because it is shown on a terminal.
fn bounded(text: &str) -> String {
    text.trim().chars().take(MAX_MESSAGE).map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

fn reason(status: u16) -> &'static str {
    match status {
        300..=399 => "redirected; set the base URL to the server's actual location",
        400 => "bad request",
        401 => "the key is missing or wrong",
        402 => "payment required",
        403 => "the key is not allowed to do this",
        404 => "not found",
        407 => "the proxy requires a user and password in its URL",
        408 | 504 => "the server timed out",
        413 => "the request is too large",
        429 => "too many requests",
        500..=599 => "the server failed",
        _ => "the server refused the request",
    }
}

/// Extracts the delay from "Please try again in 1.5s", "in 20 seconds", "in 7m12s" or "in 86ms".
fn delay_in_text(message: &str) -> Option<Duration> {
    let lower = message.to_lowercase();
    let phrases = ["try again in ", "try again after ", "retry after ", "retry in ", "please wait "];
    phrases.iter().find_map(|phrase| parse_delay(lower.split_once(phrase)?.1))
}

/// Parses `7m12s`, `1.5s`, `86ms` or `20 seconds`; a bare number is seconds.
pub(crate) fn parse_delay(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut total = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let after = rest[digits..].trim_start();
        let word = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let scale = match &after[..word] {
            "ms" | "milliseconds" => 0.001,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * scale);
        rest = &after[word..];
    }
    total.and_then(seconds)
}

/// Converts seconds to a delay of at most a day; `None` when they are negative or not a number.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    let sensible = !seconds.is_nan();
    sensible.then(|| Duration::try_from_secs_f64(seconds.min(86_400.0)).ok()).flatten()
}

/// Replaces every run of digits with `#`, so that phrases match around numbers.
fn collapse_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
