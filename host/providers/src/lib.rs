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

mod auth;
mod decode;
mod error_kind;
mod fallback;
mod formats;
mod key_check;
mod keys;
mod login;
mod models;
mod ollama_models;
mod provider;
mod recording;
mod replay;
mod served_window;
mod transport;
mod vendors;

pub use decode::Decoder;
pub use error_kind::ErrorKind;
pub use fallback::{Fallback, FallbackMember};
pub use formats::{anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
pub use key_check::KeyCheck;
pub use keys::{
    AuthFile, FoundKey, KeyCommand, KeyCommandError, KeyCommandLauncher, KeyError, KeyOrigin, KeySource, KeySources,
    Keyring, LaunchedKeyCommand, PlatformKeyring, ShellLauncher,
};
pub use login::BrowserLogin;
pub use models::{Caching, ChatTools, Effort, ModelSpec, ModelTable, ModelTableError, ThinkingStyle};
pub use ollama_models::OllamaModels;
pub use provider::{ProviderConfig, ProviderContext, build, build_info, build_with};
pub use recording::{Playback, PlaybackError, Recipient, Recorder};
pub use replay::{Replay, Script, ScriptError, ScriptedCall, ScriptedError, ScriptedReply};
pub use served_window::ServedWindow;
pub use transport::{ChosenProxy, ProxyError, ProxySettings, ProxyUrl, TransportSettings};
pub use vendors::{
    BaseUrlError, CustomFormat, CustomProvider, CustomQuirks, CustomThinking, PROVIDERS, ProviderInfo, Registry,
    RegistryError, provider, resolve,
};
