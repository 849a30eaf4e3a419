//! Maps vendors' error responses to the errors that the loop understands.
//!
//! A pure function from status, headers and body to [`ProviderError`]. An overflow of the context window is recognized
//! by its wording, because no two vendors agree on a code. A rate limit never counts as one, although its message
//! mentions tokens too.

use pinion_protocol::ProviderError;
use serde_json::Value;
use std::time::Duration;

/// The limit on the length of an error message, in characters.
const MAX_MESSAGE: usize = 2_000;

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
    "prompt too long; exceeded",                       // Ollama
    "too many tokens",                                 // several
    "token limit exceeded",                            // several
    "maximum allowed input length",                    // SambaNova
    "tokens exceeds the model's maximum input length", // Azure
    "input length exceeds the context length",         // Ollama
    "prompt is longer than the context length",        // Ollama
    "too many total text bytes",                       // Bedrock
];

/// A response that is not a reply.
pub(crate) struct Answer<'a> {
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
pub(crate) fn classify(answer: &Answer<'_>) -> ProviderError {
    let mut body = Envelope::read(answer.body);
    body.codes.extend(answer.code.map(str::to_lowercase));
    let text = body.message.clone().unwrap_or_else(|| reason(answer.status).to_owned());
    let message = match answer.request_id {
        Some(id) => format!("{text} (request {})", bounded(id, 100)),
        None => text,
    };
    let retry_after = || answer.retry_after.or(body.retry_after).or_else(|| delay_in_text(&message));
    match answer.status {
        401 | 403 => ProviderError::Auth { message },
        400 if body.has_code(AUTH) || reports_invalid_key(&message) => ProviderError::Auth { message },
        429 if body.has_code(NO_CREDIT) => api(answer.status, message),
        429 if body.has_code(&["modelnotready"]) => ProviderError::Overloaded { retry_after: retry_after(), message },
        429 => ProviderError::RateLimited { retry_after: retry_after(), message },
        413 => ProviderError::ContextOverflow { message },
        400 if answer.body.iter().all(u8::is_ascii_whitespace) => ProviderError::ContextOverflow { message },
        _ if body.is_overflow() => ProviderError::ContextOverflow { message },
        408 | 424 | 425 | 500 | 502..=504 | 520..=599 => {
            ProviderError::Overloaded { retry_after: retry_after(), message }
        }
        status => api(status, message),
    }
}

/// Classifies an error object from the middle of a stream, or from a response with status 200.
pub(crate) fn classify_object(error: &Value) -> ProviderError {
    let body = Envelope::from_error(error);
    let message = body.message.clone().unwrap_or_else(|| "the vendor reported an error without a message".to_owned());
    let retry_after = body.retry_after.or_else(|| delay_in_text(&message));
    if body.has_code(NO_CREDIT) {
        ProviderError::Api { status: None, message }
    } else if body.has_code(RATE_LIMIT) {
        ProviderError::RateLimited { message, retry_after }
    } else if body.has_code(AUTH) {
        ProviderError::Auth { message }
    } else if body.has_code(&["request_too_large", "413"]) || body.is_overflow() {
        ProviderError::ContextOverflow { message }
    } else if body.has_code(OVERLOAD) || body.codes.iter().any(|code| code.len() == 3 && code.starts_with('5')) {
        ProviderError::Overloaded { message, retry_after }
    } else {
        ProviderError::Api { status: None, message }
    }
}

/// Fragments of vendors' error types and codes, in lower case.
const NO_CREDIT: &[&str] = &["insufficient_quota", "billing", "credit_balance"];
const RATE_LIMIT: &[&str] = &["rate_limit", "too_many_requests", "429", "throttling", "resource_exhausted"];
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

/// Returns whether the message reports that the prompt exceeds the context window.
pub(crate) fn is_overflow(message: &str) -> bool {
    let text = collapse_numbers(&message.to_lowercase());
    OVERFLOW.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether the message reports an invalid key, for which xAI and Gemini use status 400.
fn reports_invalid_key(message: &str) -> bool {
    let text = message.to_lowercase();
    ["incorrect api key", "invalid api key", "api key not valid"].iter().any(|phrase| text.contains(phrase))
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
}

impl Envelope {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_body(&value),
            Err(_) => Self { message: plain_text(body), codes: Vec::new(), retry_after: None },
        }
    }

    fn from_body(body: &Value) -> Self {
        // Gemini wraps the body in a list.
        let body = body.get(0).unwrap_or(body);
        match body.get("error") {
            Some(error) if !error.is_null() => {
                let inner = Self::from_error(error);
                // OAuth errors are a code, with the message beside it.
                let beside =
                    body.get("error_description").and_then(Value::as_str).map(|text| bounded(text, MAX_MESSAGE));
                let message = beside.or(inner.message).or_else(|| text_of(body));
                Self { message, ..inner }
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
        let codes = of(error, &["type", "code", "status", "__type"]).into_iter().chain(reasons).collect();
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
        Self { codes, message: text_of(error), retry_after: delay.and_then(parse_delay) }
    }

    fn has_code(&self, parts: &[&str]) -> bool {
        self.codes.iter().any(|code| parts.iter().any(|part| code.contains(part)))
    }

    fn is_overflow(&self) -> bool {
        self.codes.iter().chain(&self.message).any(|text| is_overflow(text))
    }
}

/// Extracts the message of an error object from `message`, `detail`, `error` or the object itself, and appends the
/// message of a router's upstream.
fn text_of(error: &Value) -> Option<String> {
    let said = match error {
        Value::String(text) => Some(text.as_str()),
        _ => ["message", "Message", "detail", "error_description", "error"].iter().find_map(|key| {
            match error.get(key)? {
                Value::String(text) => Some(text.as_str()),
                // FastAPI returns a list of problems.
                Value::Array(list) => list.first()?.get("msg")?.as_str(),
                Value::Object(inner) => inner.get("message")?.as_str(),
                _ => None,
            }
        }),
    };
    let upstream =
        error.pointer("/metadata/raw").and_then(Value::as_str).and_then(|raw| Envelope::read(raw.as_bytes()).message);
    match (said.filter(|text| !text.trim().is_empty()), upstream) {
        (Some(said), Some(upstream)) => Some(bounded(&format!("{said}: {upstream}"), MAX_MESSAGE)),
        (Some(said), None) => Some(bounded(said, MAX_MESSAGE)),
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
        false => Some(bounded(text, 500)),
    }
}

fn html_title(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(format!("the response is a web page: {}", bounded(title.trim(), 200)))
}

/// Truncates text to `max` characters and removes control characters, because it is shown on a terminal.
fn bounded(text: &str, max: usize) -> String {
    let mut out: String =
        text.trim().chars().take(max).map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    if text.trim().chars().nth(max).is_some() {
        out.push('…');
    }
    out
}

fn reason(status: u16) -> &'static str {
    match status {
        300..=399 => "redirected; set the base URL to the server's actual location",
        400 => "bad request",
        401 => "the key is missing or wrong",
        402 => "payment required",
        403 => "the key is not allowed to do this",
        404 => "not found; check the base URL and the model's name",
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
    let after = |phrase| lower.split_once(phrase).map(|(_, rest)| rest);
    parse_delay(after("try again in ").or_else(|| after("retry after ")).or_else(|| after("retry in "))?)
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
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(status: u16, body: &str) -> ProviderError {
        classify(&Answer { status, body: body.as_bytes(), code: None, retry_after: None, request_id: None })
    }

    fn error(status: u16, message: &str) -> ProviderError {
        answer(status, &json!({ "error": { "message": message } }).to_string())
    }

    /// One real message a vendor, as their documentation or their users quote it.
    const OVERFLOWS: &[&str] = &[
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
        "prompt token count of 140000 exceeds the limit of 128000",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        "prompt too long; exceeded max context length by 7 tokens",
        "Input validation error: too many tokens in the prompt",
        "token limit exceeded",
        "This request has 9000 tokens exceeds the model's maximum input length of 8192 tokens",
        "the input length exceeds the context length",
        "the prompt is longer than the context length currently available to the model; shorten the prompt",
    ];

    #[test]
    fn known_overflow_wordings_are_recognized() {
        assert!(OVERFLOWS.len() >= 15);
        for message in OVERFLOWS {
            assert!(matches!(error(400, message), ProviderError::ContextOverflow { .. }), "{message}");
            let object = classify_object(&json!({ "message": message }));
            assert!(matches!(object, ProviderError::ContextOverflow { .. }), "{message}");
        }
        let coded = json!({ "error": { "message": "too big", "code": "context_length_exceeded" } }).to_string();
        assert!(matches!(answer(400, &coded), ProviderError::ContextOverflow { .. }));
    }

    #[test]
    fn empty_400_or_413_is_an_overflow() {
        for status in [400, 413] {
            assert!(matches!(answer(status, " \n"), ProviderError::ContextOverflow { .. }));
        }
        let refused = ProviderError::Api { status: Some(400), message: "messages: at least one is needed".to_owned() };
        assert_eq!(error(400, "messages: at least one is needed"), refused);
        let too_much_output = "max_tokens: 9 > 8, which is the maximum allowed number of output tokens";
        assert!(matches!(error(400, too_much_output), ProviderError::Api { .. }));
    }

    #[test]
    fn status_determines_whether_to_retry() {
        let kinds: Vec<(u16, bool)> = [401, 402, 403, 404, 408, 422, 429, 500, 501, 502, 503, 504, 529]
            .map(|s| (s, error(s, "x").is_retryable()))
            .into();
        let retryable: Vec<u16> = kinds.iter().filter(|(_, retry)| *retry).map(|(status, _)| *status).collect();
        assert_eq!(retryable, [408, 429, 500, 502, 503, 504, 529]);
        assert!(matches!(error(401, "x"), ProviderError::Auth { .. }));
        assert!(matches!(error(403, "x"), ProviderError::Auth { .. }));
        assert!(matches!(error(429, "Limit 30000 tokens, too many tokens"), ProviderError::RateLimited { .. }));
        assert!(matches!(error(529, "Overloaded"), ProviderError::Overloaded { .. }));
    }

    #[test]
    fn exhausted_quota_is_not_retryable() {
        let body = json!({ "error": { "message": "You exceeded your current quota", "type": "insufficient_quota" } });
        assert!(!answer(429, &body.to_string()).is_retryable());
        assert!(!classify_object(&body["error"]).is_retryable());
    }

    #[test]
    fn message_is_found_in_every_known_envelope() {
        let said = |body: &str| match answer(418, body) {
            ProviderError::Api { message, .. } => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(r#"{"type":"error","error":{"type":"x","message":"m"}}"#), "m");
        assert_eq!(said(r#"{"error":"m"}"#), "m");
        assert_eq!(said(r#"{"message":"m"}"#), "m");
        assert_eq!(said(r#"{"detail":"m"}"#), "m");
        assert_eq!(said(r#"{"detail":[{"msg":"m"}]}"#), "m");
        assert_eq!(said(r#"[{"error":{"message":"m"}}]"#), "m");
        assert_eq!(said(r#"{"object":"error","message":{"message":"m"}}"#), "m");
        assert_eq!(
            said(
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"m\"}}"}}}"#
            ),
            "Provider returned error: m"
        );
        assert_eq!(said("plain\u{1b}[31m text"), "plain [31m text");
        assert_eq!(said("<html><title> 502 Bad </title>"), "the response is a web page: 502 Bad");
        assert_eq!(said("<html>"), "the response is a web page");
        assert_eq!(said("{}"), "the server refused the request");
        assert!(said(&"x".repeat(9_000)).chars().count() <= 501);
    }

    #[test]
    fn error_objects_in_a_stream_are_classified_by_type_and_code() {
        let kind = |error: Value| classify_object(&error);
        assert!(matches!(
            kind(json!({"type":"overloaded_error","message":"Overloaded"})),
            ProviderError::Overloaded { .. }
        ));
        assert!(matches!(kind(json!({"type":"api_error","message":"x"})), ProviderError::Overloaded { .. }));
        assert!(matches!(kind(json!({"type":"rate_limit_error","message":"x"})), ProviderError::RateLimited { .. }));
        assert!(matches!(kind(json!({"type":"authentication_error","message":"x"})), ProviderError::Auth { .. }));
        assert!(matches!(kind(json!({"type":"invalid_request_error","message":"x"})), ProviderError::Api { .. }));
        assert!(matches!(kind(json!({"code":502,"message":"x"})), ProviderError::Overloaded { .. }));
        assert!(matches!(kind(json!({"code":429,"message":"x"})), ProviderError::RateLimited { .. }));
        assert!(matches!(kind(json!("boom")), ProviderError::Api { .. }));
        assert!(matches!(kind(json!({})), ProviderError::Api { .. }));
    }

    #[test]
    fn vendor_codes_are_recognized() {
        let key = json!([{ "error": { "code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
            "details": [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }] } }]);
        assert!(matches!(answer(400, &key.to_string()), ProviderError::Auth { .. }));
        let quota = json!({ "error": { "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
            "details": [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s" }] } });
        assert_eq!(answer(429, &quota.to_string()).retry_after(), Some(Duration::from_millis(34_070)));
        assert_eq!(classify_object(&quota["error"]).retry_after(), Some(Duration::from_millis(34_070)));
        let aws = |status, code, body: &[u8]| {
            classify(&Answer { status, body, code: Some(code), retry_after: None, request_id: None })
        };
        assert!(matches!(aws(429, "ModelNotReadyException", b"{}"), ProviderError::Overloaded { .. }));
        assert!(matches!(aws(429, "ThrottlingException:http://x", b"{}"), ProviderError::RateLimited { .. }));
        assert!(matches!(aws(424, "ModelErrorException", b"{}"), ProviderError::Overloaded { .. }));
        assert_eq!(aws(404, "x", b"{\"Message\":\"no model\"}").to_string(), "HTTP 404: no model");
        let typed = |kind: &str| classify_object(&json!({ "__type": kind, "message": "x" }));
        assert!(matches!(typed("com.amazon.coral#ExpiredTokenException"), ProviderError::Auth { .. }));
        assert!(matches!(typed("throttlingException"), ProviderError::RateLimited { .. }));
        assert!(matches!(typed("modelStreamErrorException"), ProviderError::Overloaded { .. }));
        assert!(matches!(typed("validationException"), ProviderError::Api { .. }));
    }

    #[test]
    fn delay_in_the_message_is_parsed() {
        let delay = |text: &str| error(429, text).retry_after();
        assert_eq!(delay("Rate limit reached. Please try again in 1.5s. Visit"), Some(Duration::from_millis(1500)));
        assert_eq!(delay("Please try again in 7m12s."), Some(Duration::from_secs(432)));
        assert_eq!(delay("try again in 86ms"), Some(Duration::from_millis(86)));
        assert_eq!(delay("try again in 20 seconds"), Some(Duration::from_secs(20)));
        assert_eq!(delay("Please retry in 37.5s."), Some(Duration::from_millis(37_500)));
        assert_eq!(delay("try again in a while"), None);
        assert_eq!(parse_delay("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_delay("99999999999999999999h"), Some(Duration::from_secs(86_400)));
        assert_eq!(parse_delay("..."), None);
    }

    #[test]
    fn message_includes_the_request_id() {
        let answer = Answer {
            status: 404,
            body: b"{\"error\":\"no\"}",
            code: None,
            retry_after: None,
            request_id: Some("req_1\n"),
        };
        assert_eq!(classify(&answer).to_string(), "HTTP 404: no (request req_1)");
    }
}
