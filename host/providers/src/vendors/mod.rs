//! The vendors as data, and everything derived from the data.
//!
//! Everything about a vendor is one row of [`PROVIDERS`]: its URL, authentication, wire format, and the variables that
//! its own tools read. Its models are a file in `src/models/builtin`. `docs/vendors.md` walks through adding one.

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
