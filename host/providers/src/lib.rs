//! Model providers: where replies come from.
//!
//! A [`Provider`](pinion_protocol::Provider) of this crate is a wire format (`anthropic`, `openai_chat`: pure functions from
//! a request to a body, and from bytes to events), a vendor's entry in the registry (data), and the one HTTP transport
//! that all of them share. [`Replay`] needs none of these: it plays a script.
//!
//! Nothing here retries (the loop does), reads the environment, or knows where configuration is kept: the binary passes
//! keys, URLs and headers in. `README.md` has a page on each provider.

pub mod anthropic;
mod auth;
mod aws;
pub mod bedrock;
mod classify;
mod conversation;
mod endpoint;
mod event_stream;
mod exchange;
mod fallback;
pub mod gemini;
mod google;
mod http;
mod keys;
mod model_table;
mod models;
mod ndjson;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod parts;
mod playback;
mod provider;
pub mod proxy;
mod recorder;
mod recording;
mod redact;
mod registry;
mod replay;
mod retry_after;
mod sse;
mod wire;

pub use fallback::{Fallback, FallbackMember};
pub use http::{HttpSettings, ProxySettings};
pub use keys::{AuthFile, KeyCommand, KeyError, KeyOrigin, KeySource, Keyring, Keys, PlatformKeyring};
pub use model_table::{ModelTable, ModelTableError};
pub use models::{Caching, ChatTools, Effort, Model, ThinkingStyle};
pub use playback::{Asked, Playback, PlaybackError};
pub use recorder::Recorder;
pub use registry::{
    PROVIDERS, ProviderConfig, ProviderContext, ProviderInfo, RegistryError, build, build_with, provider, resolve,
};
pub use replay::{Replay, Reply, Script, ScriptError, ScriptedCall, ScriptedError, ScriptedErrorKind};
pub use sse::{MAX_EVENT_BYTES, SseParser};
pub use wire::Decoder;
