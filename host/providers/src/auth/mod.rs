//! Authentication: from a key to the headers of a request.

mod authenticator;
mod aws;
mod credentials;
mod google;
mod scheme;

pub(crate) use authenticator::Authenticator;
pub(crate) use credentials::{secret_value, trimmed};
pub(crate) use scheme::Auth;
