//! AWS Signature Version 4 over the headers `host`, `content-type`, `x-amz-date` and the body.
//!
//! An access key is configured as the JSON that `aws configure export-credentials --format process` prints, as does any
//! program that the AWS tools call a `credential_process`.

use super::authenticator::{Credentials, secret_value};
use aws_credential_types::Credentials as Keys;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign as sign_request};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use pinion_protocol::ProviderError;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::time::SystemTime;
use tracing::subscriber::{NoSubscriber, with_default};

const SERVICE: &str = "bedrock";

/// An access key in the form of `credential_process`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AccessKey {
    access_key_id: SecretString,
    secret_access_key: SecretString,
    #[serde(default)]
    session_token: Option<SecretString>,
}

impl AccessKey {
    /// Parses the JSON.
    ///
    /// # Errors
    /// [`ProviderError::Auth`], which does not repeat the key.
    pub(crate) fn read(json: &str) -> Result<Self, ProviderError> {
        serde_json::from_str(json).map_err(|error| ProviderError::Auth {
            message: format!(
                "the access key is not JSON with `AccessKeyId` and `SecretAccessKey` (line {}, column {})",
                error.line(),
                error.column()
            ),
        })
    }

    fn secrets(&self) -> Vec<SecretString> {
        let all = [Some(&self.access_key_id), Some(&self.secret_access_key), self.session_token.as_ref()];
        all.into_iter().flatten().cloned().collect()
    }
}

/// Returns the headers that sign a request with a JSON body.
///
/// # Errors
/// [`ProviderError::Auth`] when the key or the URL is unsuitable for signing.
pub(crate) fn sign(
    key: &AccessKey,
    region: &str,
    url: &Url,
    body: &Bytes,
    now: SystemTime,
) -> Result<Credentials, ProviderError> {
    let failed = |_| ProviderError::Auth { message: "the request could not be signed".to_owned() };
    let keys = Keys::new(
        key.access_key_id.expose_secret(),
        key.secret_access_key.expose_secret(),
        key.session_token.as_ref().map(|token| token.expose_secret().to_owned()),
        None,
        "pinion",
    );
    let identity = keys.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(now)
        .settings(SigningSettings::default());
    let params: SigningParams<'_> =
        params.build().map_err(|_| ProviderError::Auth { message: "the access key is incomplete".to_owned() })?.into();
    let signed = [("content-type", "application/json")].into_iter();
    let request = SignableRequest::new("POST", url.as_str(), signed, SignableBody::Bytes(body)).map_err(failed)?;
    // The signer logs its input, including the key.
    let signed = with_default(NoSubscriber::default(), || sign_request(request, &params));
    let (instructions, _) = signed.map_err(failed)?.into_parts();
    let headers = instructions.headers().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes());
        let name = name.map_err(|_| ProviderError::Auth { message: "the request could not be signed".to_owned() })?;
        Ok((name, secret_value("the access key", value)?))
    });
    Ok(Credentials { headers: headers.collect::<Result<HeaderMap, ProviderError>>()?, secrets: key.secrets() })
}

/// Extracts the region from the host `bedrock-runtime.REGION.amazonaws.com`; other hosts get the default of AWS.
pub(crate) fn region_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let rest = host.strip_prefix("bedrock-runtime.").or_else(|| host.strip_prefix("bedrock-runtime-fips."));
    let region = rest.and_then(|rest| rest.split('.').next());
    region.unwrap_or("us-east-1").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The expected signature was computed independently, by the specification: the path is encoded twice.
    #[test]
    fn signature_matches_the_specification() {
        let key = AccessKey::read(
            r#"{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}"#,
        );
        let url = Url::parse("https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse-stream").unwrap();
        // 2015-08-30T12:36:00Z, as in the examples of AWS.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let signed = sign(&key.unwrap(), "us-east-1", &url, &Bytes::from_static(b"{}"), now).unwrap();
        let header = |name: &str| signed.headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("x-amz-date"), "20150830T123600Z");
        assert_eq!(
            header("authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=260f9f4059322f69af45a44f87359d2ddd53df87913c591d614069b85cd83fc0"
        );
    }

    #[test]
    fn region_is_extracted_from_the_host() {
        let of = |url: &str| region_of(&Url::parse(url).unwrap());
        assert_eq!(of("https://bedrock-runtime.eu-central-1.amazonaws.com/x"), "eu-central-1");
        assert_eq!(of("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x"), "us-gov-west-1");
        assert_eq!(of("http://127.0.0.1:1/x"), "us-east-1");
    }
}
