//! Providers over HTTP: a wire format, a vendor's row and the transport, put together.

mod build;
mod caller;
mod config;
mod http_provider;
mod refused_images;

pub use build::{build, build_info, build_with};
pub use config::{ProviderConfig, ProviderContext};
