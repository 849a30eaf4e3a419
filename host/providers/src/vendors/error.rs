//! Errors in the choice and the configuration of a provider.

use crate::transport::ProxyError;
use rustls::pki_types::pem;
use std::error::Error;

/// A provider or model could not be found, or a provider not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No provider has this name.
    #[error("unknown provider `{name}`")]
    UnknownProvider {
        /// The requested name.
        name: String,
        /// Existing names that it resembles.
        similar: Vec<String>,
        /// All names.
        known: Vec<&'static str>,
    },
    /// Every user of the provider has different models, and no model is named.
    #[error("the provider `{provider}` has no default model")]
    NeedsModel {
        /// The provider.
        provider: &'static str,
    },
    /// A provider of the user's cannot have this name.
    #[error("a provider cannot be named `{name}`")]
    CustomName {
        /// The name.
        name: String,
    },
    /// The wire format of a provider of the user's has no such setting.
    #[error("`{quirk}` does not apply to the format of the provider `{provider}`")]
    Quirk {
        /// The provider.
        provider: String,
        /// The key of the config.
        quirk: &'static str,
    },
    /// No provider is named, and the model's name belongs to no provider.
    #[error("no provider is known for the model `{model}`")]
    UnknownModel {
        /// The requested name.
        model: String,
        /// Known names that it resembles.
        similar: Vec<String>,
        /// All providers.
        known: Vec<&'static str>,
    },
    /// The base URL is unusable.
    #[error("invalid base URL `{url}` for `{provider}`")]
    BaseUrl {
        /// The provider.
        provider: &'static str,
        /// The URL, without a password.
        url: String,
        /// The reason.
        #[source]
        source: BaseUrlError,
    },
    /// Every user of the provider has a different base URL, and no base URL is configured.
    #[error("the provider `{provider}` needs a base URL")]
    NeedsBaseUrl {
        /// The provider.
        provider: &'static str,
    },
    /// The provider has regions without a default, and no region is configured.
    #[error("the provider `{provider}` needs a region")]
    NeedsRegion {
        /// The provider.
        provider: &'static str,
    },
    /// The region cannot be part of a host name.
    #[error("invalid region `{region}` for `{provider}`")]
    Region {
        /// The provider.
        provider: &'static str,
        /// The configured region.
        region: String,
    },
    /// A configured header has an invalid name.
    #[error("invalid header name `{name}`")]
    Header {
        /// The configured name.
        name: String,
    },
    /// The certificate authorities are not PEM.
    #[error("invalid certificates for `{provider}`")]
    Certificates {
        /// The provider.
        provider: &'static str,
        /// The parser's error; [`pem::Error::NoItemsFound`] when the text contains no certificate.
        #[source]
        source: pem::Error,
    },
    /// The proxy for its requests is unusable.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The provider plays a script, which is its only configuration.
    #[error("the provider `replay` needs a script")]
    NeedsScript,
}

impl RegistryError {
    /// The remedy, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownProvider { similar, known, .. } => {
                Some(did_you_mean(similar).unwrap_or_else(|| format!("choose one of `{}`", known.join("`, `"))))
            }
            Self::NeedsModel { provider } => Some(format!("name one with `-m {provider}/MODEL`")),
            Self::CustomName { .. } => {
                Some("choose a name without spaces and slashes that no other provider has".to_owned())
            }
            Self::UnknownModel { model, similar, known } => {
                let remedy = || match model.split_once('/') {
                    Some((prefix, _)) => {
                        format!("no provider is named `{prefix}`; choose one of `{}`", known.join("`, `"))
                    }
                    None => "name it as `PROVIDER/MODEL`".to_owned(),
                };
                Some(did_you_mean(similar).unwrap_or_else(remedy))
            }
            Self::Proxy(_) => Some("set it to a URL such as `http://HOST:PORT`, or unset it".to_owned()),
            _ => None,
        }
    }
}

fn did_you_mean(similar: &[String]) -> Option<String> {
    (!similar.is_empty()).then(|| format!("did you mean `{}`?", similar.join("` or `")))
}

/// The reason why a base URL is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It is not a URL.
    #[error(transparent)]
    Syntax(Box<dyn Error + Send + Sync>),
    /// It contains a password, which belongs in a header.
    #[error("it contains a password, which belongs in a header")]
    Password,
    /// Its scheme is not HTTP.
    #[error("it must begin with `http://` or `https://`")]
    Scheme,
}
