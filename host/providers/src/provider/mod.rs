//! Providers over HTTP: a wire format, a vendor's row and the transport, put together.

mod build;
mod caller;
mod http_provider;
mod refused_images;

pub use build::{ProviderConfig, ProviderContext, build, build_info, build_with};
