//! The authentication schemes of vendors.

/// The form of a key that a vendor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// The key as it is, in the header of this name.
    Header(&'static str),
    /// The header `api-key`, or a bearer token for a token of Entra ID.
    Azure,
    /// A bearer token, the file of a service account or of a user's credentials, or an API key.
    Google,
    /// A bearer token, or an access key as JSON, which signs the request.
    Aws,
}
