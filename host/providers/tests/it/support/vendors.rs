//! The providers as the tests of all of them need them: endpoints, authentication, and responses.

use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// One provider.
pub(crate) struct Vendor {
    pub(crate) name: &'static str,
    pub(crate) model: &'static str,
    /// The directory of its fixtures.
    pub(crate) format: &'static str,
    /// Fixtures of a plain reply, of one with tool calls, and of one with thinking.
    pub(crate) text: &'static str,
    pub(crate) tools: &'static str,
    pub(crate) thinking: &'static str,
    /// The path and query of its requests when its base URL is a host alone.
    pub(crate) path: &'static str,
    /// The header that contains the key.
    pub(crate) auth: &'static str,
    /// The host of its usual URL, or a base URL where it has no usual URL.
    pub(crate) host: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) says: Envelope,
}

const SSE: &str = "text/event-stream";

const CHAT: Vendor = Vendor {
    name: "openai-chat",
    model: "gpt-6-sol",
    format: "chat",
    text: "text.sse",
    tools: "tools.sse",
    // Of a compatible server: OpenAI itself shows no thinking here.
    thinking: "kimi.sse",
    path: "/v1/chat/completions",
    auth: "authorization: bearer",
    host: "api.openai.com:443",
    content_type: SSE,
    says: Envelope::OpenAi,
};

const RESPONSES: Vendor =
    Vendor { name: "openai-responses", format: "responses", thinking: "thinking.sse", path: "/v1/responses", ..CHAT };

pub(crate) const ANTHROPIC: Vendor = Vendor {
    name: "anthropic",
    model: "claude-opus-5-5",
    format: "anthropic",
    thinking: "thinking.sse",
    path: "/v1/messages",
    auth: "x-api-key:",
    host: "api.anthropic.com:443",
    says: Envelope::Anthropic,
    ..CHAT
};

pub(crate) const OPENAI_CHAT: Vendor = CHAT;

pub(crate) const OPENAI_RESPONSES: Vendor = RESPONSES;

pub(crate) const AZURE: Vendor = Vendor {
    name: "azure",
    text: "azure_text.sse",
    tools: "azure_tools.sse",
    thinking: "azure_thinking.sse",
    path: "/openai/v1/responses",
    auth: "api-key:",
    host: "https://me.openai.azure.com",
    ..RESPONSES
};

pub(crate) const GEMINI: Vendor = Vendor {
    name: "gemini",
    model: "gemini-3.8-flash",
    format: "gemini",
    thinking: "thinking.sse",
    path: "/v1beta/models/gemini-3.8-flash:streamgeneratecontent?alt=sse",
    auth: "x-goog-api-key:",
    host: "generativelanguage.googleapis.com:443",
    says: Envelope::Google,
    ..CHAT
};

pub(crate) const VERTEX: Vendor = Vendor {
    name: "vertex",
    text: "vertex_text.sse",
    tools: "vertex_tools.sse",
    thinking: "vertex_thinking.sse",
    path: "/v1/projects/my-project/locations/global/publishers/google/models/gemini-3.8-flash:streamgeneratecontent?alt=sse",
    auth: "authorization: bearer",
    host: "aiplatform.googleapis.com:443",
    ..GEMINI
};

pub(crate) const BEDROCK: Vendor = Vendor {
    name: "bedrock",
    model: "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    format: "bedrock",
    text: "text.jsonl",
    tools: "tools.jsonl",
    thinking: "thinking.jsonl",
    path: "/model/us.anthropic.claude-haiku-4-5-20251001-v1%3a0/converse-stream",
    host: "bedrock-runtime.us-east-1.amazonaws.com:443",
    content_type: "application/vnd.amazon.eventstream",
    says: Envelope::Aws,
    ..CHAT
};

pub(crate) const OLLAMA: Vendor = Vendor {
    name: "ollama",
    model: "qwen3",
    format: "ollama",
    text: "text.ndjson",
    tools: "tools.ndjson",
    thinking: "thinking.ndjson",
    path: "/api/chat",
    host: "127.0.0.1:11434",
    content_type: "application/x-ndjson",
    says: Envelope::Ollama,
    ..CHAT
};

pub(crate) const XAI: Vendor = Vendor {
    name: "xai",
    model: "grok-4.7",
    text: "xai_text.sse",
    tools: "xai_tools.sse",
    thinking: "xai_thinking.sse",
    host: "api.x.ai:443",
    says: Envelope::Xai,
    ..RESPONSES
};

pub(crate) const MISTRAL: Vendor = Vendor {
    name: "mistral",
    model: "mistral-small-2603",
    tools: "mistral.sse",
    thinking: "mistral.sse",
    host: "api.mistral.ai:443",
    says: Envelope::Mistral,
    ..CHAT
};

pub(crate) const GROQ: Vendor = Vendor {
    name: "groq",
    model: "openai/gpt-oss-20b",
    tools: "groq.sse",
    thinking: "groq.sse",
    host: "api.groq.com:443",
    ..CHAT
};

pub(crate) const DEEPSEEK: Vendor = Vendor {
    name: "deepseek",
    model: "deepseek-v4-pro",
    text: "deepseek_text.sse",
    tools: "deepseek_tools.sse",
    thinking: "deepseek.sse",
    host: "api.deepseek.com:443",
    ..CHAT
};

pub(crate) const OPENROUTER: Vendor = Vendor {
    name: "openrouter",
    model: "vendor/model",
    text: "openrouter_text.sse",
    tools: "openrouter_tools.sse",
    thinking: "openrouter_gemini.sse",
    host: "openrouter.ai:443",
    says: Envelope::OpenRouter,
    ..CHAT
};

pub(crate) const PROXY: Vendor = Vendor {
    name: "proxy",
    model: "anthropic/claude-opus-5-5",
    format: "proxy",
    thinking: "thinking.sse",
    path: "/v1/stream",
    host: "https://proxy.example",
    says: Envelope::Proxy,
    ..CHAT
};

/// A vendor's error responses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Envelope {
    /// <https://platform.claude.com/docs/en/api/errors>
    Anthropic,
    /// <https://developers.openai.com/api/docs/guides/error-codes>
    OpenAi,
    /// <https://ai.google.dev/gemini-api/docs/troubleshooting>, <https://cloud.google.com/apis/design/errors>
    Google,
    /// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html#API_runtime_ConverseStream_Errors>
    Aws,
    /// <https://docs.ollama.com/api/errors>
    Ollama,
    /// <https://docs.mistral.ai/resources/error-glossary>
    Mistral,
    /// <https://docs.x.ai/docs/key-information/debugging>
    Xai,
    /// <https://openrouter.ai/docs/api-reference/errors>
    OpenRouter,
    /// The documentation of [`pinion_providers::proxy`].
    Proxy,
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Key,
    Request,
    TooFast,
    Overload,
    TooLong,
}

/// An error response.
pub(crate) struct Refusal {
    pub(crate) status: &'static str,
    pub(crate) headers: &'static str,
    pub(crate) body: Value,
    /// The requested delay before a retry.
    pub(crate) delay: Option<Duration>,
}

impl Envelope {
    pub(crate) fn refusal(self, wrong: Wrong) -> Refusal {
        let (status, headers, body) = match self {
            Self::Anthropic => anthropic(wrong),
            Self::OpenAi => openai(wrong),
            Self::Google => google(wrong),
            Self::Aws => aws(wrong),
            Self::Ollama => ollama(wrong),
            Self::Mistral => mistral(wrong),
            Self::Xai => xai(wrong),
            Self::OpenRouter => openrouter(wrong),
            Self::Proxy => proxy(wrong),
        };
        let delay = match (self, wrong) {
            (Self::Aws | Self::Ollama, _) => None,
            (Self::Google, Wrong::TooFast) => Some(Duration::from_secs(34)),
            (Self::OpenAi, Wrong::TooFast) => Some(Duration::from_secs(2)),
            (_, Wrong::TooFast) => Some(Duration::from_secs(12)),
            _ => None,
        };
        Refusal { status, headers, body, delay }
    }
}

type Said = (&'static str, &'static str, Value);

fn anthropic(wrong: Wrong) -> Said {
    let said = |status, headers, kind: &str, message: &str| {
        let error = json!({ "type": kind, "message": message });
        (status, headers, json!({ "type": "error", "error": error, "request_id": "req_011" }))
    };
    match wrong {
        Wrong::Key => said("401 Unauthorized", "", "authentication_error", "invalid x-api-key"),
        Wrong::Request => said("404 Not Found", "", "not_found_error", "model: claude-x"),
        Wrong::TooFast => {
            said("429 Too Many Requests", "retry-after: 12\r\n", "rate_limit_error", "would exceed your rate limit")
        }
        Wrong::Overload => said("529 Overloaded", "", "overloaded_error", "Overloaded"),
        Wrong::TooLong => {
            said("400 Bad Request", "", "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")
        }
    }
}

fn openai(wrong: Wrong) -> Said {
    let said = |status, headers, kind: &str, code: &str, message: &str| {
        (status, headers, json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }))
    };
    let invalid = "invalid_request_error";
    match wrong {
        Wrong::Key => {
            said("401 Unauthorized", "", invalid, "invalid_api_key", "Incorrect API key provided: sk-te***cdef.")
        }
        Wrong::Request => said("404 Not Found", "", invalid, "model_not_found", "The model `x` does not exist."),
        Wrong::TooFast => said(
            "429 Too Many Requests",
            "retry-after-ms: 1500\r\nretry-after: 2\r\n",
            "tokens",
            "rate_limit_exceeded",
            "Rate limit reached for tokens per min.",
        ),
        Wrong::Overload => said("503 Service Unavailable", "", "server_error", "slow_down", "Slow down"),
        Wrong::TooLong => said(
            "400 Bad Request",
            "",
            invalid,
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
    }
}

fn google(wrong: Wrong) -> Said {
    let said = |status, code: u16, name: &str, message: &str, details: Value| {
        (status, "", json!({ "error": { "code": code, "message": message, "status": name, "details": details } }))
    };
    let info = |kind: &str, field: &str, value: &str| json!([{ "@type": format!("type.googleapis.com/google.rpc.{kind}"), field: value }]);
    match wrong {
        Wrong::Key => said(
            "400 Bad Request",
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            info("ErrorInfo", "reason", "API_KEY_INVALID"),
        ),
        Wrong::Request => said("404 Not Found", 404, "NOT_FOUND", "models/x is not found", json!([])),
        Wrong::TooFast => said(
            "429 Too Many Requests",
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota.",
            info("RetryInfo", "retryDelay", "34s"),
        ),
        Wrong::Overload => said("503 Service Unavailable", 503, "UNAVAILABLE", "The model is overloaded.", json!([])),
        Wrong::TooLong => said(
            "400 Bad Request",
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            json!([]),
        ),
    }
}

fn aws(wrong: Wrong) -> Said {
    let said = |status, headers, message: &str| (status, headers, json!({ "message": message }));
    match wrong {
        Wrong::Key => said(
            "403 Forbidden",
            "x-amzn-errortype: AccessDeniedException\r\n",
            "You don't have access to the model with the specified model ID.",
        ),
        Wrong::Request => said(
            "400 Bad Request",
            "x-amzn-errortype: ValidationException\r\n",
            "The provided model identifier is invalid.",
        ),
        Wrong::TooFast => said(
            "429 Too Many Requests",
            "x-amzn-errortype: ThrottlingException\r\n",
            "Too many tokens, please wait before trying again.",
        ),
        Wrong::Overload => said(
            "503 Service Unavailable",
            "x-amzn-errortype: ServiceUnavailableException\r\n",
            "Bedrock is unable to process your request.",
        ),
        Wrong::TooLong => said(
            "400 Bad Request",
            "x-amzn-errortype: ValidationException\r\n",
            "Input is too long for requested model.",
        ),
    }
}

fn ollama(wrong: Wrong) -> Said {
    let said = |status, message: &str| (status, "", json!({ "error": message }));
    match wrong {
        Wrong::Key => said("401 Unauthorized", "unauthorized"),
        Wrong::Request => said("404 Not Found", "model 'x' not found"),
        Wrong::TooFast => said("429 Too Many Requests", "too many requests"),
        Wrong::Overload => said("502 Bad Gateway", "the cloud model cannot be reached"),
        Wrong::TooLong => said("400 Bad Request", "the input length exceeds the context length"),
    }
}

fn mistral(wrong: Wrong) -> Said {
    let said = |message: &str, kind: &str, code: &str| json!({ "object": "error", "message": message, "type": kind, "param": null, "code": code });
    match wrong {
        Wrong::Key => ("401 Unauthorized", "", json!({ "detail": "Unauthorized" })),
        Wrong::Request => {
            let detail = json!([{ "type": "missing", "loc": ["body", "model"], "msg": "Field required" }]);
            ("422 Unprocessable Entity", "", json!({ "detail": detail }))
        }
        Wrong::TooFast => (
            "429 Too Many Requests",
            "retry-after: 12\r\n",
            said("Requests rate limit exceeded", "rate_limited", "1300"),
        ),
        Wrong::Overload => ("503 Service Unavailable", "", said("Service unavailable.", "service_unavailable", "3000")),
        Wrong::TooLong => {
            let message = "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum \
                           context length";
            ("400 Bad Request", "", said(message, "invalid_request_message_order", "3051"))
        }
    }
}

fn xai(wrong: Wrong) -> Said {
    let said = |status, headers, code: &str, error: &str| (status, headers, json!({ "code": code, "error": error }));
    let invalid = "Client specified an invalid argument";
    match wrong {
        // The status is not 401, as one would expect.
        Wrong::Key => said("400 Bad Request", "", invalid, "Incorrect API key provided: sk***ef."),
        Wrong::Request => {
            said("404 Not Found", "", "Some requested entity was not found", "The model x does not exist")
        }
        Wrong::TooFast => said(
            "429 Too Many Requests",
            "retry-after: 12\r\n",
            "Some resource has been exhausted",
            "Too many requests for team",
        ),
        Wrong::Overload => said("503 Service Unavailable", "", "The service is currently unavailable", "Try again"),
        Wrong::TooLong => said(
            "400 Bad Request",
            "",
            invalid,
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        ),
    }
}

fn openrouter(wrong: Wrong) -> Said {
    let said = |status, headers, code: u16, message: &str, metadata: Value| {
        (status, headers, json!({ "error": { "code": code, "message": message, "metadata": metadata } }))
    };
    match wrong {
        Wrong::Key => said("401 Unauthorized", "", 401, "User not found.", Value::Null),
        Wrong::Request => said("404 Not Found", "", 404, "No endpoints found for vendor/model.", Value::Null),
        Wrong::TooFast => said(
            "429 Too Many Requests",
            "retry-after: 12\r\n",
            429,
            "Rate limit exceeded: free-models-per-min.",
            Value::Null,
        ),
        Wrong::Overload => {
            said("502 Bad Gateway", "", 502, "Provider returned error", json!({ "raw": "upstream died" }))
        }
        Wrong::TooLong => {
            let raw = json!({ "error": { "message": "This model's maximum context length is 8192 tokens." } });
            said("400 Bad Request", "", 400, "Provider returned error", json!({ "raw": raw.to_string() }))
        }
    }
}

fn proxy(wrong: Wrong) -> Said {
    let said = |status, headers, message: &str| (status, headers, json!({ "error": { "message": message } }));
    match wrong {
        Wrong::Key => said("401 Unauthorized", "", "the token is wrong"),
        Wrong::Request => said("400 Bad Request", "", "malformed request"),
        Wrong::TooFast => said("429 Too Many Requests", "retry-after: 12\r\n", "too many requests at once"),
        Wrong::Overload => said("503 Service Unavailable", "", "shutting down"),
        Wrong::TooLong => said("413 Payload Too Large", "", "the request is too large"),
    }
}

/// All providers.
pub(crate) const ALL: &[Vendor] = &[
    ANTHROPIC,
    AZURE,
    BEDROCK,
    DEEPSEEK,
    GEMINI,
    GROQ,
    MISTRAL,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    OPENROUTER,
    PROXY,
    VERTEX,
    XAI,
];
