//! Model providers: where replies come from.
//!
//! A [`Provider`](pinion_protocol::Provider) of this crate is a wire format (`anthropic`, `openai_chat`: pure functions from
//! a request to a body, and from bytes to events), a vendor's entry in the registry (data), and the one HTTP transport
//! that all of them share. [`Replay`] needs none of these: it plays a script.
//!
//! Nothing here retries (the loop does), reads the environment, or knows where configuration is kept: the binary passes
//! keys, URLs and headers in. `README.md` has a page on each provider.

mod auth;
mod causes;
mod decode;
mod error_kind;
mod fallback;
mod formats;
mod keys;
mod models;
mod provider;
mod recording;
mod replay;
mod transport;
mod vendors;

pub use decode::{Decoder, MAX_EVENT_BYTES, SseParser};
pub use error_kind::ErrorKind;
pub use fallback::{Fallback, FallbackMember};
pub use formats::{anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
pub use keys::{AuthFile, KeyCommand, KeyError, KeyOrigin, KeySource, Keyring, Keys, PlatformKeyring};
pub use models::{Caching, ChatTools, Effort, Model, ModelTable, ModelTableError, ThinkingStyle};
pub use provider::{ProviderConfig, ProviderContext, build, build_with};
pub use recording::{Asked, Playback, PlaybackError, Recorder};
pub use replay::{Replay, Reply, Script, ScriptError, ScriptedCall, ScriptedError};
pub use transport::{HttpSettings, ProxySettings};
pub use vendors::{BaseUrlError, PROVIDERS, ProviderInfo, RegistryError, provider, resolve};
