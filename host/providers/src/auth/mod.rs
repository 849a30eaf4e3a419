//! Authentication: from a key to the headers of a request.

mod authenticator;
mod aws;
mod credentials;
mod google;

pub(crate) use authenticator::{Auth, Authenticator};
pub(crate) use credentials::{secret_value, trimmed};
