//! The URLs of requests, from a provider's usual base URL or the user's.
//!
//! Users write a base URL in any common form: the host alone, with the version, or with the entire path. The [`Layout`]
//! of the format supplies the rest.

use super::error::{BaseUrlError, RegistryError};
use super::info::ProviderInfo;
use super::layout::{Layout, Tail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// The destination of a provider's requests.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    base: Url,
    layout: Layout,
}

/// The characters to percent-encode in a path segment.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The variable parts of base URLs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UrlVariables<'a> {
    pub(crate) region: Option<&'a str>,
    pub(crate) project: Option<&'a str>,
}

impl Endpoint {
    /// The endpoint of a provider at its usual URL, or at `base`.
    ///
    /// # Errors
    /// The base URL is invalid or missing, or lacks a region.
    pub(crate) fn new(
        info: &'static ProviderInfo,
        base: Option<&str>,
        place: UrlVariables<'_>,
    ) -> Result<Self, RegistryError> {
        let layout = info.layout(base).ok_or(RegistryError::NeedsScript)?;
        let text = match base {
            Some(base) => base.trim().to_owned(),
            None => usual_url(info, place)?,
        };
        let mut url = parse(info, &text)?;
        let version = match layout.tail {
            Tail::Vertex => vertex_version(info, place)?,
            _ => layout.version.to_owned(),
        };
        let path = layout.base_path(url.path(), &version);
        url.set_path(&path);
        Ok(Self { base: url, layout })
    }

    /// Returns the URL of requests to a model.
    pub(crate) fn url(&self, model: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{}", self.base.path().trim_end_matches('/'), self.tail(model)));
        if let Some((name, value)) = self.layout.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    /// Returns the URL of another resource of the vendor's API.
    pub(crate) fn beside(&self, tail: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{tail}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Returns the end of its path, which does not depend on the base URL.
    pub(crate) fn tail(&self, model: &str) -> String {
        match self.layout.tail {
            Tail::Fixed(tail) => tail.to_owned(),
            Tail::Gemini => format!("{}:streamGenerateContent", gemini_model(model)),
            Tail::Vertex => format!("{}:streamGenerateContent", vertex_model(model)),
            Tail::Bedrock => format!("model/{}/converse-stream", segment(model)),
        }
    }
}

/// Returns the provider's own base URL with its region filled in.
fn usual_url(info: &'static ProviderInfo, place: UrlVariables<'_>) -> Result<String, RegistryError> {
    if info.base_url.is_empty() {
        return Err(RegistryError::NeedsBaseUrl { provider: info.name });
    }
    if !info.base_url.contains("{region}") {
        return Ok(info.base_url.to_owned());
    }
    let region = place.region.or(info.default_region).ok_or(RegistryError::NeedsRegion { provider: info.name })?;
    if region.is_empty() || !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(RegistryError::Region { provider: info.name, region: region.to_owned() });
    }
    let own = info.regional_urls.iter().find(|(name, _)| *name == region);
    Ok(own.map_or_else(|| info.base_url.replace("{region}", region), |(_, url)| (*url).to_owned()))
}

/// Returns the version part of a Vertex path. Requests that bill a project name it; those with an API key of the
/// express mode do not.
fn vertex_version(info: &'static ProviderInfo, place: UrlVariables<'_>) -> Result<String, RegistryError> {
    let Some(project) = place.project else { return Ok("v1".to_owned()) };
    let region = place.region.or(info.default_region).ok_or(RegistryError::NeedsRegion { provider: info.name })?;
    Ok(format!("v1/projects/{}/locations/{}", segment(project), segment(region)))
}

fn parse(info: &'static ProviderInfo, text: &str) -> Result<Url, RegistryError> {
    let error = |url: &str, source| RegistryError::BaseUrl { provider: info.name, url: url.to_owned(), source };
    // Do not show text that is not a URL: it may contain a password anywhere.
    let url = Url::parse(text).map_err(|problem| error("…", BaseUrlError::Syntax(problem.into())))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error(url.host_str().unwrap_or_default(), BaseUrlError::Password));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(error(text, BaseUrlError::Scheme));
    }
    Ok(url)
}

fn gemini_model(model: &str) -> String {
    match model.contains('/') {
        true => segments(model),
        false => format!("models/{}", segment(model)),
    }
}

/// Accepts `MODEL`, `PUBLISHER/MODEL`, or a complete resource name.
fn vertex_model(model: &str) -> String {
    match model.split_once('/') {
        None => format!("publishers/google/models/{}", segment(model)),
        Some(("publishers" | "endpoints", _)) => segments(model),
        Some((publisher, model)) => format!("publishers/{}/models/{}", segment(publisher), segment(model)),
    }
}

fn segments(path: &str) -> String {
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Encodes one segment of a path. A segment of dots, which would mean another directory, becomes empty.
fn segment(text: &str) -> String {
    match text.bytes().all(|byte| byte == b'.') {
        true => String::new(),
        false => utf8_percent_encode(text, RESERVED).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendors::provider;
    use pinion_protocol::text::with_causes;

    fn at(name: &str, base: Option<&str>, place: UrlVariables<'_>, model: &str) -> String {
        let info = provider(name).unwrap();
        match Endpoint::new(info, base, place) {
            Ok(endpoint) => endpoint.url(model).to_string(),
            Err(error) => with_causes(&error),
        }
    }

    fn custom(name: &str, base: &str) -> String {
        at(name, Some(base), UrlVariables::default(), "m:1")
    }

    #[test]
    fn every_form_of_base_url_leads_to_the_endpoint() {
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://h:1/v1/messages "] {
            assert_eq!(custom("anthropic", base), "http://h:1/v1/messages");
        }
        assert_eq!(custom("anthropic", "https://h/anthropic"), "https://h/anthropic/v1/messages");
        for base in ["http://h:1", "http://h:1/v1", "http://h:1/v1/chat/completions"] {
            assert_eq!(custom("openai-chat", base), "http://h:1/v1/chat/completions");
        }
        assert_eq!(custom("openai-chat", "https://h/api/v4"), "https://h/api/v4/chat/completions");
        assert_eq!(custom("openai-chat", "https://h/x?api-version=1"), "https://h/x/chat/completions?api-version=1");
        for base in ["http://h:1", "http://h:1/v1/", "http://h:1/v1/responses"] {
            assert_eq!(custom("openai-responses", base), "http://h:1/v1/responses");
        }
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/api/chat"] {
            assert_eq!(custom("ollama", base), "http://h:1/api/chat");
        }
        assert_eq!(custom("proxy", "http://h:1"), "http://h:1/v1/stream");
        assert_eq!(custom("proxy", "https://h/pinion/v1"), "https://h/pinion/v1/stream");
    }

    #[test]
    fn azure_has_its_own_version_and_the_older_paths() {
        let host = "https://me.openai.azure.com";
        assert_eq!(custom("azure", host), format!("{host}/openai/v1/responses"));
        assert_eq!(custom("azure", &format!("{host}/openai/v1/")), format!("{host}/openai/v1/responses"));
        assert_eq!(
            custom("azure", &format!("{host}/openai/v1/chat/completions")),
            format!("{host}/openai/v1/chat/completions")
        );
        assert_eq!(
            custom("azure", &format!("{host}/openai/deployments/mine?api-version=2024-10-21")),
            format!("{host}/openai/deployments/mine/chat/completions?api-version=2024-10-21")
        );
        assert_eq!(
            custom("azure", &format!("{host}/openai?api-version=2025-04-01-preview")),
            format!("{host}/openai/responses?api-version=2025-04-01-preview")
        );
        assert!(at("azure", None, UrlVariables::default(), "m").contains("needs a base URL"));
    }

    #[test]
    fn model_is_part_of_some_urls() {
        let gemini = "https://generativelanguage.googleapis.com/v1beta";
        let usual = |name: &str, model: &str| at(name, None, UrlVariables::default(), model);
        assert_eq!(
            usual("gemini", "gemini-3.8-flash"),
            format!("{gemini}/models/gemini-3.8-flash:streamGenerateContent?alt=sse")
        );
        assert_eq!(
            usual("gemini", "tunedModels/a b"),
            format!("{gemini}/tunedModels/a%20b:streamGenerateContent?alt=sse")
        );
        assert_eq!(custom("gemini", "http://h:1"), "http://h:1/v1beta/models/m%3A1:streamGenerateContent?alt=sse");
        let bedrock = "https://bedrock-runtime.eu-west-1.amazonaws.com/model";
        let place = UrlVariables { region: Some("eu-west-1"), project: None };
        assert_eq!(
            at("bedrock", None, place, "arn:aws:bedrock:x/y-v1:0"),
            format!("{bedrock}/arn%3Aaws%3Abedrock%3Ax%2Fy-v1%3A0/converse-stream")
        );
        assert!(at("bedrock", None, UrlVariables::default(), "m").contains("needs a region"));
        let strange = UrlVariables { region: Some("x.evil.org/"), project: None };
        assert!(at("bedrock", None, strange, "m").contains("invalid region"));
    }

    #[test]
    fn vertex_urls_name_a_project_or_use_express_mode() {
        let tail = "publishers/google/models/g:streamGenerateContent?alt=sse";
        let of = |region, project| at("vertex", None, UrlVariables { region, project }, "g");
        assert_eq!(
            of(None, Some("p")),
            format!("https://aiplatform.googleapis.com/v1/projects/p/locations/global/{tail}")
        );
        assert_eq!(
            of(Some("europe-west4"), Some("p")),
            format!("https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/{tail}")
        );
        assert_eq!(
            of(Some("eu"), Some("p")),
            format!("https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/{tail}")
        );
        assert_eq!(of(None, None), format!("https://aiplatform.googleapis.com/v1/{tail}"));
        assert!(at("vertex", None, UrlVariables::default(), "other/m").contains("/v1/publishers/other/models/m:"));
    }

    #[test]
    fn no_model_name_escapes_its_path() {
        for model in ["..", "../../x", "a/../../b", "%2e%2e", "a?b#c"] {
            for name in ["gemini", "vertex", "bedrock"] {
                let url = Url::parse(&at(name, None, UrlVariables { region: Some("us"), project: Some("..") }, model))
                    .unwrap();
                assert!(!url.path().split('/').any(|part| part == "..") && url.fragment().is_none(), "{url}");
                assert!(matches!(url.query(), None | Some("alt=sse")), "{url}");
            }
        }
    }

    #[test]
    fn invalid_base_url_is_rejected_without_showing_a_password() {
        let message = |base: &str| custom("openai-chat", base);
        assert!(message("ftp://h").contains("must begin with"));
        assert!(message("nonsense").contains("relative URL"));
        let secret = message("https://me:hunter22@h/v1");
        assert!(secret.contains("password") && !secret.contains("hunter22"));
    }
}
