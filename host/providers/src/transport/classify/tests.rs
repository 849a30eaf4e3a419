//! Error responses of real vendors.

use super::*;
use serde_json::json;

fn answer(status: u16, body: &str) -> ProviderError {
    classify(&ErrorResponse { status, body: body.as_bytes(), code: None, retry_after: None, request_id: None })
}

fn error(status: u16, message: &str) -> ProviderError {
    answer(status, &json!({ "error": { "message": message } }).to_string())
}

/// A message for every phrase of [`OVERFLOW`], in its order, as vendors' documentation or their users quote it.
const OVERFLOWS: &[&str] = &[
    "prompt is too long: 213462 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
    "Error code: context_length_exceeded",
    "Context length exceeded. Shorten the conversation.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "Input validation error: please reduce the length of your prompt.",
    "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context",
    "prompt token count of 140000 exceeds the limit of 128000",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "the server said exceed_context_size_error",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit",
    "Your request exceeded model token limit: 262144 (requested: 300000)",
    "stopped: model_context_window_exceeded",
    "The input token count exceeds what the model supports.",
    "Input Tokens Exceeded: the prompt has 140000 tokens",
    "Number of input tokens exceeds maximum length. Please update the input to try again.",
    "too_many_prompt_tokens: shorten the prompt",
    "The total length of all messages is too long.",
    "prompt too long; exceeded max context length by 7 tokens",
    "Input validation error: too many tokens in the prompt",
    "token limit exceeded",
    "the prompt has 9000 tokens; the maximum allowed input length is 8192",
    "This request has 9000 tokens exceeds the model's maximum input length of 8192 tokens",
    "the input length exceeds the context length",
    "the prompt is longer than the context length currently available to the model; shorten the prompt",
    "too many total text bytes: 26000000 > 25000000",
    "Range of input length should be [1, 30720]",
    "You passed 40961 input tokens and requested 100 output tokens. However, the model's context length is only 40960 \
     tokens, resulting in a maximum input length of 40860 tokens. Please reduce the length of the input prompt.",
    "The decoder prompt (length 40961) is longer than the maximum model length of 40960.",
    "The input (217391 tokens) is longer than the model's context length (131072 tokens).",
    "Input length (9000 tokens) exceeds the maximum allowed length (8186 tokens). Use a shorter input.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500",
    "Prompt exceeds max length",
    "Total tokens of image and text exceed max message tokens",
    "However, the model is loaded with context length of only 4096 tokens, which is not enough",
    "litellm.ContextWindowExceededError: the prompt does not fit",
    "The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8000).",
    "Requested tokens (5000) exceed context window of 2048",
    "Context length 5000 is greater than max_seq_len 4096",
    "The sum of prompt length (9000), query length (0) should not exceed max_num_tokens (8192)",
    "The prompt (total length 41000) is too long to fit into the model (context length 40960).",
    "Context size has been exceeded.",
    "length of prompt_tokens (40961) must be less than max_seq_len (32768).",
    "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
    "Prompt length (9000) exceeds maximum input length (8192)",
    "prompt tokens too long",
    "string_above_max_length: expected a string with maximum length 10485760",
];

#[test]
fn known_overflow_wordings_are_recognized() {
    for message in OVERFLOWS {
        assert!(matches!(error(400, message), ProviderError::ContextOverflow { .. }), "{message}");
        let object = classify_object(&json!({ "message": message }));
        assert!(matches!(object, ProviderError::ContextOverflow { .. }), "{message}");
    }
    let coded = json!({ "error": { "message": "too big", "code": "context_length_exceeded" } }).to_string();
    assert!(matches!(answer(400, &coded), ProviderError::ContextOverflow { .. }));
    let typed = json!({ "error": { "message": "no", "type": "too_many_prompt_tokens", "code": 400 } }).to_string();
    assert!(matches!(answer(400, &typed), ProviderError::ContextOverflow { .. }));
}

/// A phrase that its message does not need would be redundant or untested.
#[test]
fn every_overflow_phrase_is_needed_for_its_message() {
    assert_eq!(OVERFLOWS.len(), OVERFLOW.len());
    for (phrase, message) in OVERFLOW.iter().zip(OVERFLOWS) {
        let text = collapse_numbers(&message.to_lowercase());
        let matching: Vec<&&str> = OVERFLOW.iter().filter(|phrase| text.contains(**phrase)).collect();
        assert_eq!(matching, [phrase], "{message}");
    }
}

#[test]
fn readme_counts_the_known_wordings() {
    let count = format!("; {} known wordings", OVERFLOW.len());
    assert!(include_str!("../../../README.md").contains(&count), "the README does not say `{count}`");
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
    let kinds: Vec<(u16, bool)> = [401, 402, 403, 404, 408, 409, 422, 429, 498, 500, 501, 502, 503, 504, 529]
        .map(|s| (s, error(s, "x").is_retryable()))
        .into();
    let retryable: Vec<u16> = kinds.iter().filter(|(_, retry)| *retry).map(|(status, _)| *status).collect();
    assert_eq!(retryable, [408, 409, 429, 498, 500, 502, 503, 504, 529]);
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
    for error in [
        json!({ "message": "Your account is suspended", "type": "exceeded_current_quota_error" }),
        json!({ "message": "Insufficient balance or no resource package. Please recharge.", "code": "1113" }),
        json!({ "message": "Too many tokens per day, please wait before trying again." }),
        json!({ "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED", "details": [
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
              "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier" }] },
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21s" }] }),
    ] {
        let refused = answer(429, &json!({ "error": error }).to_string());
        assert!(matches!(refused, ProviderError::Api { status: Some(429), .. }), "{refused:?}");
    }
    let rolling = error(429, "Rate limit reached on tokens per day (TPD). Please try again in 2m.");
    assert_eq!(rolling.retry_after(), Some(Duration::from_secs(120)));
}

#[test]
fn moderated_input_is_not_the_keys_fault() {
    let flagged = json!({ "code": 403, "message": "flagged", "metadata": { "reasons": ["violence"] } });
    assert!(matches!(answer(403, &json!({ "error": flagged }).to_string()), ProviderError::Api { .. }));
    assert!(matches!(classify_object(&flagged), ProviderError::Api { .. }));
}

#[test]
fn outage_without_a_code_is_retried() {
    assert!(classify_object(&json!({ "message": "Internal server error" })).is_retryable());
    assert!(classify_object(&json!({ "code": 50603, "message": "System is too busy now." })).is_retryable());
    assert!(!classify_object(&json!({ "code": "bad_argument", "message": "too busy" })).is_retryable());
    assert!(classify_object(&json!("over capacity")).is_retryable());
    assert!(matches!(classify_object(&json!("prompt is too long: 9 > 8")), ProviderError::ContextOverflow { .. }));
}

#[test]
fn message_is_found_in_every_known_envelope() {
    let message = |body: &str| match answer(418, body) {
        ProviderError::Api { message, .. } => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(message(r#"{"type":"error","error":{"type":"x","message":"m"}}"#), "m");
    assert_eq!(message(r#"{"error":"m"}"#), "m");
    assert_eq!(message(r#"{"message":"m"}"#), "m");
    assert_eq!(message(r#"{"detail":"m"}"#), "m");
    assert_eq!(message(r#"{"detail":[{"msg":"m"}]}"#), "m");
    assert_eq!(message(r#"[{"error":{"message":"m"}}]"#), "m");
    assert_eq!(message(r#"{"success":false,"errors":[{"code":7003,"message":"m"}],"result":null}"#), "m");
    assert_eq!(message(r#"{"object":"error","message":{"message":"m"}}"#), "m");
    assert_eq!(message(r#"{"object":"error","message":{"detail":[{"msg":"m"}]}}"#), "m");
    assert_eq!(
        message(
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"m\"}}"}}}"#
        ),
        "Provider returned error: m"
    );
    assert_eq!(message("plain\u{1b}[31m text"), "plain [31m text");
    assert_eq!(message("<html><title> 502 Bad </title>"), "the response is a web page: 502 Bad");
    assert_eq!(message("<html>"), "the response is a web page");
    assert_eq!(message("{}"), "the server refused the request");
    assert_eq!(message(&"x".repeat(99_000)).len(), MAX_MESSAGE);
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
    assert!(matches!(kind(json!({"error_code":"REQUEST_LIMIT_EXCEEDED"})), ProviderError::RateLimited { .. }));
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
        classify(&ErrorResponse { status, body, code: Some(code), retry_after: None, request_id: None })
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
    assert_eq!(delay("Try again after 5 seconds."), Some(Duration::from_secs(5)));
    assert_eq!(delay("Rate limit reached, please wait 2 minutes"), Some(Duration::from_secs(120)));
    assert_eq!(delay("try again in a while"), None);
    assert_eq!(parse_delay("1h30m"), Some(Duration::from_secs(5400)));
    assert_eq!(parse_delay("99999999999999999999h"), Some(Duration::from_secs(86_400)));
    assert_eq!(parse_delay("..."), None);
}

#[test]
fn largest_delay_counts() {
    let body = json!({ "error": { "code": 429, "message": "Please retry in 48.94s.", "status": "RESOURCE_EXHAUSTED",
        "details": [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s" }] } });
    assert_eq!(answer(429, &body.to_string()).retry_after(), Some(Duration::from_millis(48_940)));
    assert_eq!(classify_object(&body["error"]).retry_after(), Some(Duration::from_millis(48_940)));
    let zero = Some(Duration::ZERO);
    let headers =
        ErrorResponse { status: 429, body: b"try again in 2s", code: None, retry_after: zero, request_id: None };
    assert_eq!(classify(&headers).retry_after(), Some(Duration::from_secs(2)));
}

#[test]
fn delay_in_a_field_of_the_body_counts() {
    for (body, delay) in [
        (json!({ "error": { "message": "slow", "retry_after": 1.5 } }), 1_500),
        (json!({ "error": "slow", "retryAfter": 2 }), 2_000),
        (json!({ "message": "slow", "retry_after_ms": 30 }), 30),
        (json!({ "message": "slow", "retry_after_seconds": 4 }), 4_000),
    ] {
        assert_eq!(answer(429, &body.to_string()).retry_after(), Some(Duration::from_millis(delay)), "{body}");
    }
    assert_eq!(answer(429, &json!({ "retry_after": "soon" }).to_string()).retry_after(), None);
}

#[test]
fn call_that_the_vendor_could_not_read_is_retried() {
    for code in ["tool_use_failed", "output_parse_failed"] {
        let error = json!({ "message": "Failed to call a function.", "type": "invalid_request_error", "code": code,
            "failed_generation": "<function=read>" });
        let refused = answer(400, &json!({ "error": error }).to_string());
        assert!(matches!(refused, ProviderError::Overloaded { .. }), "{refused:?}");
        assert!(matches!(classify_object(&error), ProviderError::Overloaded { .. }));
    }
}

#[test]
fn message_includes_the_request_id() {
    let answer = ErrorResponse {
        status: 404,
        body: b"{\"error\":\"no\"}",
        code: None,
        retry_after: None,
        request_id: Some("req_1\n"),
    };
    assert_eq!(classify(&answer).to_string(), "HTTP 404: no (request req_1)");
}
