//! The ways in which vendors take a key.

/// What a vendor wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// The key in a header of this name.
    Header(&'static str),
    /// `api-key`, or a bearer token when it is one of Entra ID's.
    Azure,
    /// A bearer token, the file of a service account or a user's credentials, or an API key.
    Google,
    /// A bearer token, or an access key as JSON.
    Aws,
}
