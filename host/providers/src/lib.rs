//! Model providers for Pinion: wire formats, transport, authentication, model data, and scripted replies.
//!
//! A [`Provider`](pinion_protocol::Provider) combines a wire format (`anthropic`, `openai_chat`, …: pure functions from
//! a request to a body, and from bytes to events), a vendor's row in [`PROVIDERS`], and the shared HTTP transport.
//! [`Replay`] needs no format, row or transport: it plays a script.
//!
//! A provider, and the known facts about one of its models:
//!
//! ```
//! use pinion_providers::{ModelTable, ProviderConfig, build};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let models = ModelTable::builtin();
//! let config = ProviderConfig {
//!     name: "anthropic".to_owned(),
//!     api_key: Some("sk-ant-…".into()),
//!     ..ProviderConfig::default()
//! };
//! let provider = build(config, models.clone())?;
//! assert_eq!(provider.name(), "anthropic");
//! assert!(models.find("anthropic", "claude-sonnet-5-5").request_limit().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Nothing in this crate retries, which is the loop's task, reads the environment, or knows where configuration is
//! stored: the binary passes in keys, URLs and headers. `README.md` links a page on each provider.

mod error_kind;
mod fallback;
mod formats;
mod key_check;
mod keys;
mod local_servers;
mod login;
mod ollama_models;
mod replay;
mod served_window;

/// Authentication: from a key to the headers of a request.
mod auth {
    mod authenticator;
    mod aws;
    mod google;

    pub(crate) use authenticator::{Auth, Authenticator};
    pub(crate) use authenticator::{secret_value, trimmed};
}

/// Decodes the bytes of a reply into events, independently of the vendor.
///
/// Bytes arrive in arbitrary packets. A `Framing` cuts them into the vendor's events, the
/// format's [`ReplyState`](decode::ReplyState) interprets each of them, and [`Parts`](decode::Parts) keeps the
/// resulting [`StreamEvent`](pinion_protocol::StreamEvent)s well-formed.
mod decode {
    mod decoder;
    pub(crate) mod event_stream;
    pub(crate) mod json;
    mod ndjson;
    mod parts;
    mod repair;
    mod sse;
    mod thoughts;
    mod writer;

    pub use decoder::Decoder;
    pub(crate) use decoder::{EventDecoder, ReplyState, began_again, broke_off, settled};
    pub(crate) use parts::{MAX_PARTS, MAX_SIGNATURE, Parts, too_large_signature, too_many_parts};
    pub(crate) use sse::{MAX_EVENT_BYTES, SseParser};
    pub(crate) use writer::{PartWriter, Writing};

    /// Decodes replies that arrive as server-sent events.
    pub(crate) type SseDecoder<R> = EventDecoder<SseParser, R>;

    /// Decodes replies that arrive as JSON Lines.
    pub(crate) type LineDecoder<R> = EventDecoder<ndjson::NdjsonLines, R>;
}

/// Models: the abilities and prices of each.
mod models {
    mod model;
    mod table;

    pub use model::{Caching, ChatTools, Effort, ModelSpec, ThinkingStyle};
    pub(crate) use model::{level_budget, same_model};
    pub use table::{ModelTable, ModelTableError};
}

/// Providers over HTTP: a wire format, a vendor's row and the transport, put together.
mod provider {
    mod build;
    mod caller;
    mod http_provider;
    mod refused_images;

    pub use build::{ProviderConfig, ProviderContext, build, build_info, build_with};
}

/// Recordings of exchanges: written as a session runs, and played back instead of the network.
mod recording {
    mod format;
    mod placeholders;
    mod playback;
    mod recorder;
    mod reply_text;

    pub(crate) use format::RecordedRequest;
    pub use placeholders::RunSurroundings;
    pub(crate) use playback::Played;
    pub use playback::{Playback, PlaybackError, Recipient};
    pub use recorder::Recorder;
}

/// HTTP: requests out, answers in, and the meaning of a refusal.
mod transport {
    mod classify;
    mod exchange;
    mod failure;
    mod http;
    mod image_refusal;
    mod proxy;
    mod retry_after;

    pub(crate) use classify::classify_object;
    pub(crate) use exchange::{OpenResponse, exchange};
    pub use http::TransportSettings;
    pub(crate) use http::{HttpTransport, Outgoing, RawAnswer, reply};
    pub(crate) use image_refusal::{refuses_all_images, refuses_image};
    pub use proxy::{ChosenProxy, ProxyError, ProxySettings, ProxyUrl};
}

/// The vendors as data, and everything derived from the data.
///
/// Everything about a vendor is one row of [`PROVIDERS`]: its URL, authentication, wire format, and the variables that
/// its own tools read. Its models are a file in `src/models/builtin`. `docs/vendors.md` walks through adding one.
mod vendors {
    mod custom;
    mod endpoint;
    mod error;
    mod info;
    mod layout;
    mod resolve;
    mod table;

    pub use custom::{CustomFormat, CustomProvider, CustomQuirks, CustomThinking};
    pub(crate) use endpoint::{Endpoint, UrlVariables};
    pub use error::{BaseUrlError, RegistryError};
    pub use info::ProviderInfo;
    pub use resolve::{Registry, provider, resolve};
    #[cfg(test)]
    pub(crate) use table::ACME;
    pub use table::PROVIDERS;
}

pub use decode::Decoder;
pub use error_kind::ErrorKind;
pub use fallback::{Fallback, FallbackMember};
pub use formats::{anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
pub use key_check::KeyCheck;
pub use keys::{
    AuthFile, FoundKey, KeyCommand, KeyCommandError, KeyCommandLauncher, KeyError, KeyOrigin, KeySource, KeySources,
    Keyring, LaunchedKeyCommand, PlatformKeyring, ShellLauncher,
};
pub use local_servers::{LOCAL_PROVIDERS, LocalModel, LocalServer};
pub use login::BrowserLogin;
pub use models::{Caching, ChatTools, Effort, ModelSpec, ModelTable, ModelTableError, ThinkingStyle};
pub use ollama_models::OllamaModels;
pub use provider::{ProviderConfig, ProviderContext, build, build_info, build_with};
pub use recording::{Playback, PlaybackError, Recipient, Recorder, RunSurroundings};
pub use replay::{Replay, Script, ScriptError, ScriptedCall, ScriptedError, ScriptedReply};
pub use served_window::ServedWindow;
pub use transport::{ChosenProxy, ProxyError, ProxySettings, ProxyUrl, TransportSettings};
pub use vendors::{
    BaseUrlError, CustomFormat, CustomProvider, CustomQuirks, CustomThinking, PROVIDERS, ProviderInfo, Registry,
    RegistryError, provider, resolve,
};
